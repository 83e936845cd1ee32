"""A member's session ended: what it holds goes back (spec REL)."""

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.cached_batch import Run
from sharemesh.domain.share_partition.cache.in_flight import InFlight, Move
from sharemesh.domain.share_partition.cache.record_status import RecordStatus
from sharemesh.domain.share_partition.rules.pending_transitions import PendingTransitions
from sharemesh.domain.share_partition.rules.transitions import TARGETS, Trigger


def release_member(flight: InFlight, member_id: MemberId, changes: PendingTransitions) -> None:
    """Start to release every record that the member holds (REL-1, T12)."""
    for batch in flight.held_batches(member_id):
        if not batch.per_offset and not _held(batch.status, member_id):
            continue
        if batch.first_offset < flight.start_offset <= batch.last_offset:  # REL-2
            flight.track_per_offset(batch)
        moves: list[Move] = []
        for run in batch.runs():
            if _held(run[2], member_id):  # REL-3, REL-6
                moves.extend(_released(flight, changes, run))
            elif moves:
                moves.append((run[0], run[1], run[2], run[2]))
        if moves:
            changes.apply(batch, moves)


def _held(status: RecordStatus, member_id: MemberId) -> bool:
    return status.state is DeliveryState.ACQUIRED and status.member_id == member_id


def _released(flight: InFlight, changes: PendingTransitions, run: Run) -> list[Move]:
    moves = []
    for first, last, below in cut_at_start(flight.start_offset, run[0], run[1]):
        target, cause = TARGETS[Trigger.SESSION_CLOSE], Cause.SESSION_CLOSE
        if below:  # as T11
            target, cause = TARGETS[Trigger.LOCK_EXPIRY_BELOW_START], Cause.LOG_START
        moves.append((first, last, run[2], changes.start(first, last, run[2], target, cause)))
    return moves


def cut_at_start(start_offset: int, first: int, last: int) -> list[tuple[int, int, bool]]:
    """Return ``first..last`` as (first, last, whether below the start offset)."""
    if last < start_offset:
        return [(first, last, True)]
    if first >= start_offset:
        return [(first, last, False)]
    return [(first, start_offset - 1, True), (start_offset, last, False)]
