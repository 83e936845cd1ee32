"""The fetch lock of a share partition is always given on (spec DF-1, DF-2, DF-5, DF-12)."""

import asyncio

from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.share_leader.requests.delayed_share_fetch import DelayedShareFetch
from sharemesh.timers import Timers
from tests.share_leader.world import FOO, TopicPartition, acquired, until, world

P0, P1, P2 = (TopicPartition(FOO, number) for number in range(3))


async def test_a_fetch_that_found_the_lock_taken_goes_on_once_it_is_free():
    """KAFKA-20505: who is woken while the lock is still held waits for ever."""
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        await w.produce(P0, 5)
        runner, other = w.runner(P0), object()
        assert runner.try_lock(other)
        waiting = asyncio.create_task(m1.fetch(max_wait_ms=20_000))
        await until(lambda: runner.has_waiters)
        runner.unlock(other)
        await until(waiting.done)
        assert acquired(await waiting, P0) == [(0, 4, 1)]


async def test_a_fetch_that_is_cancelled_when_it_gets_the_lock_gives_it_back():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        runner = w.runner(P0)
        await w.produce(P0, 5)
        other = object()
        assert runner.try_lock(other)
        wait = DelayedShareFetch([runner], min_bytes=1, max_bytes=1_000_000)
        task = asyncio.create_task(wait.until(None, Timers(w.clock)))
        await until(lambda: runner.has_waiters)
        runner.unlock(other, wake=False)
        wait.poke()  # it has the lock from now on
        task.cancel()
        await asyncio.wait([task])
        assert acquired(await m1.fetch(max_wait_ms=0), P0) == [(0, 4, 1)]


class GatedReads:
    """Reads of one share partition's log wait until they are let through."""

    def __init__(self, runner):
        self._read = runner.log.read
        self.reading, self.open = asyncio.Event(), asyncio.Event()
        runner.log.read = self

    async def __call__(self, *arguments, **named):
        self.reading.set()
        await self.open.wait()
        return await self._read(*arguments, **named)


async def test_a_fetch_does_not_keep_others_from_partitions_that_it_does_not_need():
    async with world() as w:
        m1, m2 = w.client("m1"), w.client("m2")
        for partition in (P0, P1):
            await w.lead(partition)
        for member in (m1, m2):
            await member.join(P0, P1)
        for partition in (P0, P1):
            await w.produce(partition, 10)
        reads = GatedReads(w.runner(P1))  # the first one of a session's epoch 1 (ROT-1)
        first = asyncio.create_task(m1.fetch(max_records=10))
        await reads.reading.wait()
        second = asyncio.create_task(m2.fetch(max_records=10))
        await until(second.done)
        assert acquired(await second, P0) == [(0, 9, 1)]
        reads.open.set()
        assert acquired(await first, P1) == [(0, 9, 1)]


async def test_a_fetch_that_needs_more_than_it_expected_takes_what_is_still_free():
    async with world() as w:
        m1, m2 = w.client("m1"), w.client("m2")
        for partition in (P0, P1, P2):
            await w.lead(partition)
        for member in (m1, m2):
            await member.join(P0, P1, P2)
        for partition in (P0, P1, P2):
            await w.produce(partition, 10)
        reads = GatedReads(w.runner(P1))
        real, w.runner(P1).acquire = (
            w.runner(P1).acquire,
            lambda event: real(event._replace(max_fetch_records=4, mode=AcquireMode.RECORD_LIMIT)),
        )
        first = asyncio.create_task(m1.fetch(max_records=10))
        await reads.reading.wait()
        assert w.runner(P2).try_lock(m2)  # another fetch is at P2 meanwhile
        reads.open.set()
        response = await first
        w.runner(P2).unlock(m2)
        assert acquired(response, P1) == [(0, 3, 1)]
        assert acquired(response, P2) == []
        assert acquired(response, P0) == [(0, 9, 1)]
        assert acquired(await m2.fetch(max_records=10), P2) == [(0, 9, 1)]
