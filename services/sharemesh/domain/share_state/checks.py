"""Requests to the share coordinator, their outcomes, and the checks that need no state (spec SC-6).

The first check that refuses decides; the table after SC-6 says in which order they stand.
"""

from dataclasses import dataclass

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import OFFSET_MAX, SharePartitionKey, check_group_id
from sharemesh.domain.packed_batches import combined
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.records import NO_ORIGIN, Origin, StateRecord
from sharemesh.domain.state_batch import StateBatch, combine, complete_count

MAX_BATCHES = 20_000
"""Of one write, of an import, and of an answer to a leader that does not take parts (WIN-15)."""

MAX_STATE_BATCHES = 1_040_000
"""Of a state: the most runs of a share partition (WIN-4), and room for writes that merge."""

MAX_STATE_EPOCH = 2_000_000_000
"""Deleted epochs are a floor for all groups of a shard, so no request may use up the numbers."""

MAX_EPOCH_STEP = 1_000_000
"""Above ``MAX_STATE_EPOCH`` an epoch rises by at most this."""

_COUNT_MAX = 2**31 - 1
_TOPIC_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One partition of WriteShareGroupState; a start offset of -1 keeps the stored one.

    The count of one that ``is_recount`` is taken as it is, with an equal start offset (SC-16).
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    origin: Origin = NO_ORIGIN
    is_recount: bool = False


