"""The published committed end of a log: one small file for each epoch (LOG-7, LOG-13).

Two slots are written in turn, in place and without a sync: a reader, or the next owner, takes
the newest slot that is whole. After a power cut it may lag; it never claims what is not synced.
"""

import struct
from dataclasses import dataclass

from sharemesh.codec.checksum import crc32c
from sharemesh.codec.segment import SegmentName

SLOT_BYTES = 64
_MAGIC = b"shme"
_SLOT = struct.Struct(">4sxxxxqqqqqqxxxxI")


@dataclass(frozen=True, slots=True)
class CommittedEnd:
    """Everything below ``end_offset`` is durable and confirmed, under ``epoch``.

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
        _MAGIC,
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
        if magic != _MAGIC or crc32c(slot[:-4]) != crc:
            continue
        if newest is None or sequence > newest.sequence:
            newest = CommittedEnd(epoch, end, base, position, log_start, sequence)
    return newest
