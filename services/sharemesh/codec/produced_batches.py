"""What a produce request may hold: whole, intact record batches that a client may write."""

import struct

from sharemesh.codec.batch_frame import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Frame,
)
from sharemesh.codec.hashes import crc32c
from sharemesh.domain.errors import ErrorCode, RefusedError

_LENGTH_AND_ATTRIBUTES = struct.Struct(">i9xh")  # from byte 8 of a header on

COMPRESSION_MAX = 4  # zstd
NO_TIMESTAMP = -1  # Kafka's: the record has none
BATCHES_MAX = 10_000  # of one request and partition


def check_batches(
    data: bytes | bytearray | memoryview, *, batch_bytes_max: int, times_ms: tuple[int, int]
) -> list[Frame]:
    """Return the frames of ``data``, with positions and offsets as if it began at 0.

    Args:
        data: Whole record batches.
        batch_bytes_max: Of each.
        times_ms: The first and the last time that a record may have (BND-14).

    Raises:
        RefusedError: CORRUPT_MESSAGE (bounds, checksum), MESSAGE_TOO_LARGE, INVALID_RECORD
            (magic, control batch, counts, producer fields), INVALID_TIMESTAMP.
    """
    view = memoryview(data)
    total = len(view)
    frames: list[Frame] = []
    position = offset = 0
    while position < total:
        if total - position < HEADER_BYTES:
            raise _corrupt(position, f"{total - position} bytes are no record batch")
        (
            _, length, _, magic, crc, attributes, last_delta,
            first_ms, max_ms, producer_id, producer_epoch, sequence, count,
        ) = HEADER.unpack_from(view, position)  # fmt: skip
        size = length + LENGTH_PREFIX_BYTES
        if magic != MAGIC:
            raise _invalid(position, f"magic {magic} is not {MAGIC}: send record batches v2")
        if size > batch_bytes_max:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record batch of {size} bytes is larger than max.message.bytes = "
                f"{batch_bytes_max}",
            )
        if size < HEADER_BYTES or position + size > total:
            raise _corrupt(position, f"length {length} does not fit the {total} bytes sent")
        if crc32c(view[position + CRC_START : position + size]) != crc:
            raise _corrupt(position, "the checksum does not match")
        frame = Frame(
            position, size, offset, offset + last_delta + 1, -1, attributes,
            first_ms, max_ms, producer_id, producer_epoch, sequence, count,
        )  # fmt: skip
        _check_fields(frame)
        _check_times(frame, *times_ms)
        frames.append(frame)
        position, offset = position + size, frame.end_offset
        if len(frames) > BATCHES_MAX:
            raise _invalid(position, f"more than {BATCHES_MAX} record batches in one request")
    if not frames:
        raise _invalid(0, "no record batch was sent")
    return frames


def holds_transaction(data: bytes) -> bool:
    """Whether a batch of ``data`` is transactional, as far as ``check_batches`` accepts it."""
    position, total = 0, len(data)
    while position + HEADER_BYTES <= total:
        length, attributes = _LENGTH_AND_ATTRIBUTES.unpack_from(data, position + 8)
        if attributes & TRANSACTIONAL:
            return True
        if length + LENGTH_PREFIX_BYTES < HEADER_BYTES:
            return False
        position += length + LENGTH_PREFIX_BYTES
    return False


def _check_fields(frame: Frame) -> None:
    count, at = frame.record_count, frame.position
    if count < 1 or frame.end_offset - frame.base_offset != count:
        raise _invalid(
            at,
            f"{count} records and a last offset delta of "
            f"{frame.end_offset - frame.base_offset - 1} do not agree",
        )
    if count > frame.size_bytes:  # a record takes at least 7 bytes, compressed or not far less
        raise _invalid(at, f"{count} records in {frame.size_bytes} bytes")
    if frame.attributes & CONTROL:
        raise _invalid(at, "control batches are written by the server only")
    if frame.attributes & COMPRESSION_MASK > COMPRESSION_MAX:
        raise _invalid(at, f"compression {frame.attributes & COMPRESSION_MASK} is unknown")
    if frame.producer_id >= 0:
        if frame.producer_epoch < 0 or frame.base_sequence < 0:
            raise _invalid(
                at,
                f"producer {frame.producer_id} with epoch {frame.producer_epoch} and sequence "
                f"{frame.base_sequence}: both must be 0 or more",
            )
    elif frame.attributes & TRANSACTIONAL:
        raise _invalid(at, "a transactional record batch needs a producer id")


def _check_times(frame: Frame, earliest_ms: int, latest_ms: int) -> None:
    for time_ms in (frame.first_timestamp_ms, frame.max_timestamp_ms):
        if time_ms != NO_TIMESTAMP and not earliest_ms <= time_ms <= latest_ms:
            raise RefusedError(
                ErrorCode.INVALID_TIMESTAMP,
                f"record batch at byte {frame.position}: a record has timestamp {time_ms}, and "
                f"{max(earliest_ms, 0)} to {latest_ms} is allowed now; correct the producer's "
                "clock, or alter message.timestamp.before.max.ms and "
                "message.timestamp.after.max.ms of the topic",
            )


def _corrupt(position: int, problem: str) -> RefusedError:
    return RefusedError(ErrorCode.CORRUPT_MESSAGE, f"record batch at byte {position}: {problem}")


def _invalid(position: int, problem: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_RECORD, f"record batch at byte {position}: {problem}")
