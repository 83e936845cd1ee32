"""A damaged batch in the decoded form: neighbours are delivered, its offsets are told (BND-15)."""

from sharemesh import methods
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1 import share_leader_pb2 as pb
from tests.codec.test_damaged_batches import RECORD_BYTES, batch
from tests.share_leader.world import FOO, LEADER, TopicPartition, ack, acquired, parts, world

P0 = TopicPartition(FOO, 0)


async def test_neighbours_of_a_damaged_batch_are_delivered_and_only_its_rest_is_reported():
    async with world() as w:
        await w.lead(P0)
        records = batch(0) + batch(0, damaged_at=RECORD_BYTES) + batch(0)
        part = rl.ProducePartition(topic_id=FOO, partition=0, records=records)
        request = rl.ProduceRequest(partitions=[part])
        [landed] = (await w.network.caller().call(methods.PRODUCE, request, to=LEADER)).partitions
        assert landed.error_code == 0
        member = w.client()
        await member.join(P0)
        answer = await member.fetch(record_format=pb.RECORD_FORMAT_DECODED)
        entry = parts(answer)[P0]
        assert [each.offset for each in entry.decoded_records] == [0, 1, 2, 3, 6, 7, 8]
        assert [(each.first_offset, each.last_offset) for each in entry.undecodable] == [(4, 5)]
        assert entry.error_code == 2
        assert acquired(answer, P0) == [(0, 8, 1)]
        answer = await member.acknowledge(ack(P0, 0, 3, 1), ack(P0, 4, 5, 3), ack(P0, 6, 8, 1))
        assert parts(answer)[P0].error_code == 0
        assert w.runner(P0).machine.start_offset == 9
