// Heartbeats to whoever coordinates the group.
package main

import (
	pb "consumer/sharemesh/v1"
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// heartbeat finds the coordinator anew each time: groups move when a process comes or goes.
func heartbeat(admin pb.AdminClient, nodes map[string]*grpc.ClientConn, me *pb.ShareGroupHeartbeatRequest) *pb.ShareGroupHeartbeatResponse {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for told := false; ; told = true {
		found := must(admin.FindCoordinator(ctx, &pb.FindCoordinatorRequest{Keys: []string{me.GroupId}})).Coordinators[0]
		code, message := found.ErrorCode, found.ErrorMessage
		if code == 0 {
			beat, err := pb.NewGroupCoordinatorClient(connection(nodes, found.Node)).ShareGroupHeartbeat(ctx, me)
			if status.Code(err) == codes.Unavailable { // it ended, and another one takes over
				beat, err = &pb.ShareGroupHeartbeatResponse{ErrorCode: 15, ErrorMessage: err.Error()}, nil
			}
			if must(beat, err).ErrorCode == 0 {
				return beat
			}
			code, message = beat.ErrorCode, beat.ErrorMessage
		}
		if !moves(code) {
			check("group "+me.GroupId, code, message)
		}
		if !told {
			fmt.Fprintf(os.Stderr, "consumer: group %s moves, asking again for 30 s: %s\n", me.GroupId, message)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// moves returns whether a group is between coordinators: it is loading (14), nobody's (15) or another one's (16).
func moves(code int32) bool {
	return code >= 14 && code <= 16
}

// connection returns the one to a process, which may be new, or have another address since it was restarted.
func connection(nodes map[string]*grpc.ClientConn, node *pb.Node) *grpc.ClientConn {
	known, address := nodes[node.NodeId], fmt.Sprintf("%s:%d", node.Host, node.Port)
	if known != nil && known.Target() == address {
		return known
	}
	if known != nil {
		known.Close()
	}
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	nodes[node.NodeId] = must(grpc.NewClient(address, plain))
	return nodes[node.NodeId]
}
