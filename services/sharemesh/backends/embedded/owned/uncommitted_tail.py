"""The uncommitted tail: valid batches behind the committed end (LOG-6, LOG-14).

They are not trusted where they lie: a failed sync leaves clean pages that reads show and that never
reach the disk. The new owner appends them again, to its own segment.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from sharemesh.backends.embedded.owned.log_state import LogState
from sharemesh.backends.embedded.owned.segments import corrupt, scan_headers
from sharemesh.codec.batch_frame import Frame, find_valid_frame, place_frame, walk_frames
from sharemesh.codec.control_batches import decode_log_start
from sharemesh.codec.log_chain import Chain, ChainLink
from sharemesh.codec.segment import SEGMENT_HEADER_BYTES, CommittedEnd, SegmentName
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError


@dataclass(slots=True)
class Tail:
    """The bytes to append again, and the cut that the new segment's header names.

    ``base_offset`` is the committed end, ``log_start_offset`` the highest log start found.
    """

    base_offset: int
    end_offset: int
    log_start_offset: int
    data: bytearray
    predecessor: SegmentName | None
    predecessor_end: int


def read_tail(disk: Disk, path: str, state: LogState, epoch: int, *, check_committed: bool) -> Tail:
    """Return the tail of the newest segment, rewritten for ``epoch``. Blocks.

    With ``check_committed`` the headers of what is committed of that segment are walked too.

    Raises:
        CorruptLogError: Invalid bytes below the committed end, or followed by a valid batch.
    """
    newest = state.chain.newest
    if newest is None:
        return Tail(0, 0, 0, bytearray(), None, 0)
    committed, position = committed_in(newest, state.end)
    log_start = state.chain.log_start_offset
    file = f"{path}/{newest.name.file_name}"
    if state.end is not None:  # published with each commit, so it knows all committed markers
        log_start = max(log_start, state.end.log_start_offset)
    if check_committed:
        for marked in _committed_markers(disk, path, newest, committed, position):
            log_start = max(log_start, marked)
    data = disk.read(file, position)
    walk = walk_frames(
        data,
        start=0,
        limit=len(data),
        base_offset=committed,
        leader_epoch=newest.header.epoch,
        check_crc=True,
    )
    if walk.position < len(data):
        behind = find_valid_frame(
            data, from_position=walk.position + 1, leader_epoch=newest.header.epoch
        )
        if behind is not None:
            problem = f"{walk.problem}; a valid record batch follows at {position + behind}"
            raise corrupt(file, position + walk.position, walk.end_offset, problem)
    taken = bytearray(memoryview(data)[: walk.position])
    for frame in walk.frames:
        log_start = max(log_start, _marked(data, frame))
        place_frame(taken, frame.base_offset, epoch, at=frame.position)
    _check_oldest(path, state.chain, log_start)
    predecessor: SegmentName | None = newest.name
    if position == SEGMENT_HEADER_BYTES and newest.name.snapshot_name not in disk.list(path):
        # Nothing of it is committed, so its name need not be durable: the chain goes past it.
        # With a snapshot the name is durable, and what the snapshot knows must not be lost.
        predecessor, position = newest.header.predecessor, newest.header.predecessor_end
    return Tail(committed, walk.end_offset, log_start, taken, predecessor, position)


def salvaged_tail(disk: Disk, path: str, state: LogState) -> Tail:
    """Return where a corrupt log resumes: behind everything that may have been confirmed. Blocks.

    Nothing is appended again, because it would hide the damage: what lies behind the committed
    end stays where it is, as part of the segment that holds it.
    """
    newest = state.chain.newest
    assert newest is not None
    committed, position = committed_in(newest, state.end)
    log_start = max(link.header.log_start_offset for link in state.chain.links)
    if state.end is not None:
        log_start = max(log_start, state.end.log_start_offset)
    data = b""
    with suppress(FileNotFoundError):
        data = disk.read(f"{path}/{newest.name.file_name}", position)
    with suppress(CorruptLogError, FileNotFoundError):
        for marked in _committed_markers(disk, path, newest, committed, position):
            log_start = max(log_start, marked)
    end_offset, end_position = committed, position
    at: int | None = 0
    while at is not None:
        walk = walk_frames(
            memoryview(data)[at:],
            start=at,
            limit=len(data),
            base_offset=committed if at == 0 else None,
            leader_epoch=newest.header.epoch,
            check_crc=True,
        )
        if walk.frames:
            log_start = max([log_start, *(_marked(data, frame) for frame in walk.frames)])
            end_offset = max(end_offset + (at > 0), walk.end_offset)
            end_position = position + walk.position
        at = find_valid_frame(
            data, from_position=walk.position + 1, leader_epoch=newest.header.epoch
        )
    return Tail(end_offset, end_offset, log_start, bytearray(), newest.name, end_position)


def committed_in(newest: ChainLink, end: CommittedEnd | None) -> tuple[int, int]:
    """Return (offset, position) of the committed end within the newest link.

    All before a segment was committed when the segment was made, so its base is a lower bound.
    """
    if end is not None and end.segment == newest.name:
        return end.end_offset, end.end_position
    return newest.header.base_offset, SEGMENT_HEADER_BYTES


def _committed_markers(
    disk: Disk, path: str, newest: ChainLink, committed: int, position: int
) -> Iterator[int]:
    file = f"{path}/{newest.name.file_name}"
    for frames in scan_headers(
        disk, path, newest.name, end_position=position, end_offset=committed
    ):
        for frame in frames:
            if frame.is_marker:
                batch = disk.read(file, frame.position, frame.size_bytes)
                yield decode_log_start(batch) or 0


def _marked(data: bytes, frame: Frame) -> int:
    """Return the log start that a frame of the tail sets, or 0."""
    if not frame.is_marker:
        return 0
    return decode_log_start(data[frame.position : frame.position + frame.size_bytes]) or 0


def _check_oldest(path: str, chain: Chain, log_start: int) -> None:
    """Segments before the oldest one may only be missing because they were pruned."""
    oldest = chain.links[0].header
    if chain.missing is not None and oldest.base_offset > log_start:
        raise corrupt(f"{path}/{chain.missing.file_name}", 0, log_start, "the segment is missing")
