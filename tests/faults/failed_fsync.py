"""failed_fsync: fdatasync says EIO in a real role process, and what it should have kept is gone.

The disk is the machine's, with a `sync` that fails on demand (`bad_disk_node`); the power cut
afterwards is made by cutting the file to what its last good sync had made durable.
"""

import asyncio
import os
import random
import time

from tests.faults.folds import unequal_folds
from tests.faults.node import Place
from tests.faults.records import (
    Consumed,
    RawProducer,
    check_topic,
    consume,
    end_offset,
    on_disk,
    until,
)
from tests.faults.trials import Outcome

PARTITIONS = 3
MODULE = "tests.faults.bad_disk_node"
KINDS = ("records", "state", "group")


async def failed_fsync(number: int, seed: int) -> Outcome:
    """The epoch ends, nobody retries; the next epoch goes on; a power cut loses nothing."""
    rng = random.Random(seed)
    kind = KINDS[number % len(KINDS)]
    seen: dict[str, Consumed] = {}
    async with Place() as place:
        place.environment["SHAREMESH_BAD_DISK"] = str(place.work)
        node = await place.node("a", module=MODULE)
        await place.create_topic("t", PARTITIONS)
        producer = RawProducer(place, "t", rng)
        for partition in range(PARTITIONS):
            await producer.retry(node.address, partition)
        epochs = {p: (await end_offset(place, node.address, "t", p))[1] for p in range(PARTITIONS)}
        running = [
            asyncio.ensure_future(_keep_producing(producer, node.address, partition))
            for partition in range(PARTITIONS)
        ]
        try:
            fail_after = len(producer.confirmed) + rng.randint(5, 60)
            await until(lambda: len(producer.confirmed) >= fail_after, "nothing was confirmed")
            (place.work / "fail").write_text(f"{kind}/")
            began = time.monotonic()
            if kind != "records":  # joining and accepting write to both logs
                seen["g1"] = await _use(place, "g1")
            await until((place.work / "lost").exists, "no sync failed")
            if kind == "records":
                await _next_epoch(place, node.address, epochs)
            else:
                seen["g2"] = await _use(place, "g2")
            recovery_ms = (time.monotonic() - began) * 1_000
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await node.kill()
        lost = _cut_power(place)
        node = await place.node("a")
        await asyncio.gather(*(producer.retry(node.address, p) for p in range(PARTITIONS)))
        wrong = check_topic(place, producer, PARTITIONS)
        for group in ("g1", "g2"):
            wrong += await _finished_stays_finished(place, group, seen.get(group))
        wrong += unequal_folds(place.data)
    return Outcome(tuple(wrong), (recovery_ms,), f"fdatasync of {kind}; {lost}")


async def _keep_producing(producer: RawProducer, address: str, partition: int) -> None:
    """Produce, refused or not: the log is to come back by itself."""
    while True:
        if (await producer.send(address, partition)).error != 0:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.002)


async def _use(place: Place, group: str) -> Consumed:
    """Consume and accept a first part of each partition."""
    return await consume(place, group, "t", dict.fromkeys(range(PARTITIONS), 1))


async def _next_epoch(place: Place, address: str, epochs: dict[int, int]) -> None:
    """Wait until a partition is led under a higher epoch."""
    async with asyncio.timeout(30):
        while True:
            for partition, epoch in epochs.items():
                try:
                    if (await end_offset(place, address, "t", partition))[1] > epoch:
                        return
                except AssertionError:
                    continue  # it is between two epochs
            await asyncio.sleep(0.02)


def _cut_power(place: Place) -> str:
    """Take from the files what their failed sync did not make durable."""
    told = []
    for line in (place.work / "lost").read_text().splitlines():
        path, size = line.rsplit(" ", 1)
        file = place.data / path.removesuffix(".new")  # it was renamed since
        if not file.exists():
            told.append("its file is gone, all of it was taken over")
            continue
        told.append(f"{file.stat().st_size - int(size)} bytes lost with the power")
        os.truncate(file, int(size))
    return ", ".join(told)


async def _finished_stays_finished(place: Place, group: str, first: Consumed | None) -> list[str]:
    """Let the group take what is left: what was confirmed never comes again, all else does."""
    disk = {p: on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)}
    had = first.got if first else {p: {} for p in disk}
    confirmed = first.confirmed if first else {p: set() for p in disk}
    rest = {p: len(disk[p].keys() - had[p].keys()) for p in disk}
    got = (await consume(place, group, "t", rest, settle_s=0.1)).got
    wrong = []
    for p, found in disk.items():
        name = f"t/{p}, group {group}"
        again = got[p].keys() & confirmed[p]
        if again:
            wrong.append(f"{name}: {len(again)} confirmed as accepted came again: {min(again)}")
        if not found.keys() <= got[p].keys() | had[p].keys():
            wrong.append(f"{name}: {len(found)} records, got {len(got[p])} and {len(had[p])}")
        if any(found.get(o) != v for o, v in (got[p] | had[p]).items()):
            wrong.append(f"{name}: what was served is not what lies on disk")
    return wrong
