"""disk_full: the volume runs full under a real role process, and gets space again.

The data directory is a small tmpfs in a mount namespace of the node's own (`unshare`).
"""

import asyncio
import os
import random
import time
from contextlib import suppress
from pathlib import Path

from sharemesh.domain.errors import ErrorCode
from tests.faults.folds import unequal_folds
from tests.faults.node import Place
from tests.faults.records import Batch, RawProducer, check_topic, consume, on_disk
from tests.faults.trials import Outcome

PARTITIONS = 2
MIB = 1 << 20
VOLUME_MIB = 48  # the record logs keep 16 MiB of it in reserve


INTO_RESERVE_BYTES = 10 * MIB
"""Left free: below what record logs keep in reserve, above what shard logs do."""


async def disk_full(number: int, seed: int) -> Outcome:
    """Produce is refused in words, serving goes on, and with space all goes on.

    Every second trial fills the volume to the last byte under the appends: then some may find no
    space in the middle of a write, and their epoch ends.
    """
    rng = random.Random(seed)
    to_the_last_byte = number % 2 == 1
    async with Place() as place:
        place.data.mkdir()
        mount = f"mount -t tmpfs -o size={VOLUME_MIB}m none {place.data}"
        script = ("sh", "-c", f'{mount} && exec "$@"', "sh")
        node = await place.node("a", prefix=("unshare", "--user", "--map-root-user", "-m", *script))
        place.data = Path(f"/proc/{node.pid}/root{place.data}")  # as the node sees it
        await place.create_topic("t", PARTITIONS)
        producer = RawProducer(place, "t", rng, value_bytes=rng.choice((100, 5_000)))
        for partition in range(PARTITIONS):
            await producer.retry(node.address, partition)
        running = [
            asyncio.ensure_future(_until_refused(producer, node.address, p))
            for p in range(PARTITIONS)
        ]
        await asyncio.sleep(rng.uniform(0, 0.2))
        filler = place.data / "filler"
        await asyncio.to_thread(_fill, filler, 0 if to_the_last_byte else INTO_RESERVE_BYTES)
        refused = await asyncio.gather(*running)
        wrong = _judge(refused, to_the_last_byte=to_the_last_byte)
        if to_the_last_byte:
            await asyncio.sleep(rng.uniform(0, 0.3))
        else:
            wrong += await _all_served(place, "meanwhile")
            wrong += _judge(
                [await producer.send(node.address, p) for p in range(PARTITIONS)],
                to_the_last_byte=False,
            )
        filler.unlink()
        began = time.monotonic()
        await asyncio.gather(*(producer.retry(node.address, p) for p in range(PARTITIONS)))
        recovery_ms = (time.monotonic() - began) * 1_000
        wrong += check_topic(place, producer, PARTITIONS)
        wrong += await _all_served(place, "afterwards")
        wrong += unequal_folds(place.data)
        if not node.alive:
            wrong.append("the process ended")
    errors = ",".join(sorted({ErrorCode(each.error).name for each in refused}))
    how = "to the last byte" if to_the_last_byte else "into the reserve"
    return Outcome(tuple(wrong), (recovery_ms,), f"filled {how}: {errors}")


def _fill(file: Path, leave_bytes: int) -> None:
    """Write until so much is left free."""
    with file.open("wb", buffering=0) as filler:
        while True:
            volume = os.statvfs(file)
            free = volume.f_bavail * volume.f_frsize - leave_bytes
            if free <= 0:
                return
            with suppress(OSError):  # others took it first
                filler.write(bytes(min(free, MIB)))


async def _until_refused(producer: RawProducer, address: str, partition: int) -> Batch:
    while (batch := await producer.send(address, partition)).error == 0:
        pass
    return batch


def _judge(refused: list[Batch], *, to_the_last_byte: bool) -> list[str]:
    """Say which refusals are not clear."""
    allowed: dict[int, str] = {ErrorCode.KAFKA_STORAGE_ERROR: "free"}
    if to_the_last_byte:
        allowed[ErrorCode.NOT_LEADER_OR_FOLLOWER] = ""
    return [
        f"produce on a full disk was answered {each.error} {each.message!r}"
        for each in refused
        if allowed.get(each.error, "\0") not in each.message
    ]


async def _all_served(place: Place, group: str) -> list[str]:
    """Let a new group consume and accept everything."""
    disk = {p: on_disk(place.partition_directory("t", p)) for p in range(PARTITIONS)}
    seen = await consume(place, group, "t", {p: len(found) for p, found in disk.items()})
    wrong = [f"t/{p}, {group}: served is not on disk" for p in disk if seen.got[p] != disk[p]]
    if seen.refused or any(seen.confirmed[p] != disk[p].keys() for p in disk):
        wrong.append(f"{group}: acknowledgements were refused: {seen.refused[:1]}")
    return wrong
