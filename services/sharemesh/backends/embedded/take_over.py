"""Taking a log over under a new epoch (DESIGN 5.1), as one blocking job.

Order: fence; committed end, then chain; tail behind the committed end; look; own segment with
that tail in it, synced before its name appears; look; publish; then what is outside may go.
"""

from contextlib import suppress
from dataclasses import dataclass

from sharemesh.backends.embedded.fences import Fences
from sharemesh.backends.embedded.log_state import LogState, read_log_state
from sharemesh.backends.embedded.segment_scan import corrupt, scan_headers
from sharemesh.backends.embedded.segments import Segment
from sharemesh.codec.batch_frame import (
    find_valid_frame,
    place_frame,
    walk_frames,
)
from sharemesh.codec.committed_end import SLOT_BYTES, CommittedEnd, encode_committed_end
from sharemesh.codec.log_chain import ChainLink
from sharemesh.codec.log_marker import decode_log_start
from sharemesh.codec.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    SegmentName,
    encode_segment_header,
    end_epochs,
    end_name,
    segment_names,
)
from sharemesh.ports.disk import AppendFile, Disk, SlotFile
from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError

NEW_SUFFIX = ".new"


@dataclass(slots=True)
class Taken:
    """A log that was taken over; ``file`` and ``slots`` are None if it is corrupt.

    Then ``corruption`` says where; what lies before it may be read, and nothing be written.
    """

    segments: list[Segment]
    end_offset: int
    log_start_offset: int
    file: AppendFile | None
    slots: SlotFile | None
    corruption: CorruptLogError | None


@dataclass(slots=True)
class _Tail:
    """What the new owner takes along: everything valid behind the committed end."""

    base_offset: int
    end_offset: int
    log_start_offset: int
    data: bytearray
    predecessor: SegmentName | None
    predecessor_end: int


def take_over(disk: Disk, path: str, epoch: int, fences: Fences) -> Taken:
    """Take the log at ``path`` over under ``epoch``. Blocks.

    Raises:
        FencedError: A fence at or above ``epoch`` exists.
        LogFailedError: The disk refused; another epoch may try again.
    """
    try:
        fences.claim()
        try:
            state = read_log_state(disk, path)
            tail = _read_tail(disk, path, state, epoch)
        except CorruptLogError as error:
            return Taken([], 0, 0, None, None, error)
        if isinstance(tail, CorruptLogError):
            return _damaged(state, tail)
        return _settle(disk, path, epoch, fences, state, tail)
    except OSError as error:
        raise LogFailedError(
            f"log {path}: cannot take over under epoch {epoch}: {error}"
        ) from error


def _damaged(state: LogState, corruption: CorruptLogError) -> Taken:
    """A log that can be read up to the corruption, and not be written."""
    segments = [_segment(link) for link in state.chain.links[:-1] if link.end_offset is not None]
    newest = state.chain.links[-1]
    segments.append(Segment(newest.name, corruption.offset, corruption.position))
    log_start = state.chain.log_start_offset
    return Taken(segments, corruption.offset, log_start, None, None, corruption)


def _segment(link: ChainLink) -> Segment:
    assert link.end_offset is not None
    assert link.end_position is not None
    return Segment(link.name, link.end_offset, link.end_position)


def _committed_in(newest: ChainLink, end: CommittedEnd | None) -> tuple[int, int]:
    """Return (offset, position) of the committed end within the newest link.

    All before a segment was committed when the segment was made, so its base is a lower bound.
    """
    if end is not None and end.segment == newest.name:
        return end.end_offset, end.end_position
    return newest.header.base_offset, SEGMENT_HEADER_BYTES


