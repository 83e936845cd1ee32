"""What waits to be sent on a Consume stream when rights change."""

from sharemesh.share_leader.streaming.outbox import Outbox, record_bytes_of
from sharemesh.v1 import share_leader_pb2 as pb


async def test_the_last_word_of_a_stream_is_not_taken_back_with_the_records_of_a_right():
    outbox = Outbox(2)
    outbox.put(pb.ConsumeResponse(error_code=30, error_message="no right"))
    outbox.withhold(lambda _: False)
    outbox.close()
    last = await outbox.take()
    assert last is not None
    assert last.message.error_code == 30


async def test_the_bytes_of_records_that_wait_are_counted_until_they_are_taken_or_withheld():
    """BND-3."""
    outbox = Outbox(3)
    for partitions in ((0, 1), (1,), (0,)):
        message = pb.ConsumeResponse()
        topic = message.responses.add(topic_id=b"t" * 16)
        for partition in partitions:
            entry = topic.partitions.add(partition=partition, records=b"r" * 10)
            entry.decoded_records.add(value=b"v")
            entry.acquired_records.add(first_offset=0, last_offset=0)
        outbox.put(message, sum(map(record_bytes_of, topic.partitions)))
    (entry,) = pb.ConsumeResponse(responses=message.responses).responses[0].partitions
    each = record_bytes_of(entry)
    assert each > 10
    assert outbox.waiting_bytes == 4 * each
    outbox.withhold(lambda partition: partition.partition == 1)
    assert outbox.waiting_bytes == 2 * each
    taken = await outbox.take()
    assert taken is not None
    assert taken.record_bytes == outbox.waiting_bytes == each
