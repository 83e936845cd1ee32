"""Where the durable state of share partitions is kept: the persister fills it (spec PER)."""

from dataclasses import dataclass
from typing import Protocol

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import MemberId, SharePartitionKey
from sharemesh.domain.packed_batches import StateBatches
from sharemesh.domain.share_state.record_history import RecordChange
from sharemesh.domain.share_state.records import ArchivedCounts
from sharemesh.domain.state_batch import NO_COUNT, StateBatch

NO_MEMBER = MemberId("")


@dataclass(frozen=True, slots=True)
class StateReadResult:
    """Answer to a read; ``error`` is the coordinator's own, not yet mapped (spec PER-8).

    ``known_leader_epoch`` comes with FENCED_LEADER_EPOCH: lead above it; -1 if not known.
    ``next_offset`` is where the next part of a large state begins; -1: this is all (WIN-15).
    ``handed_over`` are locks that live on from the leader before (HND-7).
    """

    error: ErrorCode
    message: str = ""
    state_epoch: int = 0
    start_offset: int = -1
    batches: StateBatches = ()
    known_leader_epoch: int = -1
    next_offset: int = -1
    handed_over: tuple[HandedLock, ...] = ()
    delivery_complete_count: int = NO_COUNT


@dataclass(frozen=True, slots=True)
class StateWrite:
    """One write of a share partition (spec PER-1); the span ids go into its audit record.

    If it ``is_last``, its leader decides nothing more, and ``hand_over`` are the locks that live on
    at the next one (HND-5). The count of one that ``is_recount`` replaces the stored one (SC-16).
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    cause: Cause = Cause.UNSPECIFIED
    member_id: MemberId = NO_MEMBER
    trace_id: bytes = b""
    span_id: bytes = b""
    hand_over: tuple[HandedLock, ...] = ()
    is_last: bool = False
    is_recount: bool = False


@dataclass(frozen=True, slots=True)
class StateWriteResult:
    """Answer to a write; ``error`` is the coordinator's own, not yet mapped (spec PER-8).

    ``known_state_epoch`` comes with FENCED_STATE_EPOCH: initialize above it; -1 if not known.
    ``keeps_hand_over``: what was handed over is kept for the next leader (HND-5).
    """

    error: ErrorCode
    message: str = ""
    known_state_epoch: int = -1
    keeps_hand_over: bool = False


@dataclass(frozen=True, slots=True)
class StateSummaryResult:
    """Answer to a summary; start offset and count -1: nothing is stored (spec SC-20).

    ``archived`` is None if it is not known.
    """

    error: ErrorCode
    message: str = ""
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1
    archived: ArchivedCounts | None = None


@dataclass(frozen=True, slots=True)
class RecordHistoryResult:
    """What became of one record; ``state_epoch`` -1: nothing is stored of its share partition.

    ``state`` None: below the start offset, or never written. ``events`` are oldest first; older
    than ``from_ms`` may be missing unless they are ``whole``, and ``problem`` says what failed.
    ``handed_over`` is the lock on it that is kept for the leader that asked (EXP-12).
    """

    error: ErrorCode
    message: str = ""
    state_epoch: int = -1
    start_offset: int = -1
    state: DeliveryState | None = None
    delivery_count: int = 0
    cause: Cause = Cause.UNSPECIFIED
    events: tuple[RecordChange, ...] = ()
    is_whole: bool = False
    from_ms: int = 0
    problem: str = ""
    not_before_ms: int = 0
    handed_over: HandedLock | None = None


class PersisterPort(Protocol):
    """Reads and writes with the retries of spec PER-6; never raises for an answered error.

    Group coordinators begin, delete and summarize state; share leaders read and write it.
    """

    async def initialize_state(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        batches: tuple[StateBatch, ...] = (),
    ) -> StateWriteResult:
        """Begin a state epoch (spec SC-9), that of an import with delivery states (spec OLD)."""
        ...

    async def delete_state(self, key: SharePartitionKey, state_epoch: int = 0) -> StateWriteResult:
        """Delete state; with a positive ``state_epoch`` only if it is not of a later one."""
        ...

    async def read_summary(self, key: SharePartitionKey) -> StateSummaryResult:
        """Return the stored offsets without batches (spec SC-20)."""
        ...

    async def read_state(
        self, key: SharePartitionKey, leader_epoch: int, handing_over: int = 0
    ) -> StateReadResult:
        """Return the stored state and raise its leader epoch (spec SC-10).

        While the leader of epoch ``handing_over`` is about to send its last write, the answer
        waits for that, for a bounded time (HND-13); 0: nobody is.
        """
        ...

    async def write_state(self, key: SharePartitionKey, write: StateWrite) -> StateWriteResult:
        """Return once the write is durable, or refused, or the attempts are used up."""
        ...

    async def read_history(
        self, key: SharePartitionKey, offset: int, principal: str, leader_epoch: int
    ) -> RecordHistoryResult:
        """Return what became of one record, as far as that is kept.

        Principals take turns; "" if callers have no names. The leader of ``leader_epoch`` asks: it
        is told of the lock that the state would bring, which stays where it is (EXP-12).
        """
        ...
