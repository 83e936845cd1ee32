"""What is asked of a share partition's state, and what comes back."""

from dataclasses import dataclass

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.records import NO_ORIGIN, Origin, StateRecord
from sharemesh.domain.state_batch import StateBatch


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One partition of WriteShareGroupState; a start offset of -1 keeps the stored one."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class StateResult:
    """An error, or NONE; ``state`` is what the answer tells of (before the change, SC-10).

    ``known_state_epoch`` is set with FENCED_STATE_EPOCH: the highest one known; an initialization
    above it will be accepted.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    state: ShareState | None = None
    known_state_epoch: int = -1


@dataclass(frozen=True, slots=True)
class StateDecision:
    """The record that a request comes to, if any, and its answer; an error has no record."""

    answer: StateResult
    record: StateRecord | None = None
