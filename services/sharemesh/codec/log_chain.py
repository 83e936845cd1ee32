"""Which bytes are the log: the chain of segments, from a listing and headers (LOG-11..14).

Pure. A reader of a log directory beside its owner (Spark, inspection) does, in this order:

1. list; read the ``.end`` file of the highest epoch: ``decode_committed_end``;
2. list again; read the first 64 bytes of each segment: ``segment_headers``;
3. ``resolve_chain``, then ``readable_parts``; a ``StartOverError`` or a vanished file means that
   an owner changed the directory meanwhile: go back to 1;
4. read each part's bytes and walk them with ``part_frames``, which checks everything (LOG-14).

``readable_log`` does the first three, ``until_stable`` repeats them. A part that ends early is
reported too: fewer records are never mistaken for all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sharemesh.codec.batch_frame import Frame, walk_frames
from sharemesh.codec.record_set import RecordSetError, decode_plain_records
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    SLOT_BYTES,
    CommittedEnd,
    SegmentFormatError,
    SegmentHeader,
    SegmentName,
    decode_committed_end,
    decode_segment_header,
    end_epochs,
    end_name,
    segment_names,
)

_CHECKED_BYTES = 1024 * 1024
"""Bytes that are checked before their frames are yielded, while still in the CPU's caches."""

RESTARTS_MAX = 20
"""How often a reading starts over while owners change the directory."""

Result = TypeVar("Result")
SegmentHeaders = dict[SegmentName, SegmentHeader | SegmentFormatError]


class StartOverError(Exception):
    """Listing and committed end do not belong together: read both again."""


class ChainCorruptError(Exception):
    """A header on the chain is invalid, or a segment of the chain is missing."""

    def __init__(self, file_name: str, offset: int, problem: str) -> None:
        super().__init__(f"{file_name}, position 0, offset {offset}: {problem}")
        self.file_name = file_name
        self.offset = offset


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One segment of the chain; its bytes in ``[64, end_position)`` belong to the log.

    ``end_offset`` and ``end_position`` are None for the newest link, which has no successor.
    """

    header: SegmentHeader
    end_offset: int | None
    end_position: int | None

    @property
    def name(self) -> SegmentName:
        """The segment's name."""
        return self.header.name


@dataclass(frozen=True, slots=True)
class Chain:
    """The segments of the log, oldest first, and those that are outside it."""

    links: tuple[ChainLink, ...]
    off_chain: tuple[SegmentName, ...]
    missing: SegmentName | None  # the predecessor of the oldest link, pruned (or lost)

    @property
    def newest(self) -> ChainLink | None:
        """The link that is written, or was written last."""
        return self.links[-1] if self.links else None

    @property
    def log_start_offset(self) -> int:
        """The log start when the newest segment was opened; markers in it may have raised it."""
        return self.links[-1].header.log_start_offset if self.links else 0


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """A range of one file: whole record batches from ``base_offset`` on.

    Read up to ``end_position`` (None: up to the end of the file) and stop at ``end_offset``.
    """

    name: SegmentName
    base_offset: int
    end_offset: int
    start_position: int
    end_position: int | None


def resolve_chain(headers: Mapping[SegmentName, SegmentHeader | SegmentFormatError]) -> Chain:
    """Return the chain from the highest-epoch segment back along predecessors.

    Args:
        headers: Every segment in the directory, with its header or why it has none.

    Raises:
        ChainCorruptError: A segment that must be on the chain has no valid header.
    """
    if not headers:
        return Chain((), (), None)
    links: list[ChainLink] = []
    name: SegmentName | None = max(headers)
    successor: SegmentHeader | None = None
    while name is not None and name in headers:
        header = headers[name]
        if isinstance(header, SegmentFormatError):
            raise ChainCorruptError(name.file_name, name.base_offset, str(header))
        if successor is None:
            links.append(ChainLink(header, None, None))
        else:
            links.append(ChainLink(header, successor.base_offset, successor.predecessor_end))
        successor, name = header, header.predecessor
    on_chain = {link.name for link in links}
    off_chain = tuple(sorted(other for other in headers if other not in on_chain))
    return Chain(tuple(reversed(links)), off_chain, name)


def readable_parts(chain: Chain, end: CommittedEnd) -> tuple[ReadablePart, ...]:
    """Return what a reader may read: everything below the committed end, oldest first.

    Raises:
        StartOverError: The chain does not reach the epoch of the committed end.
    """
    newest = chain.newest
    if newest is None or newest.name < end.segment:
        raise StartOverError(f"no segment of epoch {end.epoch} in the listing")
    parts = []
    for link in chain.links:
        if link.header.base_offset >= end.end_offset and link.name != end.segment:
            break
        position = link.end_position
        if link.name == end.segment:
            position = min(position or end.end_position, end.end_position)
        offset = end.end_offset if link.end_offset is None else link.end_offset
        parts.append(
            ReadablePart(
                name=link.name,
                base_offset=link.header.base_offset,
                end_offset=min(offset, end.end_offset),
                start_position=SEGMENT_HEADER_BYTES,
                end_position=position,
            )
        )
    return tuple(parts)


