"""The fetch lock of a share partition is always given on (spec DF-1, DF-2, DF-5)."""

import asyncio

from sharemesh.share_leader.requests.delayed_share_fetch import DelayedShareFetch
from sharemesh.timers import Timers
from tests.share_leader.world import FOO, TopicPartition, acquired, until, world

P0 = TopicPartition(FOO, 0)


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
