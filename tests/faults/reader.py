"""reader_during_takeover: Spark's reader and inspection's beside writers that die and return.

Whatever a reader was given stays in the log at its offset; it never sees a gap, never less than
before, and its only errors say that the log changed its owner and to try again.
"""

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sharemesh.cli.log_files import open_log
from sharemesh.cli.session import CommandError
from sharemesh_spark.reader.data_directory import UnreadableLogError, read_shard
from sharemesh_spark.reader.data_directory import records as shard_records
from tests.faults.folds import unequal_folds
from tests.faults.node import STATE_SHARDS, Node, Place
from tests.faults.records import RawProducer, check_topic, until
from tests.faults.trials import Outcome
from tests.faults.two_writers import PARTITIONS, Shards

READS_MIN = 20
READ_EVERY_S = 0.02
START_OVER = ("does not hold still", "changed its owner", "No such file")

Image = tuple[int, int, dict[int, bytes | None]]
"""Log start, end, and the records by offset."""


def inspected(directory: Path) -> Image:
    """Read a log as `sharemesh state-log` and the trials do."""
    log = open_log(directory)
    if log is None:
        return 0, 0, {}
    found = {o: value for records in log.records() for _, value, o, _ in records}
    start, end = log.start_offset, log.end.end_offset
    return start, end, {o: value for o, value in found.items() if o >= start}


def scanned(data: Path, shard: int) -> Image:
    """Read a shard of the state log as Spark does."""
    image = read_shard(data, shard)
    found = {record.offset: record.value for record in shard_records(image)}
    return image.start_offset, image.end_offset, found


@dataclass(slots=True)
class Reader:
    """Reads one log again and again in a thread, and judges what it sees."""

    name: str
    read: Callable[[], Image]
    seen: dict[int, bytes | None] = field(default_factory=dict)
    ends: int = 0
    reads: int = 0
    started_over: int = 0
    wrong: list[str] = field(default_factory=list)

    def once(self) -> None:
        """Read, and compare with what was there before."""
        try:
            start, end, found = self.read()
        except (CommandError, UnreadableLogError, FileNotFoundError) as error:
            self.started_over += 1
            if not any(words in str(error) for words in START_OVER):
                self.wrong.append(f"{self.name}: {error}")
            return
        self.reads += 1
        if sorted(found) != list(range(start, end)):
            self.wrong.append(f"{self.name}: {len(found)} records in offsets {start} to {end}")
        if end < self.ends:
            self.wrong.append(f"{self.name}: the committed end went from {self.ends} to {end}")
        changed = [o for o, v in self.seen.items() if o >= start and found.get(o, b"?") != v]
        if changed:
            self.wrong.append(f"{self.name}: {len(changed)} records changed, {changed[0]} for one")
        self.seen.update(found)
        self.ends = max(self.ends, end)

    def run(self, stop: threading.Event) -> None:
        """Read until told to stop, or something is wrong."""
        while not stop.is_set() and not self.wrong:
            self.once()
            stop.wait(READ_EVERY_S)


async def reader_during_takeover(number: int, seed: int) -> Outcome:
    """Readers beside a kill, a stop and two take-overs."""
    rng = random.Random(seed)
    async with Place() as place:
        node = await place.node("a")
        await place.create_topic("t", PARTITIONS)
        shards = Shards(place)
        await shards.initialize(node.address)
        producer = RawProducer(place, "t", rng)
        await asyncio.gather(*(producer.retry(node.address, p) for p in range(PARTITIONS)))
        stop = threading.Event()
        readers = _readers(place)
        reading = [asyncio.create_task(asyncio.to_thread(each.run, stop)) for each in readers]
        times: list[float] = []
        try:
            for name, number_of_signal in (("a", signal.SIGKILL), ("b", signal.SIGSTOP)):
                writing = _write(producer, shards, node)
                target = len(producer.confirmed) + rng.randint(5, 60)
                await until(partial(_confirmed, producer, target), "nothing was confirmed")
                node, took_ms = await _taken_over(producer, node, name, number_of_signal)
                times.append(took_ms)
                for stopped in place.nodes.values():
                    if stopped.alive and stopped is not node:
                        stopped.send(signal.SIGCONT)
                await asyncio.gather(*writing)
        finally:
            stop.set()
            await asyncio.gather(*reading)
        wrong = []
        for reader in readers:
            await asyncio.to_thread(reader.once)
            wrong += reader.wrong
            if reader.reads < READS_MIN:
                wrong.append(f"{reader.name}: read only {reader.reads} times")
        wrong += check_topic(place, producer, PARTITIONS) + unequal_folds(place.data)
    counts = sum(each.reads for each in readers), sum(each.started_over for each in readers)
    return Outcome(tuple(wrong), tuple(times), f"{counts[0]} reads, {counts[1]} started over")


def _readers(place: Place) -> list[Reader]:
    readers = []
    for p in range(PARTITIONS):
        directory = place.partition_directory("t", p)
        readers.append(Reader(f"t/{p}", partial(inspected, directory)))
    for shard in range(STATE_SHARDS):
        readers.append(Reader(f"state {shard}", partial(scanned, place.data, shard)))
    return readers


def _confirmed(producer: RawProducer, count: int) -> bool:
    return len(producer.confirmed) >= count


def _write(producer: RawProducer, shards: Shards, node: Node) -> "list[asyncio.Task[None]]":
    """Produce and write states until the node answers no more."""
    work = [producer.run(node.address, p) for p in range(PARTITIONS)]
    work += [shards.keep_writing(node.address, p) for p in shards.states]
    return [asyncio.create_task(each) for each in work]


async def _taken_over(
    producer: RawProducer, old: Node, name: str, number_of_signal: int
) -> tuple[Node, float]:
    """Kill or stop the owner; return the next one once it confirms, and how long that took."""
    place = producer.place
    if number_of_signal == signal.SIGKILL:
        began = time.monotonic()
        await old.kill()
        new = await place.node(name)
    else:
        old.send(number_of_signal)
        new = await place.node(name)
        began = time.monotonic()
        await old.revoke()
    await asyncio.gather(*(producer.retry(new.address, p) for p in range(PARTITIONS)))
    return new, (time.monotonic() - began) * 1_000