def starting_offset(chain: Chain, end: CommittedEnd) -> int:
    """Return the log start as far as headers and the published end know it.

    Raises:
        StartOverError: Older segments that should be there are missing from the listing.
    """
    log_start = max(chain.log_start_offset, end.log_start_offset)
    if chain.missing is not None and chain.links[0].header.base_offset > log_start:
        raise StartOverError(f"segment {chain.missing.file_name} is not in the listing")
    return log_start


class LogBytesError(Exception):
    """Bytes below the committed end are not what they must be; whatever precedes is good."""

    def __init__(self, file_name: str, position: int, offset: int, problem: str) -> None:
        super().__init__(f"{file_name}, position {position}, offset {offset}: {problem}")
        self.file_name = file_name
        self.position = position
        self.offset = offset
        self.problem = problem


def part_frames(part: ReadablePart, data: bytes | memoryview) -> Iterator[Frame]:
    """Yield the record batches of one part, oldest first, without the log's own markers.

    ``frame.position`` counts from the beginning of the file; subtract ``part.start_position``
    to find it in ``data``.

    Args:
        part: From ``readable_parts``.
        data: The file's bytes from ``part.start_position``, up to ``part.end_position`` or, if
            that is None, up to the end of the file.

    Raises:
        LogBytesError: Invalid bytes, or too few.
    """
    end = part.end_position
    limit = part.start_position + len(data) if end is None else end
    view = memoryview(data)
    at, offset, room = 0, part.base_offset, _CHECKED_BYTES
    while True:
        walk = walk_frames(
            view[at : at + room],
            start=part.start_position + at,
            limit=limit,
            base_offset=offset,
            leader_epoch=part.name.epoch,
            check_crc=True,
        )
        for frame in walk.frames:
            if frame.end_offset > part.end_offset:
                break
            offset = frame.end_offset
            if not frame.is_marker:
                yield frame
        if walk.problem or walk.end_offset > part.end_offset or at + room >= len(view):
            break
        room = _CHECKED_BYTES if walk.frames else 2 * room
        at = walk.position - part.start_position
    if offset < part.end_offset:
        problem = walk.problem or f"the file ends here, and offset {part.end_offset} is committed"
        raise LogBytesError(part.name.file_name, walk.position, walk.end_offset, problem)


def part_records(
    part: ReadablePart, data: bytes | memoryview
) -> Iterator[list[tuple[bytes | None, bytes | None, int, int]]]:
    """Yield (key, value, offset, timestamp in ms) of each batch of a shard log's part.

    Raises:
        LogBytesError: Invalid bytes, or too few.
    """
    view = memoryview(data)
    for frame in part_frames(part, data):
        at = frame.position - part.start_position
        try:
            yield decode_plain_records(view[at : at + frame.size_bytes])
        except RecordSetError as error:
            raise LogBytesError(
                part.name.file_name, frame.position, frame.base_offset, str(error)
            ) from error


@dataclass(frozen=True, slots=True)
class ReadableLog:
    """A log as of one committed end: offsets ``[start_offset, end.end_offset)``."""

    end: CommittedEnd
    chain: Chain
    parts: tuple[ReadablePart, ...]
    start_offset: int


def readable_log(
    names: Callable[[], list[str]], head: Callable[[str, int], bytes]
) -> ReadableLog | None:
    """Return what may be read of a log directory; None if nothing was ever committed in it.

    Args:
        names: Lists the directory.
        head: Returns the first bytes of a file, at most the number given.

    Raises:
        StartOverError: An owner changed the directory meanwhile.
        ChainCorruptError: See ``resolve_chain``.
    """
    for epoch in sorted(end_epochs(names()), reverse=True):
        end = decode_committed_end(head(end_name(epoch), 2 * SLOT_BYTES))
        if end is not None:  # else its owner has not published a whole one yet
            chain = resolve_chain(segment_headers(names(), head))
            return ReadableLog(end, chain, readable_parts(chain, end), starting_offset(chain, end))
    return None


def segment_headers(names: list[str], head: Callable[[str, int], bytes]) -> SegmentHeaders:
    """Return the header of each segment in a listing, or why it has none."""
    headers: SegmentHeaders = {}
    for name in segment_names(names):
        try:
            headers[name] = decode_segment_header(head(name.file_name, SEGMENT_HEADER_BYTES), name)
        except SegmentFormatError as error:
            headers[name] = error
    return headers


def until_stable(read: Callable[[], Result]) -> Result:
    """Repeat a reading until no owner changes the directory meanwhile, ``RESTARTS_MAX`` times.

    Raises:
        StartOverError: It changed each time.
    """
    why: Exception | None = None
    for _ in range(RESTARTS_MAX):
        try:
            return read()
        except (StartOverError, FileNotFoundError) as error:
            why = error
    raise StartOverError(str(why))
