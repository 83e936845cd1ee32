"""Frames: how record batches lie behind each other in a segment or in a produce request.

A frame is one Kafka RecordBatch v2 (magic 2), header included. Base offset and partition leader
epoch lie before the CRC and are the server's; all from the attributes on is the client's and is
covered by the CRC.
"""

import struct
from typing import NamedTuple

from sharemesh.codec.hashes import crc32c
from sharemesh.domain.record_batch import BatchHeader

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61
LENGTH_PREFIX_BYTES = 12  # base offset and length, which the length does not count
CRC_START = 21  # the attributes: the first byte under the CRC
MAGIC = 2
BATCH_BYTES_MAX = 128 * 1024 * 1024  # more is not a length but a broken header

_PLACE = struct.Struct(">q4si")
_CRC = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = HEADER_BYTES - struct.calcsize(">qhii")  # identity, then the record count

COMPRESSION_MASK = 0x07
TRANSACTIONAL = 0x10
CONTROL = 0x20


class Frame(NamedTuple):
    """One record batch in a file or buffer; a span of zero offsets marks a log marker."""

    position: int
    size_bytes: int
    base_offset: int
    end_offset: int  # exclusive; equal to base_offset for a log marker
    leader_epoch: int
    attributes: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def is_marker(self) -> bool:
        """Whether this is a marker of the log itself, which takes no offset."""
        return self.end_offset == self.base_offset


class Frames(NamedTuple):
    """What a window of bytes holds: whole frames, and why the walk ended."""

    frames: list[Frame]
    position: int  # in the file, one past the last whole frame
    end_offset: int
    problem: str | None  # None: the window ended; else what is wrong at ``position``


def walk_frames(
    window: bytes | bytearray | memoryview,
    *,
    start: int,
    limit: int,
    base_offset: int | None,
    leader_epoch: int | None,
    check_crc: bool,
) -> Frames:
    """Walk the frames of ``window``, checking what the CRC does not cover too (LOG-2).

    Args:
        window: Bytes of the file from position ``start``; it may end inside a frame.
        start: Position of the window's first byte in the file; a frame begins there.
        limit: Position in the file that no frame may pass (exclusive).
        base_offset: The offset that the first frame must have; None takes any.
        leader_epoch: The epoch that every frame must have; None takes any.
        check_crc: Also check the checksum; then a frame must lie in the window whole. Without
            it a frame counts when its header lies in the window.
    """
    frames: list[Frame] = []
    position, expected = start, base_offset
    view = memoryview(window)
    length_of_window = len(view)
    unpack = HEADER.unpack_from
    new = tuple.__new__  # half the cost of Frame(...)
    problem = None
    while (relative := position - start) + HEADER_BYTES <= length_of_window:
        (
            offset, length, epoch, magic, crc, attributes, last_delta,
            first_ms, max_ms, producer_id, producer_epoch, sequence, count,
        ) = unpack(view, relative)  # fmt: skip
        size = length + LENGTH_PREFIX_BYTES
        if (
            magic != MAGIC
            or not HEADER_BYTES <= size <= BATCH_BYTES_MAX
            or last_delta < -1
            or count < 0
            or (expected is not None and offset != expected)
            or (leader_epoch is not None and epoch != leader_epoch)
            or position + size > limit
        ):
            problem = _what_is_wrong(view[relative:], expected, leader_epoch, limit - position)
            break
        if check_crc:
            if relative + size > length_of_window:
                break
            if crc32c(view[relative + CRC_START : relative + size]) != crc:
                problem = f"checksum of the record batch at offset {offset} does not match"
                break
        expected = offset + last_delta + 1
        frames.append(
            new(
                Frame,
                (
                    position, size, offset, expected, epoch, attributes,
                    first_ms, max_ms, producer_id, producer_epoch, sequence, count,
                ),
            )
        )  # fmt: skip
        position += size
    room = limit - position
    if problem is None and 0 < room < HEADER_BYTES and limit <= start + length_of_window:
        problem = f"{room} bytes are too few for the header of a record batch"
    return Frames(frames, position, 0 if expected is None else expected, problem)


