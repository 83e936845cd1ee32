"""Lots of suspicious records are deliveries of their own on a Consume stream (THR-3 to THR-5)."""

from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.test_consume import P0, acknowledge, deliveries, results
from tests.share_leader.world import ack, world

RELEASE = 2
ACCEPT = 1


async def released(w, stream, count, epoch, times):
    """Let a batch of so many records be delivered whole and released so often."""
    for number in range(1, times + 1):
        assert await deliveries(stream, count) == {P0: [(0, count - 1, number)]}
        await stream.send(
            pb.ConsumeRequest(
                acknowledgements=[acknowledge(number, ack(P0, 0, count - 1, RELEASE, epoch=epoch))]
            )
        )
        assert await results(stream, number) == {P0: 0}


async def test_the_next_lot_waits_for_the_acknowledgement_of_the_one_before():
    async with world() as w:
        epoch = await w.lead(P0)
        stream = await w.client().consume(P0, records=1_000)
        await w.produce(P0, 8)
        await released(w, stream, 8, epoch, 3)
        assert await deliveries(stream, 4) == {P0: [(0, 3, 4)]}
        await w.clock.settle()
        assert w.runner(P0).machine.state_at(4).delivery_count == 3  # not in the same delivery
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(9, ack(P0, 0, 3, ACCEPT, epoch=epoch))])
        )
        assert await results(stream, 9) == {P0: 0}
        assert await deliveries(stream, 4) == {P0: [(4, 7, 4)]}


async def test_a_lot_that_nobody_acknowledges_holds_up_the_partition_for_a_second_only():
    async with world() as w:
        epoch = await w.lead(P0)
        stream = await w.client().consume(P0, records=1_000)
        await w.produce(P0, 8)
        await released(w, stream, 8, epoch, 3)
        assert await deliveries(stream, 4) == {P0: [(0, 3, 4)]}
        await w.clock.settle()
        await w.clock.advance(999)
        assert w.runner(P0).machine.state_at(4).delivery_count == 3
        await w.clock.advance(1)
        assert await deliveries(stream, 4) == {P0: [(4, 7, 4)]}
