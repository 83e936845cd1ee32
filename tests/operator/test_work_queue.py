"""Rounds: one key at most once at a time, repeats melt together, failures come back later."""

import asyncio

from sharemesh_operator.cluster.work_queue import BACKOFF_FIRST_MS, GAP_MS, Key, WorkQueue
from tests.clocks import LoopClock

KEY = Key("ShareGroup", "billing")
OTHER = Key("ShareGroup", "other")


class Work:
    def __init__(self):
        self.rounds, self.active, self.most = [], 0, 0
        self.release = asyncio.Event()
        self.again, self.fail = None, 0
        self.told = asyncio.Condition()

    async def __call__(self, key):
        self.active += 1
        self.most = max(self.most, self.active)
        await self.release.wait()
        self.active -= 1
        async with self.told:
            self.rounds.append((key, asyncio.get_running_loop().time()))
            self.told.notify_all()
        if self.fail:
            self.fail -= 1
            raise RuntimeError("not today")
        return self.again

    async def until(self, count):
        async with asyncio.timeout(20), self.told:
            await self.told.wait_for(lambda: len(self.rounds) >= count)


async def test_requests_for_a_key_melt_and_never_run_at_the_same_time():
    work = Work()
    queue = WorkQueue(work, LoopClock())
    queue.start()
    for _ in range(5):
        queue.add(KEY)
    await asyncio.sleep(0.01)
    for _ in range(5):
        queue.add(KEY)  # while its round is under way: exactly one more
    work.release.set()
    await work.until(2)
    assert work.most == 1
    assert len(work.rounds) == 2
    assert work.rounds[1][1] - work.rounds[0][1] >= GAP_MS / 1_000 * 0.5
    await queue.close()


async def test_different_keys_run_at_the_same_time():
    work = Work()
    queue = WorkQueue(work, LoopClock())
    queue.start()
    queue.add(KEY)
    queue.add(OTHER)
    await asyncio.sleep(0.01)
    work.release.set()
    await work.until(2)
    assert work.most == 2
    await queue.close()


async def test_a_failed_round_comes_back_after_a_while():
    work = Work()
    work.fail = 1
    work.release.set()
    queue = WorkQueue(work, LoopClock())
    queue.start()
    queue.add(KEY)
    await work.until(2)
    assert queue.failures == 1
    assert work.rounds[1][1] - work.rounds[0][1] >= BACKOFF_FIRST_MS / 1_000
    await queue.close()


async def test_a_round_may_ask_to_come_again_and_a_dropped_key_does_not():
    work = Work()
    work.again = 1
    work.release.set()
    queue = WorkQueue(work, LoopClock())
    queue.start()
    queue.add(KEY)
    await work.until(3)
    work.again = None
    queue.drop(KEY)
    await queue.close()
    assert {key for key, _ in work.rounds} == {KEY}
