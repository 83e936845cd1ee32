"""Reads the share state log of a data directory beside its writers, without locks (LOG-13).

Files are only read. What lies beyond the committed end is never looked at; when an owner changes
the directory meanwhile, the reading starts over, a bounded number of times.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from os import SEEK_END
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sharemesh.codec.committed_end import CommittedEnd, decode_committed_end
from sharemesh.codec.log_chain import (
    ChainCorruptError,
    ReadablePart,
    StartOverError,
    readable_parts,
    resolve_chain,
    starting_offset,
)
from sharemesh.codec.log_layout import (
    CLUSTER_FILE,
    STATE,
    ClusterFile,
    DataDirectoryError,
    decode_cluster_file,
    shard_log_path,
)
from sharemesh.codec.log_read import LogBytesError, part_records
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentFormatError,
    SegmentHeader,
    SegmentName,
    decode_segment_header,
    end_epochs,
    end_name,
    segment_names,
)

RESTARTS_MAX = 20
Result = TypeVar("Result")


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
    try:
        return decode_cluster_file((data / CLUSTER_FILE).read_bytes())
    except OSError as error:
        raise UnreadableLogError(
            f"{data} is not a data directory of sharemesh ({error.strerror}: {CLUSTER_FILE}); "
            "pass the directory that `sharemesh up` was given as its data directory"
        ) from error
    except DataDirectoryError as error:
        raise UnreadableLogError(f"{data}: {error}") from error


def shards(data: Path) -> list[int]:
    """Return the shards of the share state log."""
    return list(range(cluster_file(data).state_shards))


def shard_bytes(data: Path, shard: int) -> int:
    """Return how large the files of a shard's log are, some of which may not count any more."""
    folder = data / shard_log_path(STATE, shard)
    return sum((folder / name.file_name).stat().st_size for name in segment_names(_names(folder)))


def read_shard(data: Path, shard: int, room: Room | None = None) -> ShardImage:
    """Return everything of a shard below its committed end, read whole, into ``room`` if given.

    Raises:
        UnreadableLogError: Corruption below the committed end, or no rest between take-overs.
    """
    return read_log(data / shard_log_path(STATE, shard), shard, room)


def read_log(folder: Path, number: int, room: Room | None = None) -> ShardImage:
    """Return everything of a log directory below its committed end (see ``read_shard``)."""
    return _starting_over(lambda: _read_once(folder, number, room or Room()), folder)


def shard_bounds(data: Path, shard: int) -> tuple[int, int]:
    """Return log start and committed end of a shard.

    Raises:
        UnreadableLogError: See ``read_shard``.
    """
    folder = data / shard_log_path(STATE, shard)
    return _starting_over(lambda: _bounds_once(folder), folder)


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


def _starting_over(read: Callable[[], Result], folder: Path) -> Result:
    why: Exception | None = None
    for _ in range(RESTARTS_MAX):
        try:
            return read()
        except (StartOverError, FileNotFoundError) as error:
            why = error
        except ChainCorruptError as error:
            raise UnreadableLogError(f"{folder}: {error}") from error
    raise UnreadableLogError(
        f"{folder} changed its owner {RESTARTS_MAX} times while it was read ({why}); try again"
    )


def _read_once(folder: Path, shard: int, room: Room) -> ShardImage:
    end = _committed_end(folder)
    if end is None:
        return ShardImage(shard, 0, 0, 0, ())
    chain = resolve_chain(_headers(folder))
    start = starting_offset(chain, end)
    parts: list[LogPart] = []
    for part in readable_parts(chain, end):
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


def _bounds_once(folder: Path) -> tuple[int, int]:
    end = _committed_end(folder)
    if end is None:
        return 0, 0
    return starting_offset(resolve_chain(_headers(folder)), end), end.end_offset


def _committed_end(folder: Path) -> CommittedEnd | None:
    for epoch in sorted(end_epochs(_names(folder)), reverse=True):
        end = decode_committed_end((folder / end_name(epoch)).read_bytes())
        if end is not None:
            return end
    return None


def _headers(folder: Path) -> dict[SegmentName, SegmentHeader | SegmentFormatError]:
    headers: dict[SegmentName, SegmentHeader | SegmentFormatError] = {}
    for name in segment_names(_names(folder)):
        with (folder / name.file_name).open("rb") as file:
            try:
                headers[name] = decode_segment_header(file.read(SEGMENT_HEADER_BYTES), name)
            except SegmentFormatError as error:
                headers[name] = error
    return headers


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
