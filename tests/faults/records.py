"""Records of fault trials: produced raw, so that each answer is known, and looked for on disk."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sharemesh import methods
from sharemesh.cli.log_files import open_log
from sharemesh.client import connect
from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import TopicIdPartition
from sharemesh.codec.record_set import build_batch
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.network import CallFailedError
from sharemesh.v1 import record_log_pb2 as pb
from tests.faults.node import Place

PRODUCE_TIMEOUT_MS = 10_000
CONSUME_TIMEOUT_S = 30
OK = 0
NO_ANSWER = -1


@dataclass(slots=True)
class Batch:
    """One batch that was sent, and what is known of it."""

    partition: int
    values: list[bytes]
    error: int = NO_ANSWER
    message: str = ""
    base_offset: int = -1
    at_s: float = 0.0


@dataclass(slots=True)
class RawProducer:
    """Sends batches of records that are all different, and remembers every answer."""

    place: Place
    topic: str
    rng: random.Random
    size: int = 40
    value_bytes: int = 0
    name: str = "p"
    batches: list[Batch] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def batch(self, partition: int) -> Batch:
        count = self.rng.randint(1, self.size)
        pad = b"." * self.value_bytes
        values = [
            b"%s-%d-%d" % (self.name.encode(), partition, next(self.numbers)) + pad
            for _ in range(count)
        ]
        made = Batch(partition, values)
        self.batches.append(made)
        return made

    async def send(self, address: str, partition: int) -> Batch:
        """Produce one batch; its `error` tells how that ended."""
        batch = self.batch(partition)
        records = bytes(build_batch([(None, value, ()) for value in batch.values], timestamp_ms=1))
        item = pb.ProducePartition(
            topic_id=self.place.topics[self.topic], partition=partition, records=records
        )
        try:
            response = await self.place.caller.call(
                methods.PRODUCE,
                pb.ProduceRequest(partitions=[item]),
                to=address,
                timeout_ms=PRODUCE_TIMEOUT_MS,
            )
        except CallFailedError as error:
            batch.message = str(error)
            return batch
        result = response.partitions[0]
        batch.error, batch.message = result.error_code, result.error_message
        batch.base_offset, batch.at_s = result.base_offset, time.monotonic()
        return batch

    async def run(self, address: str, partition: int) -> None:
        """Produce until something is not confirmed."""
        while (await self.send(address, partition)).error == OK:
            pass

    async def retry(self, address: str, partition: int, *, timeout_s: float = 30) -> Batch:
        """Produce until a batch is confirmed."""
        async with asyncio.timeout(timeout_s):
            while True:
                batch = await self.send(address, partition)
                if batch.error == OK:
                    return batch
                await asyncio.sleep(0.01)

    @property
    def confirmed(self) -> list[Batch]:
        return [each for each in self.batches if each.error == OK]


async def until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: It never did; the message is `what`.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(what)
        await asyncio.sleep(0.005)


def on_disk(directory: Path) -> dict[int, bytes]:
    """Return offset -> value as a reader beside the writer sees them."""
    log = open_log(directory)
    if log is None:
        return {}
    return {
        offset: value or b""
        for records in log.records()
        for _, value, offset, _ in records
        if log.start_offset <= offset < log.end.end_offset
    }


def check_log(found: dict[int, bytes], batches: list[Batch], name: str) -> list[str]:
    """Return violations: lost, moved, half there, twice, or gaps."""
    wrong = []
    if sorted(found) != list(range(len(found))):
        wrong.append(f"{name}: the log has a gap")
    twice = [value for value, count in Counter(found.values()).items() if count > 1]
    if twice:
        wrong.append(f"{name}: {len(twice)} records are there twice, {twice[0]!r} for one")
    where = {value: offset for offset, value in found.items()}
    for batch in batches:
        offsets = [where.get(value) for value in batch.values]
        there = [offset for offset in offsets if offset is not None]
        if there and (
            len(there) < len(offsets) or there != list(range(there[0], there[0] + len(there)))
        ):
            wrong.append(f"{name}: batch {batch.values[0]!r} is half there: {offsets}")
        if batch.error == OK and (not there or there[0] != batch.base_offset):
            wrong.append(
                f"{name}: batch {batch.values[0]!r} was confirmed at {batch.base_offset}, is at "
                f"{there[:1]}"
            )
        if (
            batch.error
            not in (OK, NO_ANSWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
            and there
        ):
            wrong.append(f"{name}: batch {batch.values[0]!r} was refused and is there")
    known = {value for batch in batches for value in batch.values}
    strange = set(found.values()) - known
    if strange:
        wrong.append(f"{name}: {len(strange)} records that nobody sent, {min(strange)!r} for one")
    return wrong


def check_topic(place: Place, producer: RawProducer, partitions: int) -> list[str]:
    """Compare what lies on disk with the answers."""
    wrong = []
    for partition in range(partitions):
        found = on_disk(place.partition_directory(producer.topic, partition))
        mine = [each for each in producer.batches if each.partition == partition]
        wrong += check_log(found, mine, f"{producer.topic}/{partition}")
    return wrong


async def end_offset(place: Place, address: str, topic: str, partition: int) -> tuple[int, int]:
    """Return (high watermark, leader epoch) as the leader says."""
    item = pb.ListOffsetsPartition(topic_id=place.topics[topic], partition=partition, timestamp=-1)
    response = await place.caller.call(
        methods.LIST_OFFSETS, pb.ListOffsetsRequest(partitions=[item]), to=address
    )
    result = response.partitions[0]
    assert result.error_code == OK, result.error_message
    return result.offset, result.leader_epoch


@dataclass(slots=True)
class Consumed:
    """What a consumer got, by partition, and which offsets were confirmed as accepted."""

    got: dict[int, dict[int, bytes]]
    confirmed: dict[int, set[int]]
    refused: list[str] = field(default_factory=list)

    def note(
        self, offsets: Mapping[TopicIdPartition, Collection[int]], error: SharemeshError | None
    ) -> None:
        """Take what became of acknowledgements (commit callback)."""
        for source, numbers in offsets.items():
            if error is None:
                self.confirmed[source.partition].update(numbers)
            else:
                self.refused.append(f"{source}: {error}")


async def consume(
    place: Place, group: str, topic: str, wanted: dict[int, int], *, settle_s: float = 0.0
) -> Consumed:
    """Consume and accept until `wanted` records of each partition came, and a bit longer."""
    seen = Consumed({p: {} for p in wanted}, {p: set() for p in wanted})
    loop = asyncio.get_running_loop()
    async with connect(place.bootstrap).async_admin() as admin:
        await admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
    async with connect(place.bootstrap).async_share_consumer(group) as consumer:
        consumer.set_acknowledgement_commit_callback(seen.note)
        await consumer.subscribe([topic])
        deadline = loop.time() + CONSUME_TIMEOUT_S
        settled_at = None
        while loop.time() < (settled_at or deadline):
            for record in await consumer.poll(100):
                seen.got[record.partition][record.offset] = record.value or b""
            if settled_at is None and all(len(seen.got[p]) >= n for p, n in wanted.items()):
                settled_at = loop.time() + settle_s
        await consumer.commit_sync()
    return seen
