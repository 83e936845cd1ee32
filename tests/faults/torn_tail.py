"""torn_tail: a crash in the middle of a write, in record, state and group logs at once."""

import asyncio
import random
import time

from sharemesh.codec.segment import end_epochs
from tests.faults.damage import TORN, tear
from tests.faults.folds import unequal_folds
from tests.faults.node import Place
from tests.faults.records import RawProducer, check_topic, consume, on_disk, until
from tests.faults.trials import Outcome

PARTITIONS = 4
GROUP = "readers"


async def torn_tail(number: int, seed: int) -> Outcome:
    """Kill, tear every log, restart: all that was confirmed is there, nothing of the torn end."""
    rng = random.Random(seed)
    async with Place() as place:
        node = await place.node("a")
        await place.create_topic("t", PARTITIONS)
        producer = RawProducer(place, "t", rng)
        for partition in range(PARTITIONS):
            await producer.retry(node.address, partition)
        wrong = []
        before = {p: on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)}
        taken = (await consume(place, GROUP, "t", {p: len(before[p]) for p in before})).confirmed
        if any(len(taken[p]) < len(before[p]) for p in before):
            wrong.append(f"only {taken} was confirmed as accepted")
        running = [
            asyncio.ensure_future(producer.run(node.address, partition))
            for partition in range(PARTITIONS)
        ]
        kill_after = len(producer.confirmed) + rng.randint(5, 60)
        await until(lambda: len(producer.confirmed) >= kill_after, "batches were not confirmed")
        await node.kill()
        await asyncio.gather(*running)
        kinds = _tear_all(place, rng)
        began = time.monotonic()
        node = await place.node("a")
        await asyncio.gather(*(producer.retry(node.address, p) for p in range(PARTITIONS)))
        recovery_ms = (time.monotonic() - began) * 1_000
        wrong += check_topic(place, producer, PARTITIONS)
        disk = {p: on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)}
        rest = {p: len(disk[p]) - len(taken[p]) for p in disk}
        got = (await consume(place, GROUP, "t", rest, settle_s=0.2)).got
        for partition, found in disk.items():
            wanted = {o: v for o, v in found.items() if o not in taken[partition]}
            if got[partition] != wanted:
                wrong.append(
                    f"t/{partition}: the group got {len(got[partition])} records, not the "
                    f"{len(wanted)} that it had not finished"
                )
        wrong += unequal_folds(place.data)
    return Outcome(tuple(wrong), (recovery_ms,), ", ".join(sorted(set(kinds))))


def _tear_all(place: Place, rng: random.Random) -> list[str]:
    """Tear each log that has a committed end."""
    kinds = []
    for directory in sorted(path for path in place.data.glob("*/*/**") if path.is_dir()):
        if end_epochs([entry.name for entry in directory.iterdir()]):
            kinds.append(rng.choice(TORN))
            tear(directory, kinds[-1], rng)
    return kinds
