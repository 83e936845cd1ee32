"""Files of a log: segments, each linked to its predecessor, and the committed end (LOG-5).

Layout of a log directory (all numbers in names are decimal and zero-padded)::

    fences/<epoch, 10 digits>                   empty; who finds a higher one is fenced
    <base offset, 20>-<epoch, 10>.log           header, then record batches
    <base offset, 20>-<epoch, 10>.snapshot      of a record log: what a start would else scan for
    <epoch, 10>.end                             the committed end of this epoch's writer
    *.new                                       being written; never part of the log

A ``.log`` name appears by a rename, after its header and the bytes taken over are synced: a
``.log`` whose header is invalid is corruption, never a torn write.
"""

import re
import struct
from dataclasses import dataclass
from typing import NamedTuple

from sharemesh.codec.hashes import crc32c

FENCES = "fences"
NEW_SUFFIX = ".new"
SEGMENT_HEADER_BYTES = 64
FORMAT = 1
EPOCH_MAX = 2**31 - 1
_MAGIC = b"shmelog\n"
_HEADER = struct.Struct(">8sHHqqqqqqI")
_SEGMENT_NAME = re.compile(r"(\d{20})-(\d{10})\.log")
_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.snapshot")
_END_NAME = re.compile(r"(\d{10})\.end")
SLOT_BYTES = 64
_END_MAGIC = b"shme"
_SLOT = struct.Struct(">4sxxxxqqqqqqxxxxI")


class SegmentName(NamedTuple):
    """What a segment file is called; ordered by epoch, then base offset."""

    epoch: int
    base_offset: int

    @property
    def file_name(self) -> str:
        """The name within the log directory."""
        return f"{self.base_offset:020d}-{self.epoch:010d}.log"

    @property
    def snapshot_name(self) -> str:
        """The name of the snapshot that belongs to the segment, if there is one."""
        return f"{self.base_offset:020d}-{self.epoch:010d}.snapshot"


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first 64 bytes of a segment.

    ``predecessor`` is None for the first segment of a log. ``predecessor_end`` is the cut: the
    predecessor's bytes before this position belong to the log, those behind it do not.
    ``log_start_offset`` is the log start when the segment was opened; a later one is in a marker.
    """

    epoch: int
    base_offset: int
    predecessor: SegmentName | None
    predecessor_end: int
    log_start_offset: int

    @property
    def name(self) -> SegmentName:
        """The name of the segment that carries this header."""
        return SegmentName(self.epoch, self.base_offset)


class SegmentFormatError(ValueError):
    """The header is not one that this version can read; the message says why."""


def encode_segment_header(header: SegmentHeader) -> bytes:
    """Return the 64 bytes with which a segment begins."""
    epoch, base_offset = header.predecessor or (-1, -1)
    body = _HEADER.pack(
        _MAGIC,
        FORMAT,
        SEGMENT_HEADER_BYTES,
        header.epoch,
        header.base_offset,
        epoch,
        base_offset,
        header.predecessor_end,
        header.log_start_offset,
        0,
    )[:-4]
    return body + struct.pack(">I", crc32c(body))


def decode_segment_header(data: bytes, name: SegmentName) -> SegmentHeader:
    """Return the header of the segment called ``name``.

    Raises:
        SegmentFormatError: Too short, wrong magic, checksum or format, or not the name's.
    """
    if len(data) < SEGMENT_HEADER_BYTES:
        raise SegmentFormatError(f"segment header has {len(data)} of {SEGMENT_HEADER_BYTES} bytes")
    magic, form, _, epoch, base, from_epoch, from_base, cut, log_start, crc = _HEADER.unpack_from(
        data
    )
    if magic != _MAGIC:
        raise SegmentFormatError(f"segment header begins with {magic!r}, not {_MAGIC!r}")
    if crc32c(data[: SEGMENT_HEADER_BYTES - 4]) != crc:
        raise SegmentFormatError("checksum of the segment header does not match")
    if form > FORMAT:
        raise SegmentFormatError(
            f"segment format {form} is newer than {FORMAT}, the newest that this version reads"
        )
    own = SegmentName(epoch, base)
    if own != name:
        raise SegmentFormatError(
            f"segment header says epoch {epoch}, base offset {base}; the file is {name.file_name}"
        )
    predecessor = None if from_epoch < 0 else SegmentName(from_epoch, from_base)
    if predecessor is not None and not _may_follow(name, predecessor):
        raise SegmentFormatError(
            f"segment {name.file_name} names {predecessor.file_name} before it"
        )
    return SegmentHeader(epoch, base, predecessor, cut, log_start)


def _may_follow(name: SegmentName, predecessor: SegmentName) -> bool:
    """Whether the header cuts only lower epochs, or is the next segment of its own epoch."""
    return predecessor < name and predecessor.base_offset <= name.base_offset


def segment_names(listing: list[str]) -> list[SegmentName]:
    """Return the segments among the names of a log directory, by epoch, then base offset."""
    found = (_SEGMENT_NAME.fullmatch(name) for name in listing)
    return sorted(SegmentName(int(match[2]), int(match[1])) for match in found if match)


def snapshot_names(listing: list[str]) -> list[SegmentName]:
    """Return the segments that have a snapshot, by epoch, then base offset."""
    found = (_SNAPSHOT_NAME.fullmatch(name) for name in listing)
    return sorted(SegmentName(int(match[2]), int(match[1])) for match in found if match)


def unfinished_snapshots(listing: list[str], below_epoch: int) -> list[str]:
    """Return the names of snapshots of lower epochs that were never finished."""
    found = ((name, _SNAPSHOT_NAME.match(name)) for name in listing if name.endswith(NEW_SUFFIX))
    return [name for name, match in found if match and int(match[2]) < below_epoch]


def end_name(epoch: int) -> str:
    """Return the name of the committed-end file of an epoch."""
    return f"{epoch:010d}.end"


def end_epochs(listing: list[str]) -> list[int]:
    """Return the epochs that have a committed-end file, ascending."""
    return sorted(int(match[1]) for name in listing if (match := _END_NAME.fullmatch(name)))


def fence_name(epoch: int) -> str:
    """Return the name of an epoch's fence, which sorts as the number does."""
    return f"{epoch:010d}"


