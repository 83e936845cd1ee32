"""Segments of a log, and walking their frames in bounded pieces. All calls block."""

from collections.abc import Iterator
from dataclasses import dataclass

from sharemesh.codec.batch_frame import HEADER_BYTES, Frame, Frames, frame_size, walk_frames
from sharemesh.codec.segment import SEGMENT_HEADER_BYTES, SegmentName
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError


@dataclass(slots=True)
class Segment:
    """One segment of the log; what lies behind the ends is not committed, or not the log's.

    Ends are exclusive. Those of the newest segment move with each commit. ``problem`` says why
    nothing of it can be read (its header is invalid, or the file is gone), else it is empty.
    """

    name: SegmentName
    end_offset: int
    end_position: int
    problem: str = ""

    @property
    def base_offset(self) -> int:
        """The first offset that the segment can hold."""
        return self.name.base_offset


SCAN_WINDOW_BYTES = 64 * 1024


def corrupt(file: str, position: int, offset: int, problem: str) -> CorruptLogError:
    """Return the report of bytes that must be whole and are not (LOG-14)."""
    return CorruptLogError(
        f"{file}, position {position}, offset {offset}: {problem}",
        file=file,
        position=position,
        offset=offset,
    )


def scan_headers(
    disk: Disk,
    path: str,
    name: SegmentName,
    *,
    end_position: int,
    end_offset: int,
    begin: tuple[int, int] | None = None,
) -> Iterator[list[Frame]]:
    """Yield the frames of a segment up to ``end_position``, without checking payloads.

    ``begin`` is (position, offset) of the first frame, if it is not that of the segment.

    Raises:
        CorruptLogError: A header is invalid, or the frames do not end at ``end_offset``.
    """
    file = f"{path}/{name.file_name}"
    position, offset = begin or (SEGMENT_HEADER_BYTES, name.base_offset)
    size = disk.size(file)
    while position < end_position:
        window = disk.read(file, position, min(SCAN_WINDOW_BYTES, end_position - position))
        walk = walk_frames(
            window,
            start=position,
            limit=end_position,
            base_offset=offset,
            leader_epoch=name.epoch,
            check_crc=False,
        )
        frames, position, offset = walk.frames, walk.position, walk.end_offset
        if frames and position > size:  # only the last one can reach past the end of the file
            cut = frames.pop()
            position, offset = cut.position, cut.base_offset
        yield frames
        if walk.problem is not None:
            raise corrupt(file, position, offset, walk.problem)
        if position < walk.position or len(window) < HEADER_BYTES:
            raise corrupt(file, position, offset, f"the file ends at {size}, not {end_position}")
    if offset != end_offset:
        raise corrupt(file, position, offset, f"the log should continue at offset {end_offset}")


def read_whole_frames(
    disk: Disk, file: str, segment: Segment, *, position: int, offset: int, window_bytes: int
) -> tuple[memoryview, Frames]:
    """Return checked frames from ``position`` on: at least one, else as many as the window holds.

    Args:
        disk: Where the file is.
        file: Its path.
        segment: Its name and its end.
        position: Where a frame begins.
        offset: The offset that this frame must have.
        window_bytes: Bytes to read, unless the first frame is larger.

    Raises:
        CorruptLogError: The first frame is not valid or not whole. What lies before a later
            invalid frame is returned.
    """
    limit = segment.end_position
    window = disk.read(file, position, min(window_bytes, limit - position))
    while True:
        walk = walk_frames(
            window,
            start=position,
            limit=limit,
            base_offset=offset,
            leader_epoch=segment.name.epoch,
            check_crc=True,
        )
        if walk.frames:
            return memoryview(window), walk
        if walk.problem is not None:
            raise corrupt(file, walk.position, walk.end_offset, walk.problem)
        needed = max(HEADER_BYTES, frame_size(window) if len(window) >= HEADER_BYTES else 0)
        if len(window) >= needed:
            raise corrupt(file, position, offset, "the record batch is not whole")
        window = disk.read(file, position, min(needed, limit - position))
        if len(window) < needed:
            raise corrupt(file, position, offset, f"the file ends before {limit}")
