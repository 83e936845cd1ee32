"""What a leader writes says when it was acquired (docs/spec/explain.md, EXP-9)."""

from tests.share_leader.test_delayed_retry import ACCEPT, P0, explain, held
from tests.share_leader.world import ack, world


async def test_exp_9_a_settlement_says_when_its_records_were_acquired():
    async with world() as w:
        m1 = await held(w)
        acquired_at_ms = w.clock.wall_ms()
        await w.clock.advance(700)
        await m1.acknowledge(ack(P0, 0, 3, ACCEPT))
        (_, write) = w.keeper.writes[-1]
        assert [each.acquired_at_ms for each in write.batches] == [acquired_at_ms]
        _, record = w.keeper.records[-1]
        assert [each.acquired_at_ms for each in record.batches] == [acquired_at_ms]
        told = (await explain(w, 2)).events[-1]
        assert (told.timestamp_ms, told.acquired_at_ms) == (w.clock.wall_ms(), acquired_at_ms)


async def test_exp_9_a_state_and_its_snapshots_do_not_keep_the_times():
    async with world() as w:
        m1 = await held(w)
        await m1.acknowledge(ack(P0, 3, 4, ACCEPT))
        (key, _) = w.keeper.writes[-1]
        assert [each.acquired_at_ms for each in w.keeper.machine.state(key).batches] == [0]
        [snapshot] = w.keeper.machine.cold_snapshot(key, now_ms=w.clock.wall_ms())
        assert [each.acquired_at_ms for each in snapshot.batches] == [0]