@dataclass(frozen=True, slots=True)
class StateResult:
    """An error, or NONE; ``state`` is what the answer describes (before the change, SC-10).

    ``known_state_epoch`` is set with FENCED_STATE_EPOCH: the highest one known; an initialization
    above it will be accepted. So is ``known_leader_epoch`` with FENCED_LEADER_EPOCH.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    state: ShareState | None = None
    known_state_epoch: int = -1
    known_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class StateDecision:
    """The record that a request writes, if any, and its answer; an error has no record."""

    answer: StateResult
    record: StateRecord | None = None


def refused(error: ErrorCode, message: str, *, known_state_epoch: int = -1) -> StateDecision:
    """Return an outcome that changes nothing."""
    return StateDecision(StateResult(error, message, known_state_epoch=known_state_epoch))


def invalid(message: str) -> StateDecision:
    """Return the outcome of a request that its caller must correct."""
    return refused(ErrorCode.INVALID_REQUEST, message)


def check_key(key: SharePartitionKey) -> StateDecision | None:
    """Refuse a null topic id, then a negative partition, then a group id that is too long."""
    if not key.topic_id:
        return invalid("The topic id cannot be null.")
    if len(key.topic_id) != _TOPIC_ID_BYTES:
        return invalid(f"The topic id must have 16 bytes, this one has {len(key.topic_id)}.")
    if key.partition < 0:
        return invalid("The partition id cannot be a negative number.")
    try:
        check_group_id(key.group_id)
    except RefusedError as too_long:
        return refused(too_long.error, too_long.message)
    return None


def check_epoch(name: str, epoch: int) -> StateDecision | None:
    """Refuse a negative ``name`` epoch (leader, state)."""
    if epoch < 0:
        return invalid(f"The {name} epoch cannot be a negative number.")
    return None


def check_batch_count(count: int) -> StateDecision | None:
    """Refuse more than one write may hold; it is looked at before batches are decoded."""
    if count <= MAX_BATCHES:
        return None
    return invalid(f"{count} state batches exceed the {MAX_BATCHES} of one write.")


def check_batches(batches: tuple[StateBatch, ...]) -> StateDecision | None:
    """Refuse what no share partition can mean, so that it never reaches the log."""
    too_many = check_batch_count(len(batches))
    if too_many is not None:
        return too_many
    for batch in batches:
        if (
            batch.first_offset < 0
            or batch.last_offset < batch.first_offset
            or batch.delivery_count < 0
            or batch.not_before_ms < 0
            or (batch.not_before_ms and batch.delivery_state is not DeliveryState.AVAILABLE)
            or not isinstance(batch.delivery_state, DeliveryState)
        ):
            return invalid(
                f"The state batch {batch.first_offset}-{batch.last_offset} (state "
                f"{batch.delivery_state}, count {batch.delivery_count}, not before "
                f"{batch.not_before_ms}) is not valid."
            )
    return None


def check_leap(state_epoch: int, known: int) -> StateDecision | None:
    """Refuse a state epoch that would leave later groups of the shard no room above it."""
    highest = max(MAX_STATE_EPOCH, known + MAX_EPOCH_STEP)
    if state_epoch <= highest:
        return None
    return invalid(f"The state epoch {state_epoch} is above {highest}, the highest to begin with.")


def check_imported(batches: tuple[StateBatch, ...], start_offset: int) -> StateDecision | None:
    """Refuse delivery states of an import without a start offset, or that nothing can mean."""
    if batches and start_offset < 0:
        return invalid("Delivery states are imported with a start offset only.")
    stop = check_batches(batches) or _check_offsets(batches, start_offset)
    if stop is None and complete_count(combine(batches, (), start_offset=-1)) > _COUNT_MAX:
        return invalid(
            f"The delivery states complete more than {_COUNT_MAX} records; raise the start offset."
        )
    return stop


def _check_offsets(batches: tuple[StateBatch, ...], start_offset: int) -> StateDecision | None:
    """Refuse offsets so high that sums with them would not fit the numbers of messages (BND-13)."""
    highest = max((start_offset, *(batch.last_offset for batch in batches)))
    if highest <= OFFSET_MAX:
        return None
    return invalid(f"The offset {highest} is above {OFFSET_MAX}, the highest one.")


def unknown_partition(key: SharePartitionKey) -> StateDecision:
    """Refuse a topic or partition that is not in the metadata."""
    return refused(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"Topic {key.topic_id.hex()} has no partition {key.partition}, or is not known here (yet).",
    )


def check_room(state: ShareState, request: WriteRequest) -> StateDecision | None:
    """Refuse a write after which the state would not fit a record."""
    if len(state.batches) + len(request.batches) <= MAX_STATE_BATCHES:
        return None
    start_offset = max(request.start_offset, state.start_offset)
    count = len(combined(state.batches, request.batches, start_offset=start_offset))
    if count <= MAX_STATE_BATCHES:
        return None
    return invalid(
        f"The state would have {count} batches, more than {MAX_STATE_BATCHES}; raise the start "
        "offset."
    )


def check_taken_whole(state: ShareState) -> StateDecision | None:
    """Refuse a state that a leader which takes no parts could not hold (WIN-15)."""
    if len(state.batches) <= MAX_BATCHES:
        return None
    return invalid(
        f"The state has {len(state.batches)} batches, more than {MAX_BATCHES}, the most that this "
        "share leader can take: upgrade it."
    )


def covers(state: ShareState, batches: tuple[StateBatch, ...]) -> bool:
    """Whether these delivery states would add nothing to the state."""
    return not batches or state.batches == combined(
        state.batches, batches, start_offset=state.start_offset
    )


def written_complete_count(state: ShareState, request: WriteRequest) -> int:
    """Return the delivery-complete count that a write records (spec SC-16)."""
    is_replaced = request.is_recount and request.start_offset == state.start_offset
    if is_replaced or request.start_offset > state.start_offset:
        return request.delivery_complete_count
    if request.start_offset == state.start_offset:
        return max(request.delivery_complete_count, state.delivery_complete_count)
    return state.delivery_complete_count


def fenced_leader(leader_epoch: int, state: ShareState) -> StateDecision:
    """Refuse a leader that another one has replaced."""
    known = state.leader_epoch_max
    return StateDecision(
        StateResult(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"The leader epoch {leader_epoch} is below {known}: another leader has taken over.",
            known_leader_epoch=known,
        )
    )
