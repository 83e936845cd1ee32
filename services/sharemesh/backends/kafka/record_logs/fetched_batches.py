"""Bytes of a fetch as whole record batches, and what a read takes out of them (pure)."""

from collections.abc import Sequence
from typing import NamedTuple

from sharemesh.codec.batch_frame import (
    CONTROL,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Frame,
    frame_size,
    header_of,
    walk_frames,
)
from sharemesh.codec.control_batches import is_abort_marker
from sharemesh.domain.record_batch import BatchHeader
from sharemesh.ports.record_log import ReadResult

_MAGIC_AT = 16  # where a batch of any format says which one it is


class FetchedBatches(NamedTuple):
    """Whole batches of ``[start_offset, end_offset)``: between them are no others.

    Positions of the frames count from the first byte of ``data``.
    """

    start_offset: int
    end_offset: int
    frames: tuple[Frame, ...]
    data: bytes


def whole_batches(records: bytes, asked_offset: int | None) -> tuple[FetchedBatches, str]:
    """Return what a fetch from ``asked_offset`` holds, and what is wrong behind it, if anything.

    None: it is not known from where; then nothing is said of what lies before the first batch.
    A last batch that is cut is left out (KRL-6). Checksums are not looked at: clients do that.
    """
    walked, position = _walk(records)
    frames = tuple(walked)
    if asked_offset is not None:
        frames = tuple(frame for frame in frames if frame.end_offset > asked_offset)
    problem = _problem(records, position)
    if not frames:
        at = -1 if asked_offset is None else asked_offset
        return FetchedBatches(at, at, (), b""), problem
    start = frames[0].base_offset
    if asked_offset is not None:
        start = min(start, asked_offset)
    whole = records if position == len(records) else records[:position]
    return FetchedBatches(start, frames[-1].end_offset, frames, whole), problem


def _walk(records: bytes) -> tuple[list[Frame], int]:
    """Return the whole batches and where they end; compaction leaves holes between them."""
    view, position = memoryview(records), 0
    frames: list[Frame] = []
    while True:
        walk = walk_frames(
            view[position:],
            start=position,
            limit=len(view),
            base_offset=None,
            leader_epoch=None,
            check_crc=False,
        )
        if not walk.frames:
            return frames, position
        frames += walk.frames
        position = walk.position


def _problem(records: bytes, at: int) -> str:
    """Return what is wrong with the batch at ``at``; a batch that was cut is not wrong."""
    rest = memoryview(records)[at:]
    if len(rest) <= _MAGIC_AT:
        return ""
    magic = rest[_MAGIC_AT]
    if magic < MAGIC:
        return (
            f"records of message format {magic}, which Kafka before 0.11 wrote, are not served: "
            "copy the topic with a newer producer"
        )
    if magic != MAGIC:
        return f"a record batch of the unknown format {magic}"
    if len(rest) < HEADER_BYTES or frame_size(rest) > len(rest):
        return ""
    return "a record batch whose header is broken"


def read_out(
    parts: Sequence[FetchedBatches], offset: int, end_offset: int, max_bytes: int
) -> ReadResult:
    """Return batches from the one that holds ``offset`` on, at least one, none at the end.

    ``parts`` lie behind each other.
    """
    pieces: list[bytes | memoryview] = []
    headers: list[BatchHeader] = []
    total = 0
    for part in parts:
        view = memoryview(part.data)
        begin = stop = -1
        is_full = False
        for frame in part.frames:
            if frame.end_offset <= offset:
                continue
            if frame.base_offset >= end_offset or (
                headers and total + frame.size_bytes > max_bytes
            ):
                is_full = True
                break
            total += frame.size_bytes
            begin = frame.position if begin < 0 else begin
            stop = frame.position + frame.size_bytes
            headers.append(_header(view, frame))
        if begin >= 0:
            # A part that is asked for whole is passed on as it is kept, without a copy.
            is_whole = begin == 0 and stop == len(part.data)
            pieces.append(part.data if is_whole else view[begin:stop])
        if is_full:
            break
    records = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
    return ReadResult(records, tuple(headers))


def holds_transactions(headers: Sequence[BatchHeader]) -> bool:
    """Whether some batch belongs to a transaction, or ends one."""
    return any(header.is_transactional or header.is_control for header in headers)


def _header(view: memoryview, frame: Frame) -> BatchHeader:
    aborts = False
    if frame.attributes & CONTROL and frame.attributes & TRANSACTIONAL and frame.record_count:
        aborts = is_abort_marker(view[frame.position : frame.position + frame.size_bytes])
    return header_of(frame, is_abort_marker=aborts)