def _read_tail(disk: Disk, path: str, state: LogState, epoch: int) -> "_Tail | CorruptLogError":
    newest = state.chain.newest
    if newest is None:
        return _Tail(0, 0, 0, bytearray(), None, 0)
    committed, position = _committed_in(newest, state.end)
    log_start = state.chain.log_start_offset
    file = f"{path}/{newest.name.file_name}"
    try:
        for frames in scan_headers(
            disk, path, newest.name, end_position=position, end_offset=committed
        ):
            for frame in frames:
                if frame.is_marker:
                    batch = disk.read(file, frame.position, frame.size_bytes)
                    log_start = max(log_start, decode_log_start(batch) or 0)
    except CorruptLogError as error:
        return error
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
            return corrupt(file, position + walk.position, walk.end_offset, problem)
    taken = bytearray(memoryview(data)[: walk.position])
    for frame in walk.frames:
        if frame.is_marker:
            batch = data[frame.position : frame.position + frame.size_bytes]
            log_start = max(log_start, decode_log_start(batch) or 0)
        place_frame(taken, frame.base_offset, epoch, at=frame.position)
    oldest = state.chain.links[0].header
    if oldest.predecessor is not None and oldest.base_offset > log_start:
        raise corrupt(
            f"{path}/{oldest.predecessor.file_name}", 0, log_start, "the segment is missing"
        )
    if position > SEGMENT_HEADER_BYTES:
        predecessor: SegmentName | None = newest.name
        cut = position
    else:  # nothing of it is committed, so its name need not be durable: go past it
        predecessor, cut = newest.header.predecessor, newest.header.predecessor_end
    return _Tail(committed, walk.end_offset, log_start, taken, predecessor, cut)


def _settle(
    disk: Disk, path: str, epoch: int, fences: Fences, state: LogState, tail: _Tail
) -> Taken:
    """Open the own segment, make it the log, publish, and clear what is outside."""
    fences.look()
    header = SegmentHeader(
        epoch, tail.base_offset, tail.predecessor, tail.predecessor_end, tail.log_start_offset
    )
    file = create_segment(disk, path, header, tail.data)
    fences.look()
    slots = disk.open_slots(f"{path}/{end_name(epoch)}", 2 * SLOT_BYTES)
    end = CommittedEnd(epoch, tail.end_offset, tail.base_offset, file.size, tail.log_start_offset)
    slots.write(*encode_committed_end(end))
    slots.sync()
    disk.sync_directory(path)
    segments = [
        _segment(link) for link in state.chain.links if link.name != state.chain.links[-1].name
    ]
    if state.chain.newest is not None and header.predecessor == state.chain.newest.name:
        newest = state.chain.newest
        segments.append(Segment(newest.name, tail.base_offset, tail.predecessor_end))
    segments.append(Segment(header.name, tail.end_offset, file.size))
    with suppress(OSError, FencedError):  # what stays behind costs space, and goes next time
        _clear(disk, path, epoch, fences, {segment.name for segment in segments})
    return Taken(segments, tail.end_offset, tail.log_start_offset, file, slots, None)


def create_segment(
    disk: Disk, path: str, header: SegmentHeader, data: bytes | bytearray
) -> AppendFile:
    """Make a segment whose name appears only after its header and ``data`` are durable."""
    target = f"{path}/{header.name.file_name}"
    file = disk.create(target + NEW_SUFFIX)
    file.append(encode_segment_header(header) + data)
    file.sync()
    disk.rename(target + NEW_SUFFIX, target)
    disk.sync_directory(path)
    return file


def _clear(disk: Disk, path: str, epoch: int, fences: Fences, on_chain: set[SegmentName]) -> None:
    """Delete what lower epochs left outside the log (DESIGN 5.1, 5.3)."""
    fences.look()
    listing = disk.list(path)
    gone = [name.file_name for name in segment_names(listing) if name not in on_chain]
    unfinished = [name for name in listing if name.endswith(NEW_SUFFIX)]
    by_plain_name = {name.removesuffix(NEW_SUFFIX): name for name in unfinished}
    gone += [by_plain_name[name.file_name] for name in segment_names(list(by_plain_name))]
    lower = {name for name in gone if _epoch_of(name) < epoch}
    ends = [end_name(other) for other in end_epochs(listing) if other < epoch]
    for name in (*sorted(lower), *ends):
        disk.delete(f"{path}/{name}")
    fences.drop_lower()


def _epoch_of(name: str) -> int:
    return segment_names([name.removesuffix(NEW_SUFFIX)])[0].epoch
