// A share consumer in another language: decoded records, one stream for each leader.
//
//	examples/go/build.sh && build/go/bin/consumer 127.0.0.1:9400 orders billing 10
package main

import (
	pb "consumer/sharemesh/v1"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func at(address string) *grpc.ClientConn {
	return must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))
}

// consume prints and accepts what one leader delivers; done hears of what is durably accepted.
func consume(leader string, start *pb.ConsumeStart, topicID []byte, partitions []int32, done chan<- int64) {
	stream := must(pb.NewShareLeaderClient(at(leader)).Consume(context.Background()))
	request := &pb.ConsumeRequest{Start: start, CreditRecords: 500,
		Add: []*pb.TopicPartitions{{TopicId: topicID, Partitions: partitions}}}
	for {
		must(0, stream.Send(request))
		answer := must(stream.Recv())
		request = &pb.ConsumeRequest{}
		for _, result := range answer.Acknowledged {
			done <- result.AcknowledgeId
		}
		for _, response := range answer.Responses {
			for _, part := range response.Partitions {
				for _, record := range part.DecodedRecords {
					fmt.Println(part.Partition, record.Offset, string(record.Value))
				}
				for _, r := range part.AcquiredRecords { // 1 accepts, 2 releases, 3 rejects
					count := r.LastOffset - r.FirstOffset + 1
					batch := &pb.AcknowledgementBatch{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset, AcknowledgeTypes: []int32{1}}
					request.CreditRecords += count
					request.Acknowledgements = append(request.Acknowledgements, &pb.ConsumeAcknowledge{AcknowledgeId: count,
						Topics: []*pb.AcknowledgeTopic{{TopicId: topicID, Partitions: []*pb.AcknowledgePartition{
							{Partition: part.Partition, AcknowledgementBatches: []*pb.AcknowledgementBatch{batch}}}}}})
				}
			}
		}
	}
}

func main() {
	ctx, topic, group, wanted := context.Background(), os.Args[2], os.Args[3], must(strconv.ParseInt(os.Args[4], 10, 64))
	admin := pb.NewAdminClient(at(os.Args[1]))
	node := must(admin.FindCoordinator(ctx, &pb.FindCoordinatorRequest{Keys: []string{group}})).Coordinators[0].Node
	coordinator := pb.NewGroupCoordinatorClient(at(fmt.Sprintf("%s:%d", node.Host, node.Port)))
	me := &pb.ShareGroupHeartbeatRequest{GroupId: group, MemberId: fmt.Sprintf("go-%d", time.Now().UnixNano()), MaxWaitMs: 5000,
		SubscribedTopicNames: &pb.SubscribedTopicNames{Names: []string{topic}}}
	joined := must(coordinator.ShareGroupHeartbeat(ctx, me))
	metadata := must(admin.Metadata(ctx, &pb.MetadataRequest{Topics: &pb.TopicNames{Names: []string{topic}}}))
	led := map[string][]int32{}
	for _, part := range metadata.Topics[0].Partitions { // a lone member is assigned all of them
		led[part.LeaderId] = append(led[part.LeaderId], part.Partition)
	}
	done := make(chan int64)
	start := &pb.ConsumeStart{GroupId: group, MemberId: me.MemberId, RecordFormat: pb.RecordFormat_RECORD_FORMAT_DECODED}
	for _, node := range metadata.Nodes {
		if partitions := led[node.NodeId]; partitions != nil {
			go consume(fmt.Sprintf("%s:%d", node.Host, node.Port), start, metadata.Topics[0].TopicId, partitions, done)
		}
	}
	me.MemberEpoch, me.SubscribedTopicNames = joined.MemberEpoch, nil
	for beats := time.Tick(time.Duration(joined.HeartbeatIntervalMs) * time.Millisecond); wanted > 0; {
		select {
		case count := <-done:
			wanted -= count
		case <-beats:
			me.MemberEpoch = must(coordinator.ShareGroupHeartbeat(ctx, me)).MemberEpoch
		}
	}
	me.MemberEpoch = -1 // leaves
	must(coordinator.ShareGroupHeartbeat(ctx, me))
}
