"""A leader corrects the delivery-complete count in storage, at a steady pace (spec ACK-23)."""

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from tests.share_leader.world import FOO, TopicPartition, ack, until, world

P0 = TopicPartition(FOO, 0)
ACCEPT = 1


async def test_ack_23_acknowledgements_that_fail_lead_to_one_recount_at_a_time():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest")
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 9)
        await m1.join(P0)
        await m1.fetch()
        w.keeper.write_error = ErrorCode.UNKNOWN_SERVER_ERROR
        for offset in range(1, 9):
            await m1.acknowledge(ack(P0, offset, offset, ACCEPT))
        machine = w.runner(P0).machine
        assert machine.is_behind
        again_ms = w.runner(P0)._environment.settings.write_again_ms
        for _ in range(3):
            before = len(w.keeper.writes)
            await w.clock.advance(again_ms)
            await until(lambda: machine.is_behind and not machine.pending_write_count)
            (recount,) = [write for _, write in w.keeper.writes[before:]]
            assert (recount.is_recount, recount.batches) == (True, ())
        w.keeper.write_error = ErrorCode.NONE
        await w.clock.advance(again_ms)
        await until(lambda: not machine.is_behind and not machine.pending_write_count)
        stored = w.keeper.machine.state(SharePartitionKey(GroupId("g"), FOO, 0))
        assert (stored.start_offset, stored.delivery_complete_count) == (0, 0)
