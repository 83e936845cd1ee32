"""Walking the frames of a segment file in bounded pieces. All calls block."""

from collections.abc import Iterator

from sharemesh.codec.batch_frame import HEADER_BYTES, Frame, walk_frames
from sharemesh.codec.log_chain import ChainLink
from sharemesh.codec.segment import SEGMENT_HEADER_BYTES
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError

SCAN_WINDOW_BYTES = 64 * 1024


def corrupt(file: str, position: int, offset: int, problem: str) -> CorruptLogError:
    """Return the report of bytes that must be whole and are not (DESIGN 5.5)."""
    return CorruptLogError(
        f"{file}, position {position}, offset {offset}: {problem}",
        file=file,
        position=position,
        offset=offset,
    )


def scan_headers(
    disk: Disk, path: str, link: ChainLink, *, end_position: int, end_offset: int
) -> Iterator[list[Frame]]:
    """Yield the frames of a link up to ``end_position``, without checking payloads.

    Raises:
        CorruptLogError: A header is invalid, or the frames do not end at ``end_offset``.
    """
    file = f"{path}/{link.name.file_name}"
    position, offset = SEGMENT_HEADER_BYTES, link.header.base_offset
    size = disk.size(file)
    while position < end_position:
        window = disk.read(file, position, min(SCAN_WINDOW_BYTES, max(0, end_position - position)))
        walk = walk_frames(
            window,
            start=position,
            limit=end_position,
            base_offset=offset,
            leader_epoch=link.header.epoch,
            check_crc=False,
        )
        whole = [frame for frame in walk.frames if frame.position + frame.size_bytes <= size]
        if whole:
            yield whole
        if walk.problem is not None:
            raise corrupt(file, walk.position, walk.end_offset, walk.problem)
        if len(whole) < len(walk.frames) or len(window) < HEADER_BYTES:
            cut = walk.frames[len(whole)] if len(whole) < len(walk.frames) else None
            at, at_offset = (cut.position, cut.base_offset) if cut else (position, offset)
            raise corrupt(file, at, at_offset, f"the file ends at {size}, before {end_position}")
        position, offset = walk.position, walk.end_offset
    if offset != end_offset:
        raise corrupt(file, position, offset, f"the log should continue at offset {end_offset}")
