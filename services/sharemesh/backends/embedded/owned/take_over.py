"""Taking a log over under a new epoch (LOG-5), as one blocking job.

Order: create the fence; read the committed end, then the chain, then the tail behind the committed
end; check for a higher fence; write an own segment with that tail, synced before its name appears;
check again; publish; then delete what is outside the log.
"""

from contextlib import suppress
from dataclasses import dataclass

from sharemesh.backends.embedded.owned.damaged_log import (
    salvaged_segments,
    salvaged_state,
    without_missing,
)
from sharemesh.backends.embedded.owned.fences import Fences
from sharemesh.backends.embedded.owned.log_state import LogState, read_log_state
from sharemesh.backends.embedded.owned.segments import Segment
from sharemesh.backends.embedded.owned.uncommitted_tail import Tail, read_tail, salvaged_tail
from sharemesh.codec.log_chain import ChainLink
from sharemesh.codec.segment import (
    NEW_SUFFIX,
    SLOT_BYTES,
    CommittedEnd,
    SegmentHeader,
    SegmentName,
    encode_committed_end,
    encode_segment_header,
    end_epochs,
    end_name,
    segment_names,
    snapshot_names,
    unfinished_snapshots,
)
from sharemesh.ports.disk import AppendFile, Disk, SlotFile
from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError


@dataclass(slots=True)
class TakenLog:
    """A log that was taken over; ``segments`` are its files, oldest first.

    ``file`` and ``slots`` are None if it is corrupt, and ``corruption`` says where: nothing can
    be written. A damaged log that was salvaged has them; then the damage lies in its segments.
    """

    segments: list[Segment]
    end_offset: int
    log_start_offset: int
    file: AppendFile | None
    slots: SlotFile | None
    corruption: CorruptLogError | None


def take_over(
    disk: Disk, path: str, epoch: int, fences: Fences, *, salvage: bool = False
) -> TakenLog:
    """Take the log at ``path`` over under ``epoch``. Blocks.

    With ``salvage`` a damaged log is taken over too, for an owner who looks for the damage itself
    (also in what is committed of the newest segment), serves what lies before it, and writes
    nothing but the log start that passes it.

    Raises:
        FencedError: A fence at or above ``epoch`` exists.
        LogFailedError: The disk refused; another epoch may try again.
    """
    try:
        fences.claim()
        try:
            state = read_log_state(disk, path)
            tail = read_tail(disk, path, state, epoch, check_committed=not salvage)
        except CorruptLogError as error:
            if not salvage:
                return TakenLog([], 0, 0, None, None, error)
        else:
            return _settle(disk, path, epoch, fences, state, tail)
        return _settle_damaged(disk, path, epoch, fences)
    except OSError as error:
        raise LogFailedError(
            f"log {path}: cannot take over under epoch {epoch}: {error}"
        ) from error


def _settle_damaged(disk: Disk, path: str, epoch: int, fences: Fences) -> TakenLog:
    """Resume behind the corruption; nothing there is deleted."""
    state = salvaged_state(disk, path)
    tail = salvaged_tail(disk, path, state)
    state = without_missing(state, tail.log_start_offset)
    newest = state.chain.newest
    assert newest is not None
    file, slots = _begin(disk, path, epoch, fences, tail)
    segments = salvaged_segments(disk, path, state)
    segments.append(
        Segment(
            newest.name,
            tail.end_offset,
            tail.predecessor_end,
            state.problems.get(newest.name, ""),
        )
    )
    segments.append(Segment(SegmentName(epoch, tail.base_offset), tail.end_offset, file.size))
    return TakenLog(segments, tail.end_offset, tail.log_start_offset, file, slots, None)


def _segment(link: ChainLink) -> Segment:
    assert link.end_offset is not None
    assert link.end_position is not None
    return Segment(link.name, link.end_offset, link.end_position)


def _settle(
    disk: Disk, path: str, epoch: int, fences: Fences, state: LogState, tail: Tail
) -> TakenLog:
    """Open the own segment, make it the log, publish, and clear what is outside."""
    file, slots = _begin(disk, path, epoch, fences, tail)
    segments = [_segment(link) for link in state.chain.links[:-1]]
    newest = state.chain.newest
    if newest is not None and tail.predecessor == newest.name:
        segments.append(Segment(newest.name, tail.base_offset, tail.predecessor_end))
    segments.append(Segment(SegmentName(epoch, tail.base_offset), tail.end_offset, file.size))
    with suppress(OSError, FencedError):  # what stays behind costs space, and goes next time
        _clear(disk, path, epoch, fences, {segment.name for segment in segments})
    return TakenLog(segments, tail.end_offset, tail.log_start_offset, file, slots, None)


def _begin(
    disk: Disk, path: str, epoch: int, fences: Fences, tail: Tail
) -> tuple[AppendFile, SlotFile]:
    """Make the own segment and publish its end."""
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
    return file, slots


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
    """Delete what lower epochs left outside the log (LOG-12)."""
    fences.look()
    listing = disk.list(path)
    gone = [name.file_name for name in segment_names(listing) if name not in on_chain]
    unfinished = [name for name in listing if name.endswith(NEW_SUFFIX)]
    by_plain_name = {name.removesuffix(NEW_SUFFIX): name for name in unfinished}
    gone += [by_plain_name[name.file_name] for name in segment_names(list(by_plain_name))]
    snapshots = [name for name in snapshot_names(listing) if name not in on_chain]
    lower = {name for name in gone if _epoch_of(name) < epoch}
    ends = [end_name(other) for other in end_epochs(listing) if other < epoch]
    lower |= {name.snapshot_name for name in snapshots if name.epoch < epoch}
    lower |= set(unfinished_snapshots(listing, epoch))
    for name in (*sorted(lower), *ends):
        disk.delete(f"{path}/{name}")
    fences.drop_lower()


def _epoch_of(name: str) -> int:
    return segment_names([name.removesuffix(NEW_SUFFIX)])[0].epoch
