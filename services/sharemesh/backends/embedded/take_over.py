"""Taking a log over under a new epoch (DESIGN 5.1), as one blocking job.

Order: fence; committed end, then chain; tail behind the committed end; look; own segment with
that tail in it, synced before its name appears; look; publish; then what is outside may go.
"""

from contextlib import suppress
from dataclasses import dataclass

from sharemesh.backends.embedded.fences import Fences
from sharemesh.backends.embedded.log_state import LogState, read_log_state
from sharemesh.backends.embedded.segments import Segment
from sharemesh.backends.embedded.tail import Tail, read_tail
from sharemesh.codec.committed_end import SLOT_BYTES, CommittedEnd, encode_committed_end
from sharemesh.codec.log_chain import ChainLink
from sharemesh.codec.segment import (
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
    """A log that was taken over; ``segments`` are its files, oldest first.

    ``file`` and ``slots`` are None if it is corrupt. Then ``corruption`` says where; what lies
    before that may be read, and nothing be written.
    """

    segments: list[Segment]
    end_offset: int
    log_start_offset: int
    file: AppendFile | None
    slots: SlotFile | None
    corruption: CorruptLogError | None


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
        except CorruptLogError as error:
            return Taken([], 0, 0, None, None, error)
        try:
            tail = read_tail(disk, path, state, epoch)
        except CorruptLogError as error:
            return _damaged(path, state, error)
        return _settle(disk, path, epoch, fences, state, tail)
    except OSError as error:
        raise LogFailedError(
            f"log {path}: cannot take over under epoch {epoch}: {error}"
        ) from error


def _damaged(path: str, state: LogState, corruption: CorruptLogError) -> Taken:
    """A log that can be read up to the corruption, and not be written."""
    segments = [_segment(link) for link in state.chain.links[:-1]]
    newest = state.chain.links[-1]
    end_offset = newest.header.base_offset
    if corruption.file == f"{path}/{newest.name.file_name}":
        end_offset = corruption.offset
        segments.append(Segment(newest.name, end_offset, corruption.position))
    return Taken(segments, end_offset, state.chain.log_start_offset, None, None, corruption)


def _segment(link: ChainLink) -> Segment:
    assert link.end_offset is not None
    assert link.end_position is not None
    return Segment(link.name, link.end_offset, link.end_position)


def _settle(
    disk: Disk, path: str, epoch: int, fences: Fences, state: LogState, tail: Tail
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
    segments = [_segment(link) for link in state.chain.links[:-1]]
    newest = state.chain.newest
    if newest is not None and header.predecessor == newest.name:
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
    try:
        file.append(encode_segment_header(header) + data)
        file.sync()
        disk.rename(target + NEW_SUFFIX, target)
        disk.sync_directory(path)
    except OSError:
        file.close()
        with suppress(OSError):  # a full disk should not also hold what could not be finished
            disk.delete(target + NEW_SUFFIX)
        raise
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