def _what_is_wrong(
    view: memoryview, expected: int | None, leader_epoch: int | None, room: int
) -> str:
    offset, length, epoch, magic, *_ = HEADER.unpack_from(view)
    size = length + LENGTH_PREFIX_BYTES
    if magic != MAGIC:
        return f"magic {magic} is not {MAGIC}"
    if not HEADER_BYTES <= size <= BATCH_BYTES_MAX:
        return f"length {length} of a record batch is out of bounds"
    if expected is not None and offset != expected:
        return f"base offset {offset} is not {expected}, where the batch before it ended"
    if leader_epoch is not None and epoch != leader_epoch:
        return f"leader epoch {epoch} of a record batch is not {leader_epoch}, its segment's"
    if size > room:
        return f"a record batch of {size} bytes does not fit into the {room} bytes that are left"
    return "offset delta or record count of a record batch is negative"


def frame_size(header: bytes | bytearray | memoryview) -> int:
    """Return how many bytes the record batch has whose header this is, itself included."""
    length: int = HEADER.unpack_from(header)[1]
    return length + LENGTH_PREFIX_BYTES


def frame_start(buffer: bytes | bytearray | memoryview, at: int) -> int:
    """Return the base offset that the header at ``at`` says."""
    offset: int = HEADER.unpack_from(buffer, at)[0]
    return offset


def frame_of(batch: bytes | bytearray | memoryview, base_offset: int) -> Frame:
    """Return the frame of one whole batch of our own making that begins at ``base_offset``."""
    _, _, epoch, _, _, attributes, delta, first_ms, max_ms, producer_id, *rest = HEADER.unpack_from(
        batch
    )
    end_offset = base_offset + delta + 1
    return Frame(
        0, len(batch), base_offset, end_offset, epoch, attributes, first_ms, max_ms, producer_id,
        *rest,
    )  # fmt: skip


def place_frame(buffer: bytearray, base_offset: int, leader_epoch: int, *, at: int = 0) -> None:
    """Write offset and leader epoch into the header at ``at``; the CRC does not cover them."""
    struct.pack_into(">q", buffer, at, base_offset)
    struct.pack_into(">i", buffer, at + LENGTH_PREFIX_BYTES, leader_epoch)


def placed_header(header: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Return a batch's header with offset and leader epoch of its place in the log."""
    return _PLACE.pack(base_offset, header[8:12], leader_epoch) + header[16:HEADER_BYTES]


def with_producer(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """Return the batch under another producer's identity, with the CRC of that."""
    changed = bytearray(batch)
    _PRODUCER.pack_into(changed, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(changed, CRC_START - _CRC.size, crc32c(memoryview(changed)[CRC_START:]))
    return bytes(changed)


def find_valid_frame(
    data: bytes | bytearray | memoryview, *, from_position: int, leader_epoch: int
) -> int | None:
    """Return where behind ``from_position`` a whole valid batch of this epoch begins, or None.

    A valid batch behind invalid bytes means corruption, not a torn tail (LOG-14).
    """
    haystack = bytes(data)
    needle = struct.pack(">ib", leader_epoch, MAGIC)
    found = haystack.find(needle, from_position + LENGTH_PREFIX_BYTES)
    while found >= 0:
        begin = found - LENGTH_PREFIX_BYTES
        walk = walk_frames(
            memoryview(haystack)[begin:],
            start=begin,
            limit=len(haystack),
            base_offset=None,
            leader_epoch=leader_epoch,
            check_crc=True,
        )
        if walk.frames:
            return begin
        found = haystack.find(needle, found + 1)
    return None


def header_of(frame: Frame, *, is_abort_marker: bool = False) -> BatchHeader:
    """Return the domain's words for a frame that holds offsets."""
    return BatchHeader(
        base_offset=frame.base_offset,
        last_offset=frame.end_offset - 1,
        size_bytes=frame.size_bytes,
        leader_epoch=frame.leader_epoch,
        record_count=frame.record_count,
        first_timestamp_ms=frame.first_timestamp_ms,
        max_timestamp_ms=frame.max_timestamp_ms,
        producer_id=frame.producer_id,
        producer_epoch=frame.producer_epoch,
        base_sequence=frame.base_sequence,
        is_transactional=bool(frame.attributes & TRANSACTIONAL),
        is_control=bool(frame.attributes & CONTROL),
        is_abort_marker=is_abort_marker,
    )
