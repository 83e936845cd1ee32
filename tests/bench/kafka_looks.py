"""Looks at etcd, which every answer of a process waits for where its logs are topics (STL-18)."""

import asyncio
import random
import statistics
import time

import uvloop

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.local.clock import SystemClock
from sharemesh.cluster.ownership import SharedReads
from sharemesh.ports.coordination import Put
from sharemesh.tasks import OwnedTasks
from tests.bench.figures import Figure
from tests.etcd_server import EtcdServer

PREFIX = "bench/epoch/"
EPOCHS = 32  # of the shards of a cluster as it ships
A_SECOND, SECONDS = 1_000, 4
CALLERS, ROUNDS_OF_CALLERS = 64, 100


class CountedReads:
    """The range of epochs, read from etcd."""

    def __init__(self, store) -> None:
        self._store = store
        self.count = 0

    async def read(self):
        """Read it once."""
        self.count += 1
        return await self._store.list(PREFIX)


async def _steady(shared):
    """Return ms of looks that begin a thousand times a second."""
    times = []

    async def look():
        began = time.perf_counter()
        await shared.after_now()
        times.append((time.perf_counter() - began) * 1_000)

    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(A_SECOND * SECONDS):
            left = began + number / A_SECOND - loop.time()
            if left > 0:
                await asyncio.sleep(left)
            group.create_task(look())
    return times


async def _full(shared, reads):
    """Return (looks, reads of etcd) a second of callers that look all the time."""

    async def caller():
        for _ in range(ROUNDS_OF_CALLERS):
            await shared.after_now()

    before, began = reads.count, time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    took = time.perf_counter() - began
    return CALLERS * ROUNDS_OF_CALLERS / took, (reads.count - before) / took


async def _looks(directory):
    etcd, clock = EtcdServer(directory), SystemClock()
    await etcd.start()
    store = EtcdCoordination((etcd.endpoint,), clock=clock, rng=random.SystemRandom())
    tasks = OwnedTasks("looks")
    try:
        await store.commit([], [Put(f"{PREFIX}{number}", b"1") for number in range(EPOCHS)])
        reads = CountedReads(store)
        shared = SharedReads(reads.read, tasks, clock)
        return await _steady(shared), *await _full(shared, reads)
    finally:
        await tasks.close()
        await store.close()
        etcd.stop()


def figures(directory):
    """Return what a look adds at a thousand a second, and what etcd is asked at full load."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        times, looks, reads = runner.run(_looks(directory))
    added = statistics.median(times)
    return [
        Figure("kafka.look.ms", added, "ms", floor=1, at_most=True),
        Figure("kafka.look.shared", looks, "looks/s", reads, looks / reads),
    ]
