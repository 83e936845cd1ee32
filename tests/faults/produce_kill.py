"""produce_kill and duplicate_after_failover: leaders that die in the middle of produces."""

import asyncio
import random
import time
from collections import Counter

from sharemesh.client import connect
from sharemesh.client.errors import SharemeshError
from tests.faults.node import Place
from tests.faults.records import RawProducer, check_topic, consume, end_offset, on_disk, until
from tests.faults.trials import Outcome

PARTITIONS = 4
WRITERS_PER_PARTITION = 2
RECORDS = 3_000


async def produce_kill(number: int, seed: int) -> Outcome:
    """SIGKILL of the leader: what was confirmed is there after the restart, nothing half."""
    rng = random.Random(seed)
    async with Place() as place:
        node = await place.node("a")
        await place.create_topic("t", PARTITIONS, segment_bytes="1048576")
        producer = RawProducer(place, "t", rng, value_bytes=rng.choice((0, 100, 2_000)))
        await asyncio.gather(*(producer.retry(node.address, p) for p in range(PARTITIONS)))
        kill_after = rng.randint(10, 300)
        running = [
            asyncio.ensure_future(producer.run(node.address, partition))
            for partition in range(PARTITIONS)
            for _ in range(WRITERS_PER_PARTITION)
        ]
        await until(lambda: len(producer.confirmed) >= kill_after, "batches were not confirmed")
        await asyncio.sleep(rng.uniform(0, 0.02))
        await node.kill()
        began = time.monotonic()
        await asyncio.gather(*running)
        confirmed = len(producer.confirmed)
        node = await place.node("a")
        await asyncio.gather(*(producer.retry(node.address, p) for p in range(PARTITIONS)))
        recovery_ms = (time.monotonic() - began) * 1_000
        wrong = check_topic(place, producer, PARTITIONS)
        wrong += await _served(place, node.address, seed)
    return Outcome(tuple(wrong), (recovery_ms,), f"{confirmed} batches confirmed before the kill")


async def _served(place: Place, address: str, seed: int) -> list[str]:
    """Compare what a consumer gets with what lies on disk."""
    disk = {p: on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)}
    wrong = []
    for partition, found in disk.items():
        end, _ = await end_offset(place, address, "t", partition)
        if end != len(found):
            wrong.append(f"t/{partition}: high watermark {end}, {len(found)} records on disk")
    seen = await consume(place, f"g{seed}", "t", {p: len(f) for p, f in disk.items()})
    wrong += [
        f"t/{p}: what is served is not what lies on disk" for p in disk if seen.got[p] != disk[p]
    ]
    return wrong


async def duplicate_after_failover(number: int, seed: int) -> Outcome:
    """An idempotent producer retries over the kill of the leader: each record once."""
    rng = random.Random(seed)
    async with Place() as place:
        old = await place.node("a")
        await place.create_topic("t", PARTITIONS)
        new = await place.node("b")
        wanted = {b"%d-%d" % (seed, n): rng.randrange(PARTITIONS) for n in range(RECORDS)}
        kill_at = rng.randrange(RECORDS // 10, RECORDS * 9 // 10)
        futures = {}
        async with connect(place.bootstrap).async_producer(
            linger_ms=rng.choice((0, 2)), delivery_timeout_ms=60_000, retry_backoff_ms=20
        ) as producer:
            for count, (value, partition) in enumerate(wanted.items()):
                futures[value] = await producer.send("t", value, partition=partition)
                if count % 20 == 0:
                    await asyncio.sleep(0)
                if count == kill_at:
                    killing = asyncio.ensure_future(old.kill())
            await killing
            began = time.monotonic()
            answers = await asyncio.gather(*futures.values(), return_exceptions=True)
            recovery_ms = (time.monotonic() - began) * 1_000
        await place.led("t", PARTITIONS, by=new.name)
        wrong = []
        disk = {p: on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)}
        times = Counter(value for found in disk.values() for value in found.values())
        twice = [value for value, count in times.items() if count > 1]
        if twice:
            wrong.append(f"{len(twice)} records are there twice, {twice[0]!r} for one")
        for value, answer in zip(futures, answers, strict=True):
            if isinstance(answer, SharemeshError):
                wrong.append(f"{value!r} was given up: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            elif disk[wanted[value]].get(answer.offset) != value:
                wrong.append(f"{value!r} was confirmed at {answer.offset} and is not there")
        if set(times) - set(wanted):
            wrong.append("there are records that nobody sent")
        order = [v for found in disk.values() for v in found.values()]
        by_partition = {
            p: [int(v.split(b"-")[1]) for v in found.values()] for p, found in disk.items()
        }
        if any(numbers != sorted(numbers) for numbers in by_partition.values()):
            wrong.append("an idempotent producer's records are out of order")
    return Outcome(tuple(wrong), (recovery_ms,), f"{len(order)} records, kill after {kill_at}")
