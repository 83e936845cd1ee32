"""A claim is given on while the last state writes are under way (HND-13)."""

import asyncio

from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.drained import (
    DRAIN_MS,
    NOT_LEADER,
    draining,
    echoed,
    held,
    told,
)
from tests.share_leader.test_consume import P0, acknowledge, results
from tests.share_leader.world import ack, until, world


class Given:
    """The claim as the drain sees it: whether it was given on, and what was open then."""

    def __init__(self, w):
        self.world = w
        self.writes: list[int] = []

    async def __call__(self):
        assert self.world.service.partitions.get(P0).log_closed
        self.writes.append(len(self.world.keeper.writes))


async def test_the_claim_is_given_on_while_the_last_write_is_under_way_hnd_13():
    async with world() as w:
        epoch, _, stream = await held(w)
        given = Given(w)
        w.keeper.open.clear()
        stopping = asyncio.create_task(
            w.service.stop_partition(P0, drain_ms=DRAIN_MS, give_on=given)
        )
        await w.clock.settle()
        assert not given.writes, "somebody has not answered yet"
        await w.produce(P0, 1)
        await echoed(stream)
        await until(lambda: given.writes and w.keeper.writes)
        assert (await w.append(P0, 1)).error_code == NOT_LEADER, "the log is closed"
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))])
        )
        await w.clock.settle()
        assert not stopping.done()
        w.keeper.open.set()
        assert await told(stream) == [(0, epoch)]
        await stopping
        assert len(given.writes) == 1
        assert [write.is_last for _, write in w.keeper.writes] == [True]
        await w.lead(P0)
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(2, ack(P0, 0, 4, 1, epoch=epoch))])
        )
        assert (await results(stream, 2)) == {P0: 0}


async def test_who_holds_nothing_sends_a_last_write_if_it_is_awaited_hnd_13():
    async with world() as w:
        epoch, _, stream = await held(w)
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))])
        )
        await results(stream, 1)
        given = Given(w)
        await w.service.stop_partition(P0, drain_ms=DRAIN_MS, give_on=given)
        assert len(given.writes) == 1
        assert [(write.is_last, write.hand_over) for _, write in w.keeper.writes[1:]] == [
            (True, ())
        ]


async def test_the_claim_follows_later_if_a_state_is_not_read_hnd_13():
    async with world() as w:
        await w.lead(P0)
        w.keeper.open.clear()
        await w.client().consume(P0, follows_hand_over=True)
        await until(lambda: w.keeper.reads)
        await w.assign("leader-2", P0)
        given = Given(w)
        stopping = asyncio.create_task(
            w.service.stop_partition(P0, drain_ms=DRAIN_MS, give_on=given)
        )
        await w.clock.advance(LeaderSettings().hand_over_ms)
        await w.clock.settle()
        w.keeper.open.set()
        await stopping
        assert not given.writes
        assert w.keeper.writes == []


async def test_who_drains_before_it_has_the_locks_waits_for_them_and_hands_them_on_hnd_13():
    """It took the claim while the leader before was still writing, and then it must go itself."""
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        w.keeper.open.clear()
        await w.lead(P0)
        reads = len(w.keeper.reads)
        await w.client("m2").consume(P0)
        await until(lambda: len(w.keeper.reads) > reads)
        await w.assign("leader-2", P0)
        stopping = draining(w)
        await w.clock.settle()
        assert not stopping.done()
        w.keeper.open.set()
        await echoed(stream)
        await stopping
        first, second = (write.hand_over for _, write in w.keeper.writes)
        assert [(each.first_offset, each.last_offset, each.leader_epoch) for each in second] == [
            (each.first_offset, each.last_offset, epoch) for each in first
        ]
