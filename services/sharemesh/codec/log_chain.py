"""Which bytes are the log: the chain of segments, from a listing and headers (LOG-11, LOG-13).

Pure. A reader of a log directory (the next owner, Spark, inspection) does, in this order:

1. list; read the ``.end`` file of the highest epoch: ``decode_committed_end``;
2. list again; read the first 64 bytes of each segment: ``segment_headers``;
3. ``resolve_chain``, then ``readable_parts``; a ``StartOverError`` or a vanished file means that
   an owner changed the directory meanwhile: go back to 1;
4. read each part's bytes and walk them with ``batch_frame.walk_frames``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sharemesh.codec.committed_end import CommittedEnd
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentFormatError,
    SegmentHeader,
    SegmentName,
)


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
