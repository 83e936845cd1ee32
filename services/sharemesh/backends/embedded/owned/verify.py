"""Checking checksums of what is committed (LOG-14). All calls block, a window at a time."""

from typing import NamedTuple

from sharemesh.backends.embedded.owned.offset_index import SegmentIndex
from sharemesh.backends.embedded.owned.segments import read_whole_frames
from sharemesh.ports.disk import Disk

VERIFY_WINDOW_BYTES = 1 << 20


class Unverified(NamedTuple):
    """A part of a segment, from a frame at (offset, position) on; the end is exclusive."""

    segment: SegmentIndex
    offset: int
    position: int
    end_position: int


def newest_part(
    parts: list[Unverified], budget_bytes: int
) -> tuple[list[Unverified], list[Unverified]]:
    """Return which of ``parts``, newest first, are the newest bytes, and which are the others."""
    now: list[Unverified] = []
    later: list[Unverified] = []
    for part in parts:
        size = part.end_position - part.position
        if size <= budget_bytes:
            now.append(part)
        else:
            offset, position = part.segment.at_position(part.end_position - budget_bytes)
            if budget_bytes > 0 and position > part.position:
                now.append(part._replace(offset=offset, position=position))
                later.append(part._replace(end_position=position))
            else:
                later.append(part)
        budget_bytes = max(0, budget_bytes - size)
    return now, later


def verify(disk: Disk, path: str, part: Unverified) -> None:
    """Check a whole part.

    Raises:
        CorruptLogError: It is damaged.
    """
    left: Unverified | None = part
    while left is not None:
        left = verify_some(disk, path, left)


def verify_some(disk: Disk, path: str, part: Unverified) -> Unverified | None:
    """Check one window, and return what is left of the part.

    Raises:
        CorruptLogError: It is damaged.
        FileNotFoundError: The log start has passed it.
    """
    if part.position >= part.end_position:
        return None
    segment = part.segment.segment
    _, walk = read_whole_frames(
        disk,
        f"{path}/{segment.name.file_name}",
        segment,
        position=part.position,
        offset=part.offset,
        window_bytes=min(VERIFY_WINDOW_BYTES, part.end_position - part.position),
    )
    return part._replace(offset=walk.end_offset, position=walk.position)
