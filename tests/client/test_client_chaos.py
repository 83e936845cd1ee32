"""Consumers under ``run(handler)`` while leaders, coordinators and consumers are killed."""

import asyncio
import json
import os
import random
import signal
import time

import pytest

from sharemesh.client import RunOptions, connect
from sharemesh.client.admin_results import GroupOffset
from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(150)]

SEED = 20261121
CHAOS_S = 15.0
PARTITIONS = 4


class _Consumer:
    """One consumer under run; it can be stopped hard, as if it had died, and started anew."""

    def __init__(self, cluster, group, topic, seen) -> None:
        self.cluster, self.group, self.topic, self.seen = cluster, group, topic, seen
        self.consumer = None
        self.task = None

    async def start(self) -> None:
        self.consumer = self.cluster.async_share_consumer(self.group)
        await self.consumer.subscribe([self.topic])

        async def handler(record) -> None:
            await asyncio.sleep(0.001)
            self.seen.setdefault((record.partition, record.offset), []).append(time.monotonic())

        self.task = asyncio.ensure_future(
            self.consumer.run(handler, concurrency=20, options=RunOptions(stop_timeout_ms=5_000))
        )

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.consumer.close(0)

    async def end(self) -> None:
        self.consumer.stop()
        await self.task
        await self.consumer.close(5_000)


async def test_nothing_is_lost_and_nobody_is_stuck(tmp_path):
    chance = random.Random(SEED)
    print("seed", SEED)
    with local_up(tmp_path / "data") as up:
        cluster = connect(up.bootstrap)
        admin = cluster.async_admin()
        await admin.create_topic("t", PARTITIONS)
        await admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})
        seen: dict[tuple[int, int], list[float]] = {}
        consumers = [_Consumer(cluster, "g", "t", seen) for _ in range(4)]
        for each in consumers:
            await each.start()
        producer = cluster.async_producer()
        confirmed = []
        ends = time.monotonic() + CHAOS_S
        next_kill = time.monotonic() + 2
        while time.monotonic() < ends:
            futures = [await producer.send("t", b"x", key=str(n)) for n in range(100)]
            confirmed += [(m.partition, m.offset) for m in await asyncio.gather(*futures)]
            if time.monotonic() > next_kill:
                next_kill = time.monotonic() + 3
                await _kill_one(chance, up, consumers)
            await asyncio.sleep(0.05)
        deadline = time.monotonic() + 60
        while not set(confirmed) <= set(seen):
            missing = sorted(set(confirmed) - set(seen))
            assert time.monotonic() < deadline, f"seed {SEED}: never delivered: {missing[:20]}"
            await asyncio.sleep(0.2)
        while (lag := await _lag(admin)) != 0:
            assert time.monotonic() < deadline, f"seed {SEED}: lag {lag} stays"
            await asyncio.sleep(0.2)
        for each in consumers:
            await each.end()
        repeated = {key: len(times) for key, times in seen.items() if len(times) > 1}
        print(f"{len(confirmed)} records, {len(repeated)} delivered more than once")
        await producer.close()
        await admin.close()


async def _kill_one(chance: random.Random, up, consumers) -> None:
    victim = chance.choice(["share-leader", "share-coordinator", "group-coordinator", "consumer"])
    print("kill", victim)
    if victim == "consumer":
        consumer = chance.choice(consumers)
        await consumer.die()
        await consumer.start()
        return
    running = json.loads((up.directory / "run" / "cluster.json").read_text())
    found = [each for each in running["processes"] if each["role"] == victim and each["pid"]]
    try:
        os.kill(chance.choice(found)["pid"], signal.SIGKILL)
    except ProcessLookupError:
        print("it was restarting")


async def _lag(admin) -> int:
    offsets = await admin.list_share_group_offsets("g")
    if len(offsets) < PARTITIONS:
        return -1
    return sum(each.lag if isinstance(each, GroupOffset) else 1 for each in offsets.values())
