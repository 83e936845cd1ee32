"""Finds the readable part of a corrupt log: everything before the corruption, and its end.

A segment whose header is invalid, or whose file is gone, does not say what came before it. But
names do: of the segments with a lower base offset the one with the highest name is the
predecessor. Any other such segment was cut off at its base, because nothing of it was committed,
so its successor has the same base and a higher name.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from sharemesh.backends.embedded.owned.log_state import LogState, read_listing
from sharemesh.backends.embedded.owned.segments import Segment, scan_headers
from sharemesh.codec.batch_frame import find_valid_frame, frame_start
from sharemesh.codec.log_chain import resolve_chain
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentFormatError,
    SegmentHeader,
    SegmentName,
)
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError

CUT_UNKNOWN = -1
MISSING = "the segment is missing"


def salvaged_state(disk: Disk, path: str) -> LogState:
    """Return the state of a damaged log; ``problems`` says which segments are unreadable."""
    end, headers = read_listing(disk, path)
    if end is not None and (not headers or max(headers) < end.segment):
        headers[end.segment] = SegmentFormatError(MISSING)
    return _state(LogState(resolve_chain({}), end, headers))


def without_missing(state: LogState, log_start_offset: int) -> LogState:
    """Return the state with a link for each segment that is missing above the log start."""
    headers = dict(state.headers)
    while (
        state.chain.missing is not None
        and state.chain.links[0].header.base_offset > log_start_offset
    ):
        headers[state.chain.missing] = SegmentFormatError(MISSING)
        state = _state(replace(state, headers=headers))
    return state


def _state(state: LogState) -> LogState:
    problems = {
        name: str(header)
        for name, header in state.headers.items()
        if isinstance(header, SegmentFormatError)
    }
    mended = {name: _mended(name, header, state.headers) for name, header in state.headers.items()}
    return LogState(resolve_chain(mended), state.end, state.headers, problems)


def _mended(
    name: SegmentName,
    header: SegmentHeader | SegmentFormatError,
    others: Mapping[SegmentName, object],
) -> SegmentHeader:
    if isinstance(header, SegmentHeader):
        return header
    before = [o for o in others if o < name and o.base_offset < name.base_offset]
    return SegmentHeader(
        name.epoch, name.base_offset, max(before) if before else None, CUT_UNKNOWN, 0
    )


def salvaged_segments(disk: Disk, path: str, state: LogState) -> list[Segment]:
    """Return all segments of the chain but the newest; blocks where a cut has to be found."""
    segments = []
    for link in state.chain.links[:-1]:
        end_offset, position = link.end_offset, link.end_position
        assert end_offset is not None
        assert position is not None
        problem = state.problems.get(link.name, "")
        if position == CUT_UNKNOWN:
            position = SEGMENT_HEADER_BYTES
            if not problem:
                position = _position_of(disk, path, link.name, end_offset)
        segments.append(Segment(link.name, end_offset, position, problem))
    return segments


def _position_of(disk: Disk, path: str, name: SegmentName, end_offset: int) -> int:
    """Return where the frames of a segment reach ``end_offset``, or where they stop before."""
    position = SEGMENT_HEADER_BYTES
    size = disk.size(f"{path}/{name.file_name}")
    with suppress(CorruptLogError):
        for frames in scan_headers(disk, path, name, end_position=size, end_offset=-1):
            for frame in frames:
                if frame.end_offset > end_offset:
                    return position
                position = frame.position + frame.size_bytes
    return position


def next_whole(
    disk: Disk, file: str, segment: Segment, position: int, offset: int
) -> tuple[int, int] | None:
    """Return (position, offset) of the first valid batch behind a damaged place, or None. Blocks.

    ``position`` and ``offset`` are those of the damaged batch.
    """
    data = disk.read(file, position, max(0, segment.end_position - position))
    at = 0
    while True:
        found = find_valid_frame(data, from_position=at + 1, leader_epoch=segment.name.epoch)
        if found is None:
            return None
        base = frame_start(data, found)
        if offset < base < segment.end_offset:
            return position + found, base
        at = found


def resume_after(disk: Disk, path: str, segments: Sequence[Segment], error: CorruptLogError) -> int:
    """Return the log start from which a log with this damage can be read again. Blocks."""
    for segment in segments:
        file = f"{path}/{segment.name.file_name}"
        if file == error.file:
            if not segment.problem:
                with suppress(FileNotFoundError):
                    found = next_whole(disk, file, segment, error.position, error.offset)
                    if found is not None:
                        return found[1]
            return max(segment.end_offset, error.offset + 1)
    return error.offset + 1
