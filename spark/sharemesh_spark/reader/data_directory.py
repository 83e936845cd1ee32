"""Reads the share state log of a data directory beside its writers, without locks (LOG-13).

A directory with a file ``kafka-log.json`` holds generations and history alone: its log is a topic.
Files are only read. What lies beyond the committed end is never read; when an owner changes the
directory meanwhile, the reading starts over, a bounded number of times.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from os import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from sharemesh.codec.log_chain import (
    RESTARTS_MAX,
    ChainCorruptError,
    LogBytesError,
    ReadableLog,
    ReadablePart,
    StartOverError,
    part_records,
    readable_log,
    until_stable,
)
from sharemesh.codec.log_layout import (
    CLUSTER_FILE,
    STATE,
    ClusterFile,
    DataDirectoryError,
    decode_cluster_file,
    shard_log_path,
)
from sharemesh.codec.segment import segment_names

if TYPE_CHECKING:
    from sharemesh_spark.reader.kafka_place import KafkaPlace

Result = TypeVar("Result")
KAFKA_FILE = "kafka-log.json"
"""Beside generations and history; its log is a topic of the Kafka cluster that it names."""

Range = tuple[int, int]
"""Offsets from the first to the second, exclusive."""


class UnreadableLogError(Exception):
    """The log cannot be read whole; the message names file, position and offset."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes of one segment that were read below the committed end."""

    folder: Path
    place: ReadablePart
    data: memoryview


@dataclass(frozen=True, slots=True)
class ShardImage:
    """One shard's log as of its committed end: offsets ``[start_offset, end_offset)``."""

    shard: int
    epoch: int
    start_offset: int
    end_offset: int
    parts: tuple[LogPart, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(len(part.data) for part in self.parts)


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record of a shard log before it is decoded."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


class Room:
    """Memory that logs are read into one after the other: fresh memory costs more than reading.

    What was read before is overwritten.
    """

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[np.uint8]] = []

    def of_part(self, number: int, size_bytes: int) -> memoryview:
        """Return room for the n-th part of a log; NumPy asks the kernel for large pages."""
        parts = self._parts
        if number == len(parts):
            parts.append(np.empty(size_bytes, dtype=np.uint8))
        elif len(parts[number]) < size_bytes:
            parts[number] = np.empty(size_bytes, dtype=np.uint8)
        return parts[number].data[:size_bytes]


def cluster_file(data: Path) -> ClusterFile:
    """Return what the data directory says of its cluster.

    Raises:
        UnreadableLogError: It is no data directory of Sharemesh, or a newer one.
    """
    place = topic_of(data)
    if place is not None:
        return ClusterFile(place.access.cluster_id, 0, place.shards)
    try:
        return decode_cluster_file((data / CLUSTER_FILE).read_bytes())
    except OSError as error:
        raise UnreadableLogError(
            f"{data} is not a data directory of sharemesh ({error.strerror}: {CLUSTER_FILE}); "
            "pass the directory that `sharemesh up` was given as its data directory, or, if the "
            "log is in Kafka, name the brokers with --kafka"
        ) from error
    except DataDirectoryError as error:
        raise UnreadableLogError(f"{data}: {error}") from error


def shards(data: Path) -> list[int]:
    """Return the shards of the share state log."""
    return list(range(cluster_file(data).state_shards))


def shard_bytes(data: Path, shard: int) -> int:
    """Return how large the files of a shard's log are, some of which may not count any more."""
    place = topic_of(data)
    if place is not None:
        from sharemesh_spark.reader.kafka_log import topic_shard_bytes

        return topic_shard_bytes(place, shard)
    folder = data / shard_log_path(STATE, shard)
    return sum((folder / name.file_name).stat().st_size for name in segment_names(_names(folder)))


def read_shard(data: Path, shard: int, room: Room | None = None) -> ShardImage:
    """Return everything of a shard below its committed end, read whole, into ``room`` if given.

    Raises:
        UnreadableLogError: Corruption below the committed end, or no rest between take-overs.
    """
    place = topic_of(data)
    if place is not None:
        from sharemesh_spark.reader.kafka_log import read_topic_shard

        return read_topic_shard(place, shard)
    return read_log(data / shard_log_path(STATE, shard), shard, room)


