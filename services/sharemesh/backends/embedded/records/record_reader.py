"""Reading record batches of one log by offset and by time; every checksum is checked again."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sharemesh.backends.embedded.owned.offset_index import OffsetIndex, SegmentIndex
from sharemesh.backends.embedded.owned.segments import read_whole_frames
from sharemesh.codec.batch_frame import CONTROL, HEADER_BYTES, Frame, header_of
from sharemesh.codec.control_batches import is_abort_marker
from sharemesh.codec.guarded_records import UNDECODABLE, record_times
from sharemesh.codec.plain_batch import opened_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.disk import Disk
from sharemesh.ports.record_log import ReadResult
from sharemesh.tasks import to_its_end

Result = TypeVar("Result")

EMPTY = ReadResult(b"", ())
TIME_WINDOW_BYTES = 256 * 1024

BATCHES_OPENED_MAX = 2
"""For one search by time (BND-35): the first whose header has the time, and, where that header
lied, the next. Another counts as one piece, by its header."""

RECORDS_LOOKED_AT_MAX = 200_000
"""Of one batch: what 1 MiB can hold without compression, and some 100 ms of a thread."""

_Place = tuple[int, int]
"""Offset and position of a frame."""


class RecordReader:
    """Reads committed batches; jobs run in the storage pool."""

    def __init__(self, disk: Disk, path: str, index: OffsetIndex) -> None:
        self._disk = disk
        self._path = path
        self._index = index

    async def read(self, offset: int, end_offset: int, max_bytes: int) -> ReadResult:
        """Return whole batches from the one that holds ``offset``, none at ``end_offset``.

        Raises:
            CorruptLogError: The first batch cannot be read.
            RefusedError: OFFSET_OUT_OF_RANGE, if the log start passed by meanwhile.
        """
        if offset >= end_offset:
            return EMPTY
        for index in tuple(self._index.segments[self._index.first_at(offset) :]):
            if index.base_offset >= end_offset:
                break
            result = await self._in_pool(
                partial(self._read_from, index, offset, end_offset, max_bytes), offset
            )
            if result.headers:
                return result
        return EMPTY

    async def offset_for_timestamp(
        self, timestamp_ms: int, start_offset: int, end_offset: int
    ) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record at or after the time, or None.

        At most ``BATCHES_OPENED_MAX`` batches are opened (BND-35).

        Raises:
            CorruptLogError: A batch on the way cannot be read.
        """
        opened = 0
        for index in tuple(self._index.segments):
            if index.max_timestamp_ms < timestamp_ms or index.end_offset <= start_offset:
                continue
            place: _Place | None = index.before_time(timestamp_ms)
            while place is not None:
                search = partial(
                    self._next_in_time, index, place, timestamp_ms, start_offset, end_offset
                )
                found, place = await self._in_pool(search, start_offset)
                if found is None:
                    break
                frame, batch = found
                if frame.base_offset >= end_offset:
                    return None
                record = None
                if opened < BATCHES_OPENED_MAX:
                    opened += 1
                    open_it = partial(_first_at, batch, frame, timestamp_ms, start_offset)
                    record = await to_its_end(self._in_pool(open_it, start_offset))
                    if record is None:
                        continue  # none of its records is as new as its header says
                return record or (max(frame.base_offset, start_offset), frame.max_timestamp_ms)
        return None

    async def _in_pool(self, job: Callable[[], Result], offset: int) -> Result:
        try:
            return await self._disk.run(job)
        except FileNotFoundError as error:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} was deleted meanwhile"
            ) from error

    def _read_from(
        self, index: SegmentIndex, offset: int, end_offset: int, max_bytes: int
    ) -> ReadResult:
        segment = index.segment
        file = f"{self._path}/{segment.name.file_name}"
        at_offset, position = index.floor(offset)
        end = index.ceiling(end_offset)
        while at_offset < end_offset and position < segment.end_position:
            first_end = index.ceiling(max(offset, at_offset) + 1)
            view, walk = read_whole_frames(
                self._disk,
                file,
                segment,
                position=position,
                offset=at_offset,
                window_bytes=max(
                    HEADER_BYTES,
                    first_end - position,
                    min(max_bytes + index.interval_bytes, end - position),
                ),
            )
            chosen = _choose(walk.frames, offset, end_offset, max_bytes)
            if chosen:
                return _cut_out(view, position, chosen)
            position, at_offset = walk.position, walk.end_offset
        return EMPTY

    def _next_in_time(
        self,
        index: SegmentIndex,
        place: _Place,
        timestamp_ms: int,
        start_offset: int,
        end_offset: int,
    ) -> tuple[tuple[Frame, bytes] | None, _Place]:
        """Return the next batch from a place on whose header has the time, and where it ends."""
        segment = index.segment
        file = f"{self._path}/{segment.name.file_name}"
        at_offset, position = place
        while at_offset < end_offset and position < segment.end_position:
            view, walk = read_whole_frames(
                self._disk,
                file,
                segment,
                position=position,
                offset=at_offset,
                window_bytes=TIME_WINDOW_BYTES,
            )
            for frame in walk.frames:
                if (
                    frame.max_timestamp_ms >= timestamp_ms
                    and not frame.attributes & CONTROL
                    and frame.end_offset > start_offset
                ):
                    begin = frame.position - position
                    batch = bytes(view[begin : begin + frame.size_bytes])
                    behind = frame.end_offset, frame.position + frame.size_bytes
                    return (frame, batch), behind
            position, at_offset = walk.position, walk.end_offset
        return None, (at_offset, position)


