// Heartbeats to whoever coordinates the group.
package main

import (
	pb "consumer/sharemesh/v1"
	"context"
	"time"

	"google.golang.org/grpc"
)

// heartbeat finds the coordinator anew each time: groups move when a process comes or goes.
func heartbeat(admin pb.AdminClient, nodes map[string]*grpc.ClientConn, me *pb.ShareGroupHeartbeatRequest) *pb.ShareGroupHeartbeatResponse {
	ctx := context.Background()
	for ; ; time.Sleep(100 * time.Millisecond) {
		found := must(admin.FindCoordinator(ctx, &pb.FindCoordinatorRequest{Keys: []string{me.GroupId}})).Coordinators[0]
		if moves(found.ErrorCode) {
			continue
		}
		check("coordinator of "+me.GroupId, found.ErrorCode, found.ErrorMessage)
		beat := must(pb.NewGroupCoordinatorClient(nodes[found.Node.NodeId]).ShareGroupHeartbeat(ctx, me))
		if moves(beat.ErrorCode) {
			continue
		}
		check("group "+me.GroupId, beat.ErrorCode, beat.ErrorMessage)
		return beat
	}
}

// moves returns whether a group is between coordinators: it is loading (14), nobody's (15) or another one's (16).
func moves(code int32) bool {
	return code >= 14 && code <= 16
}