def read_log(folder: Path, number: int, room: Room | None = None) -> ShardImage:
    """Return everything of a log directory below its committed end (see ``read_shard``)."""
    return _starting_over(lambda: _read_once(folder, number, room or Room()), folder)


def shard_bounds(data: Path, shard: int) -> Range:
    """Return log start and committed end of a shard.

    Raises:
        UnreadableLogError: See ``read_shard``.
    """
    place = topic_of(data)
    if place is not None:
        from sharemesh_spark.reader.kafka_log import topic_shard_bounds

        return topic_shard_bounds(place, shard)
    folder = data / shard_log_path(STATE, shard)
    return _starting_over(lambda: _bounds_once(folder), folder)


def holes_between(known: Iterable[Range], end: int) -> list[Range]:
    """Return what of ``[0, end)`` is in none of the known ranges, lowest first (spec REP-3)."""
    found, reached = [], 0
    for low, high in sorted(known):
        if low >= end:
            break
        if low > reached:
            found.append((reached, low))
        reached = max(reached, high)
    if reached < end:
        found.append((reached, end))
    return found


def records(image: ShardImage) -> Iterator[RawRecord]:
    """Yield the records of a shard, oldest first, leaving out the log's own markers.

    Raises:
        UnreadableLogError: A batch is not what its place in the log says, with file and position.
    """
    for part in image.parts:
        try:
            for batch in part_records(part.place, part.data):
                for key, value, offset, timestamp_ms in batch:
                    if image.start_offset <= offset < image.end_offset:
                        yield RawRecord(offset, timestamp_ms, key or b"", value)
        except LogBytesError as error:
            raise unreadable(part, error) from error


def unreadable(part: LogPart, error: LogBytesError) -> UnreadableLogError:
    """Return the error with the whole path and what to do."""
    return UnreadableLogError(f"{part.folder / str(error)}; restore the file from a backup")


def topic_of(data: Path) -> "KafkaPlace | None":
    """Return the topic that is a directory's log; what speaks to brokers is imported then only."""
    if not (data / KAFKA_FILE).exists():
        return None
    from sharemesh_spark.reader.kafka_place import BadKafkaPlaceError, place_in

    try:
        return place_in(data)
    except BadKafkaPlaceError as error:
        raise UnreadableLogError(str(error)) from error


def _starting_over(read: Callable[[], Result], folder: Path) -> Result:
    try:
        return until_stable(read)
    except StartOverError as error:
        raise UnreadableLogError(
            f"{folder} changed its owner {RESTARTS_MAX} times while it was read ({error}); try "
            "again"
        ) from error
    except ChainCorruptError as error:
        raise UnreadableLogError(f"{folder}: {error}") from error


def _readable(folder: Path) -> ReadableLog | None:
    def head(name: str, size: int) -> bytes:
        with (folder / name).open("rb") as file:
            return file.read(size)

    return readable_log(lambda: _names(folder), head)


def _read_once(folder: Path, shard: int, room: Room) -> ShardImage:
    log = _readable(folder)
    if log is None:
        return ShardImage(shard, 0, 0, 0, ())
    start, end = log.start_offset, log.end
    parts: list[LogPart] = []
    for part in log.parts:
        if part.end_offset <= start and part.end_offset != end.end_offset:
            continue
        path = folder / part.name.file_name
        with path.open("rb") as file:
            parts.append(LogPart(folder, part, _bytes_of(file, part, room, len(parts))))
    return ShardImage(shard, end.epoch, start, end.end_offset, tuple(parts))


def _bytes_of(file: BufferedReader, part: ReadablePart, room: Room, number: int) -> memoryview:
    """Return the bytes of a part; fewer if the file is shorter."""
    end = file.seek(0, SEEK_END) if part.end_position is None else part.end_position
    file.seek(part.start_position)
    data = room.of_part(number, max(0, end - part.start_position))
    filled = 0
    while count := file.readinto(data[filled:]):
        filled += count
    return data[:filled]


def _bounds_once(folder: Path) -> Range:
    log = _readable(folder)
    return (0, 0) if log is None else (log.start_offset, log.end.end_offset)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
