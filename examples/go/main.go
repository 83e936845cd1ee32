// A share consumer without a client library: build/go/bin/consumer 127.0.0.1:9400 orders billing
package main

import (
	pb "consumer/sharemesh/v1"
	"context"
	"crypto/rand"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if len(os.Args) != 4 {
		end(2, "usage: consumer HOST:PORT TOPIC GROUP")
	}
	ctx, names, group := context.Background(), os.Args[2:3], os.Args[3]
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	admin := pb.NewAdminClient(must(grpc.NewClient(os.Args[1], plain)))
	metadata := must(admin.Metadata(ctx, &pb.MetadataRequest{Topics: &pb.TopicNames{Names: names}}))
	topic, nodes, fetch := metadata.Topics[0], map[string]*grpc.ClientConn{}, map[string][]*pb.AcknowledgePartition{}
	check("topic "+names[0], topic.ErrorCode, topic.ErrorMessage)
	for _, node := range metadata.Nodes {
		connection(nodes, node)
	}
	for _, part := range topic.Partitions { // a lone member is assigned all of them
		fetch[part.LeaderId] = append(fetch[part.LeaderId], &pb.AcknowledgePartition{Partition: part.Partition})
	}
	me := &pb.ShareGroupHeartbeatRequest{GroupId: group, MemberId: rand.Text(), MaxWaitMs: 5000,
		SubscribedTopicNames: &pb.SubscribedTopicNames{Names: names}}
	for epoch := int32(0); ; epoch++ { // of the share session with each leader: 0 opens it
		me.MemberEpoch = heartbeat(admin, nodes, me).MemberEpoch
		for leader, partitions := range fetch {
			answer := must(pb.NewShareLeaderClient(nodes[leader]).ShareFetch(ctx, &pb.ShareFetchRequest{
				GroupId: group, MemberId: me.MemberId, ShareSessionEpoch: epoch, RecordFormat: pb.RecordFormat_RECORD_FORMAT_DECODED,
				MaxWaitMs: 200, MaxBytes: 1 << 20, MaxRecords: 500, Topics: []*pb.AcknowledgeTopic{{TopicId: topic.TopicId, Partitions: partitions}}}))
			check("leader "+leader, answer.ErrorCode, answer.ErrorMessage)
			fetch[leader] = nil // the session knows its partitions
			for _, response := range answer.Responses {
				for _, part := range response.Partitions {
					warn(part.Partition, part.ErrorMessage, part.AcknowledgeErrorMessage) // what is not accepted comes again
					accepted := &pb.AcknowledgePartition{Partition: part.Partition}       // with the next fetch
					for _, record := range part.DecodedRecords {
						fmt.Println(part.Partition, record.Offset, string(record.Value))
						accepted.AcknowledgementBatches = append(accepted.AcknowledgementBatches, &pb.AcknowledgementBatch{
							FirstOffset: record.Offset, LastOffset: record.Offset, AcknowledgeTypes: []int32{1}})
					}
					fetch[leader] = append(fetch[leader], accepted)
				}
			}
		}
	}
}
