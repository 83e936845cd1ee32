"""ShareFetch and ShareAcknowledge over the in-process network, real log, real machine."""

import asyncio

from tests.share_leader.world import (
    FOO,
    TopicPartition,
    ack,
    acquired,
    parts,
    world,
)

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)


async def test_produced_records_are_fetched_acknowledged_and_gone():
    async with world() as w:
        epoch = await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 10)
        await m1.join(P0)
        response = await m1.fetch()
        assert response.error_code == 0, response
        assert acquired(response, P0) == [(0, 9, 1)]
        assert response.acquisition_lock_timeout_ms == 30_000
        assert parts(response)[P0].leader_epoch == epoch
        answer = await m1.acknowledge(ack(P0, 0, 9, 1, epoch=epoch))
        assert parts(answer)[P0].error_code == 0
        await w.produce(P0, 10)
        assert acquired(await m1.fetch(), P0) == [(10, 19, 1)]
        ((_, write),) = w.keeper.writes
        assert [(b.first_offset, b.last_offset, b.delivery_state) for b in write.batches] == [
            (0, 9, 2)
        ]


async def test_a_long_poll_ends_as_soon_as_records_arrive():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        waiting = asyncio.create_task(m1.fetch(P0, max_wait_ms=10_000))
        await w.clock.settle()
        assert not waiting.done()
        await w.produce(P0, 3)
        assert acquired(await waiting, P0) == [(0, 2, 1)]


async def test_a_long_poll_ends_empty_at_max_wait():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.create_task(w.client().fetch(P0, max_wait_ms=700))
        await w.clock.advance(699)
        assert not waiting.done()
        await w.clock.advance(1)
        response = await waiting
        assert (response.error_code, acquired(response, P0)) == (0, [])


async def test_an_expired_lock_gives_the_record_to_another_member():
    async with world() as w:
        await w.lead(P0)
        m1, m2 = w.client("m1"), w.client("m2")
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        assert acquired(await m2.fetch(P0), P0) == []
        await w.clock.advance(30_000)
        assert acquired(await m2.fetch(), P0) == [(0, 4, 2)]
        assert w.service.counters.locks_expired == 5
        # Nobody heard of m1 for the lock duration: its session is gone with its locks.
        assert (await m1.acknowledge(ack(P0, 0, 4, 1))).error_code == 122
