"""Which partitions are polled often, and which seldom (docs/spec/kafka-record-log.md, KRL-2)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from sharemesh.ports.brokers import BrokerWatch, WatchAnswer, WatchedPartition
from tests.backends.kafka.record_log_world import (
    QUICK,
    KafkaWorld,
    all_read,
    batch,
    kafka_world,
    until,
)

BOUNDS = replace(QUICK, watch_wait_ms=10, idle_wait_ms=40, hot_ms=80)
ACTIVE, IDLE = 0, 1


class _SeenWatch:
    """A watch whose partitions a test can see, and when they were last others."""

    def __init__(self, watch: BrokerWatch) -> None:
        self._watch = watch
        self.has: set[int] = set()
        self.came_s: dict[int, float] = {}
        self.went_s: dict[int, float] = {}
        self.waits_ms: set[int] = set()

    def set(self, partitions: Sequence[WatchedPartition]) -> None:
        now_s = asyncio.get_running_loop().time()
        has = {each.partition.partition for each in partitions}
        self.came_s |= dict.fromkeys(has - self.has, now_s)
        self.went_s |= dict.fromkeys(self.has - has, now_s)
        self.has = has
        self._watch.set(partitions)

    async def poll(self, max_wait_ms: int) -> Sequence[WatchAnswer]:
        self.waits_ms.add(max_wait_ms)
        return await self._watch.poll(max_wait_ms)

    async def close(self) -> None:
        await self._watch.close()


def seen_watches(w: KafkaWorld) -> list[_SeenWatch]:
    made: list[_SeenWatch] = []
    watch = w.client.watch

    def seen() -> _SeenWatch:
        made.append(_SeenWatch(watch()))
        return made[-1]

    w.client.watch = seen
    return made


async def opened(w: KafkaWorld, watches: list[_SeenWatch], partition: int = 0):
    """Open a partition; both watches are there then."""
    log = await w.open(partition=partition)
    await until(lambda: len(watches) == 2)
    return log


async def test_partitions_without_news_are_polled_seldom_and_active_ones_often():
    """KRL-2."""
    async with kafka_world(BOUNDS) as w:
        watches = seen_watches(w)
        one, other = await opened(w, watches), await opened(w, watches, 1)
        await until(lambda: watches[ACTIVE].has == {0, 1})
        await until(lambda: not watches[ACTIVE].has and watches[IDLE].has == {0, 1})
        assert [each.waits_ms for each in watches] == [{10}, {40}]
        await w.write(batch(2))
        await until(lambda: one.high_watermark == 2)
        await until(lambda: watches[ACTIVE].has == {0} and watches[IDLE].has == {1})
        assert other.high_watermark == 0
        await until(lambda: not watches[ACTIVE].has and watches[IDLE].has == {0, 1})
        await one.close()
        await other.close()


async def test_a_partition_whose_end_is_read_stays_among_the_active_ones():
    """KRL-2."""
    async with kafka_world(BOUNDS) as w:
        watches = seen_watches(w)
        read, quiet = await opened(w, watches), await opened(w, watches, 1)
        await w.write(batch(1))
        await until(lambda: read.high_watermark == 1)
        until_s = asyncio.get_running_loop().time() + 0.4
        while asyncio.get_running_loop().time() < until_s:  # far longer than one is active
            assert await all_read(read) == [0]
            await asyncio.sleep(0.001)
        assert watches[ACTIVE].has == {0}
        assert watches[IDLE].has == {1}
        await read.close()
        await quiet.close()


async def test_a_partition_changes_the_watch_only_once_the_other_one_surely_polls_it():
    """KRL-2: polls that were under way when it came are over."""
    async with kafka_world(BOUNDS) as w:
        watches = seen_watches(w)
        log = await opened(w, watches)
        await until(lambda: 0 in watches[ACTIVE].went_s)
        active, idle = watches
        assert active.went_s[0] - idle.came_s[0] >= 0.079
        came_s = active.came_s[0]
        await w.write(batch(1))
        await until(lambda: idle.went_s.get(0, 0.0) > came_s)
        assert idle.went_s[0] - active.came_s[0] >= 0.019
        assert active.came_s[0] > came_s
        await log.close()


async def test_a_partition_is_in_a_watch_at_every_moment():
    """KRL-2."""
    async with kafka_world(BOUNDS) as w:
        watches = seen_watches(w)
        logs = [await opened(w, watches), await opened(w, watches, 1)]
        for number in range(30):
            await w.write(batch(1), partition=number % 2)
            await until(lambda: logs[number % 2].high_watermark == number // 2 + 1)  # noqa: B023
            for _ in range(number * 3):
                await asyncio.sleep(0.001)
                assert watches[ACTIVE].has | watches[IDLE].has == {0, 1}
        for log in logs:
            await log.close()


async def test_a_partition_that_failed_is_polled_often_until_it_is_well_again():
    """KRL-2: the broker that leads it next may be waiting in a long poll."""
    async with kafka_world(BOUNDS) as w:
        watches = seen_watches(w)
        log = await opened(w, watches)
        await until(lambda: 0 in watches[ACTIVE].went_s)
        moved_s = asyncio.get_running_loop().time()
        w.cluster.move_leader("orders")
        await until(lambda: watches[ACTIVE].came_s[0] > moved_s)
        await w.write(batch(1))
        await until(lambda: log.high_watermark == 1)
        await log.close()