def _first_at(
    batch: bytes, frame: Frame, timestamp_ms: int, start_offset: int
) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the first record at or after the time; None: there is none.

    Those that cannot be read, or are too many to be looked at, count as one piece.
    """
    unread = max(frame.base_offset, start_offset)
    try:
        for count, (offset, time_ms) in enumerate(record_times(opened_batch(batch)), 1):
            if not frame.base_offset <= offset < frame.end_offset:
                return unread, frame.max_timestamp_ms
            if time_ms >= timestamp_ms and offset >= start_offset:
                return offset, time_ms
            unread = max(unread, min(offset + 1, frame.end_offset - 1))
            if count >= RECORDS_LOOKED_AT_MAX:
                return unread, frame.max_timestamp_ms
    except UNDECODABLE:  # its producer made it so
        return unread, frame.max_timestamp_ms
    return None


def _choose(frames: list[Frame], offset: int, end_offset: int, max_bytes: int) -> list[Frame]:
    """Return the frames to serve: at least one if any holds or follows ``offset``."""
    chosen: list[Frame] = []
    total = 0
    for frame in frames:
        if frame.end_offset <= offset or frame.is_marker:
            continue
        if frame.base_offset >= end_offset:
            break
        total += frame.size_bytes
        if chosen and total > max_bytes:
            break
        chosen.append(frame)
    return chosen


def _cut_out(view: memoryview, start: int, frames: list[Frame]) -> ReadResult:
    """Return the frames' bytes, without log markers that lie between them."""
    pieces: list[memoryview] = []
    begin = end = frames[0].position - start
    for frame in frames:
        at = frame.position - start
        if at != end:
            pieces.append(view[begin:end])
            begin = at
        end = at + frame.size_bytes
    pieces.append(view[begin:end])
    headers = tuple(
        header_of(frame, is_abort_marker=_is_abort(view, frame.position - start, frame))
        for frame in frames
    )
    return ReadResult(_joined(pieces), headers)


def _joined(pieces: list[memoryview]) -> bytes:
    """Return the bytes of all pieces; those of a whole window as they were read."""
    if len(pieces) > 1:
        return b"".join(pieces)
    [piece] = pieces
    window = piece.obj
    return window if isinstance(window, bytes) and len(window) == len(piece) else bytes(piece)


def _is_abort(view: memoryview, at: int, frame: Frame) -> bool:
    return bool(frame.attributes & CONTROL) and is_abort_marker(view[at : at + frame.size_bytes])
