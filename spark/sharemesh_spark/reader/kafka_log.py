"""Reads the share state log where it is a topic of a Kafka cluster (STL-29).

What counts there is judged as its owner judges it; of what counts an image is made like that of a
directory, with the leader epochs of brokers, which mean nothing here, taken out.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from sharemesh.codec.batch_frame import place_frame, walk_frames, with_producer
from sharemesh.codec.log_chain import RESTARTS_MAX, ReadablePart
from sharemesh.codec.log_stamp import log_identity, read_stamped_batch
from sharemesh.codec.plain_batch import Buffer, plain_batch
from sharemesh.codec.record_set import RecordSetError, decode_plain_records
from sharemesh.codec.segment import SegmentName
from sharemesh.domain.stamped_log.judgement import ForwardReading, Judgement
from sharemesh.domain.stamped_log.stamp import BrokenLogError, StampedBatch
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.ports.brokers import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, BrokerPartition
from sharemesh_spark.reader.data_directory import LogPart, Range, ShardImage, UnreadableLogError
from sharemesh_spark.reader.kafka_place import KafkaAccess, KafkaPlace
from sharemesh_spark.reader.kafka_reads import LogMovedError, asked, fetched, on_brokers

INCARNATION = 0  # no version raises it yet
NO_PRODUCER = -1  # units have none
TAIL_RECORDS = 4_096
"""So far before the end the newest unit is looked for first."""

BYTES_A_RECORD = 120
"""Of a state record, about: brokers do not say how large a partition is."""

_NO_END = 1 << 62

Answer = TypeVar("Answer")


class _CountedUnit(NamedTuple):
    """A unit that counts, as it was fetched."""

    header: StampedBatch
    data: memoryview

    @property
    def start(self) -> int:
        """The log start that its writer declares."""
        assert self.header.stamp is not None
        return self.header.stamp.start

    def plain(self) -> Buffer:
        """Return its bytes without the compression that only the cluster can have put on."""
        plain = plain_batch(self.data)
        if plain is self.data:
            return plain
        return with_producer(bytes(plain), NO_PRODUCER, NO_PRODUCER, NO_PRODUCER)


def find_place(access: KafkaAccess) -> KafkaPlace:
    """Ask the brokers where the state log of a cluster is.

    Raises:
        UnreadableLogError: It is not there, or nobody answers.
    """
    topic = access.state_topic

    async def ask(brokers: KafkaBrokers) -> KafkaPlace:
        answer = await asked(lambda: brokers.metadata([topic]), topic)
        for found in answer.topics:
            if found.topic == topic and not found.error and found.partitions:
                shards = len(found.partitions)
                return KafkaPlace(access, answer.cluster_id, found.topic_id, shards)
        raise UnreadableLogError(
            f"{','.join(access.servers)} has no topic {topic}, or does not show it to this user: "
            "name the settings file of a process of the cluster, or allow Describe and Read on it"
        )

    return on_brokers(access, ask)


def read_topic_shard(place: KafkaPlace, shard: int) -> ShardImage:
    """Return all of a shard that counts and lies below the high watermark.

    Raises:
        UnreadableLogError: It is not what its writers made of it, or nobody answers.
    """
    return on_brokers(place.access, lambda brokers: _TopicShard(place, shard, brokers).image())


def topic_shard_bounds(place: KafkaPlace, shard: int) -> Range:
    """Return log start and end of a shard; only its newest units are read.

    Raises:
        UnreadableLogError: See ``read_topic_shard``.
    """
    return on_brokers(place.access, lambda brokers: _TopicShard(place, shard, brokers).bounds())


def topic_shard_bytes(place: KafkaPlace, shard: int) -> int:
    """Return about how many bytes a shard's log has.

    Raises:
        UnreadableLogError: Nobody answers.
    """

    async def ask(brokers: KafkaBrokers) -> int:
        begin, end = await _TopicShard(place, shard, brokers).kept()
        return (end - begin) * BYTES_A_RECORD

    return on_brokers(place.access, ask)


@dataclass(slots=True)
class _Parts:
    """Units as parts of a log; a part ends where something lies that does not count."""

    folder: Path
    parts: list[LogPart] = field(default_factory=list)
    _bytes: bytearray = field(default_factory=bytearray)
    _begin: int = 0
    _end: int = 0

    def add(self, unit: _CountedUnit) -> None:
        base = unit.header.base_offset
        if base != self._end:
            self.close()
            self._begin = base
        at = len(self._bytes)
        self._bytes += unit.plain()
        place_frame(self._bytes, base, 0, at=at)
        self._end = unit.header.end_offset

    def close(self) -> None:
        if not self._bytes:
            return
        name = SegmentName(0, self._begin)
        place = ReadablePart(name, self._begin, self._end, 0, len(self._bytes))
        self.parts.append(LogPart(self.folder, place, memoryview(self._bytes)))
        self._bytes = bytearray()


class _TopicShard:
    """One shard of the topic, over open connections."""

    def __init__(self, place: KafkaPlace, shard: int, brokers: KafkaBrokers) -> None:
        topic = place.access.state_topic
        self._brokers = brokers
        self._shard = shard
        self._name = f"topic {topic} partition {shard}"
        self._where = BrokerPartition(place.topic_id, topic, shard)
        self._log = log_identity(
            f"{place.access.cluster_id}/{place.kafka_cluster_id}",
            place.topic_id,
            shard,
            INCARNATION,
        )

    async def kept(self) -> Range:
        """Return first and end offset of what the brokers keep, and show."""
        low = await self._asked(lambda: self._brokers.list_offset(self._where, EARLIEST_TIMESTAMP))
        high = await self._asked(lambda: self._brokers.list_offset(self._where, LATEST_TIMESTAMP))
        return low.offset, high.offset

    async def bounds(self) -> Range:
        """Return log start and end of what counts."""
        for _ in range(RESTARTS_MAX):
            begin, end = await self.kept()
            back = TAIL_RECORDS
            try:
                while True:
                    newest = None
                    async for unit in self._units(max(begin, end - back), end):
                        newest = unit
                    if newest is not None:
                        return newest.start, newest.header.end_offset
                    if end - back <= begin:
                        return 0, 0
                    back *= 16
            except LogMovedError:
                continue
        raise self._moves()

    async def image(self) -> ShardImage:
        """Return all that counts, from the declared start on."""
        for _ in range(RESTARTS_MAX):
            begin, end = await self.kept()
            parts, newest = _Parts(Path(self._name)), None
            try:
                async for unit in self._units(begin, end):
                    newest = unit
                    if not _declares_only(unit):
                        parts.add(unit)
            except LogMovedError:
                continue
            parts.close()
            if newest is None:
                return ShardImage(self._shard, 0, 0, 0, ())
            start, stamp = newest.start, newest.header.stamp
            if begin > start:
                raise UnreadableLogError(
                    f"{self._name}: records from offset {start} to {begin} were removed by "
                    "retention or by others"
                )
            epoch = 0 if stamp is None else stamp.epoch
            kept = tuple(each for each in parts.parts if each.place.end_offset > start)
            return ShardImage(self._shard, epoch, start, newest.header.end_offset, kept)
        raise self._moves()

    async def _units(self, begin: int, end: int) -> AsyncIterator[_CountedUnit]:
        """Yield the units in [begin, end) that count.

        Raises:
            LogMovedError: Owners pruned what was still to be read.
            UnreadableLogError: What lies there is not what its writers made, or another log.
        """
        reading = ForwardReading(self._log, begin)
        counted, of_others = 0, 0
        while reading.position < end:
            for unit, is_ours in self._judged(await self._fetched(reading.position), reading, end):
                of_others += not is_ours
                if unit is not None:
                    counted += 1
                    yield unit
        if of_others and not counted:
            raise UnreadableLogError(
                f"{self._name} holds the log of another cluster: name the settings file of a "
                "process of this one, for its cluster_id"
            )

    def _judged(
        self, records: bytes, reading: ForwardReading, end: int
    ) -> Iterator[tuple[_CountedUnit | None, bool]]:
        walk = walk_frames(
            records, start=0, limit=_NO_END, base_offset=None, leader_epoch=None, check_crc=True
        )
        view, at = memoryview(records), reading.position
        try:
            for frame in walk.frames:
                if frame.end_offset <= at:
                    continue
                if frame.base_offset >= end and reading.position > at:
                    return
                data = view[frame.position : frame.position + frame.size_bytes]
                header = read_stamped_batch(frame, data)
                is_ours = header.stamp is None or header.stamp.log == self._log
                counts = reading.take(header) is Judgement.COUNTS
                yield (_CountedUnit(header, data) if counts else None), is_ours
        except (RecordSetError, BrokenLogError) as error:
            raise UnreadableLogError(f"{self._name}, offset {reading.position}: {error}") from error
        if reading.position == at:
            why = walk.problem or "the batch there is cut"
            raise UnreadableLogError(f"{self._name}, offset {at}: {why}")

    async def _fetched(self, offset: int) -> bytes:
        return await fetched(self._brokers, self._where, offset, self._name)

    async def _asked(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        return await asked(ask, self._name)

    def _moves(self) -> UnreadableLogError:
        return UnreadableLogError(
            f"{self._name} was pruned {RESTARTS_MAX} times while it was read; try again"
        )


def _declares_only(unit: _CountedUnit) -> bool:
    """Return whether a unit is the log's own: it declares a log start, and holds no record."""
    if unit.header.record_count != 1:
        return False
    ((key, _, _, _),) = decode_plain_records(unit.plain())
    return key is None