@dataclass(frozen=True, slots=True)
class CommittedEnd:
    """Everything below ``end_offset`` is durable and confirmed, under ``epoch`` (LOG-7, LOG-13).

    It stands in one small file for each epoch. Two slots are written in turn, in place and without
    a sync: a reader, or the next owner, takes the newest slot that is whole. After a power cut it
    may lag; it never claims what is not synced.

    ``segment_base_offset`` and ``end_position`` say where that is: the segment of this epoch
    that was open, and one past its last committed byte.
    """

    epoch: int
    end_offset: int
    segment_base_offset: int
    end_position: int
    log_start_offset: int
    sequence: int = 0  # grows with each publication

    @property
    def segment(self) -> SegmentName:
        """The segment that holds the end."""
        return SegmentName(self.epoch, self.segment_base_offset)


def encode_committed_end(end: CommittedEnd) -> tuple[int, bytes]:
    """Return (position in the file, bytes) of the slot for ``end``."""
    body = _SLOT.pack(
        _END_MAGIC,
        end.epoch,
        end.end_offset,
        end.segment_base_offset,
        end.end_position,
        end.log_start_offset,
        end.sequence,
        0,
    )[:-4]
    return (end.sequence & 1) * SLOT_BYTES, body + struct.pack(">I", crc32c(body))


def decode_committed_end(data: bytes) -> CommittedEnd | None:
    """Return the newest whole slot of a committed-end file, or None if there is none."""
    newest: CommittedEnd | None = None
    for at in range(0, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
        slot = data[at : at + SLOT_BYTES]
        magic, epoch, end, base, position, log_start, sequence, crc = _SLOT.unpack(slot)
        if magic != _END_MAGIC or crc32c(slot[:-4]) != crc:
            continue
        if newest is None or sequence > newest.sequence:
            newest = CommittedEnd(epoch, end, base, position, log_start, sequence)
    return newest
