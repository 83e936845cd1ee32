"""What waits to be sent on a Consume stream when rights change."""

from sharemesh.share_leader.streaming.outbox import Outbox
from sharemesh.v1 import share_leader_pb2 as pb


async def test_the_last_word_of_a_stream_is_not_taken_back_with_the_records_of_a_right():
    outbox = Outbox(2)
    outbox.put(pb.ConsumeResponse(error_code=30, error_message="no right"))
    outbox.withhold(lambda _: False)
    outbox.close()
    last = await outbox.take()
    assert last is not None
    assert last.error_code == 30
