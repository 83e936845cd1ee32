"""Run by test_full_volume in a mount namespace: a record log on a volume that fills under a write.

    python full_volume.py DIRECTORY SEED

A neighbour takes the space between the log's look at the volume and its write, so the write itself
meets the end of the volume. Prints ``ok`` if all that was promised holds.
"""

import asyncio
import random
import sys
from pathlib import Path

from sharemesh.backends.embedded.records.record_logs import EmbeddedRecordLogs
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.record_set import build_batch, decode_records
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.shard_log import LogFailedError

PARTITION = TopicPartition(TopicId(bytes(16)), 0)
FILLER = "filler"


class GreedyNeighbour(SystemDisk):
    """When told to, fills the volume but for some bytes just before a record log's append."""

    leave_bytes: int | None = None

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root

    def create(self, path):
        file = super().create(path)
        if not path.endswith(".log.new"):
            return file
        append = file.append

        def greedy(*data):
            if self.leave_bytes is not None and file.size > 0:
                self.fill(self.leave_bytes)
            append(*data)

        file.append = greedy
        return file

    def fill(self, leave_bytes: int) -> None:
        with (self.root / FILLER).open("ab", buffering=0) as filler:
            while (free := self.free_bytes() - leave_bytes) > 0:
                try:
                    filler.write(bytes(min(free, 1 << 16)))
                except OSError:
                    return


async def values(log) -> list[bytes]:
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.high_watermark:
        result = await log.read(offset, max_bytes=1)
        found += [record.value for record in decode_records(result.records)]
        offset = result.headers[-1].last_offset + 1
    return found


async def main(directory: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = GreedyNeighbour(directory)
    settings = LogSettings(record_reserve_bytes=0, recent_bytes_max=0)
    logs = EmbeddedRecordLogs(disk, SystemClock(), settings)
    confirmed: list[bytes] = []

    async def append(log) -> None:
        value = rng.randbytes(rng.randrange(1, 30_000))
        await log.append(bytes(build_batch([(None, value, ())], timestamp_ms=1)))
        confirmed.append(value)

    log = await logs.open(PARTITION, 1)
    for _ in range(5):
        await append(log)
    disk.leave_bytes = rng.choice((0, 4096, 8192))
    try:
        while True:
            await append(log)
    except LogFailedError as error:
        print(error)
    assert await values(log) == confirmed  # serving goes on
    await log.close()
    try:
        await logs.open(PARTITION, 2)  # there is no room for a new segment
    except LogFailedError as error:
        print(error)
    else:
        assert disk.free_bytes() > 0
    disk.leave_bytes = None
    (directory / FILLER).unlink()
    log = await logs.open(PARTITION, 3)
    assert log.corruption is None, log.corruption
    there = await values(log)
    assert there[: len(confirmed)] == confirmed, "a confirmed record is lost"
    confirmed = there  # what was whole and never confirmed may stay
    for _ in range(5):
        await append(log)
    assert await values(log) == confirmed
    await log.close()
    disk.close()
    print("ok")


asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
