"""What records of the share state log add up to: one definition for coordinators and Spark.

One hash identifies the folded state of a shard, whichever program folded it (LOG-19).
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sharemesh.domain.ids import SharePartitionKey, format_key
from sharemesh.domain.packed_batches import StateBatches, combined, packed
from sharemesh.domain.share_state.records import (
    NO_START_OFFSET,
    UNKNOWN_START_OFFSET,
    ArchivedCounts,
    EpochFloor,
    Generation,
    SnapshotPart,
    StateRecord,
    StateSnapshot,
    StateUpdate,
    Tombstone,
    has_archived,
)
from sharemesh.domain.state_batch import NO_COUNT, StateBatch

NUMBERS = (
    "snapshot_epoch",
    "state_epoch",
    "leader_epoch",
    "leader_epoch_max",
    "start_offset",
    "delivery_complete_count",
    "create_timestamp_ms",
    "write_timestamp_ms",
    "initial_start_offset",
)
"""The numbers of a state, in the order in which they are hashed."""

BATCH_FIELDS = ("q", "q", "i", "i")
"""First and last offset, delivery state and delivery count; big-endian, without gaps."""

DELAYED_BATCH_FIELDS = (*BATCH_FIELDS, "q")
"""The same with the not-before: of states that have one (RTY-9)."""

_STATE = struct.Struct(">iiiiqiqqqi")
_BATCH = struct.Struct(">" + "".join(BATCH_FIELDS))
_DELAYED_BATCH = struct.Struct(">" + "".join(DELAYED_BATCH_FIELDS))
_FLOORS = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class ShareState:
    """The durable state of one share partition (spec SC-6); batches are sorted and disjoint.

    ``archived`` is a note for people, None if it is not known: it takes no part in equality, and
    generations do not carry it (ARC-5).
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    leader_epoch_max: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: StateBatches = ()
    initial_start_offset: int = UNKNOWN_START_OFFSET
    archived: ArchivedCounts | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Floors:
    """The highest epochs that were deleted in a shard; -1 before the first deletion."""

    state_epoch: int = -1
    leader_epoch: int = -1


def fold(
    state: ShareState | None, record: StateSnapshot | StateUpdate | Tombstone
) -> ShareState | None:
    """Return the state of a share partition after one more record of it (spec SC-17, SC-19)."""
    match record:
        case StateUpdate():
            return _updated(state, record)
        case StateSnapshot():
            return _snapshotted(state, record)
        case Tombstone():
            return None


def fold_updates(state: ShareState | None, updates: Sequence[StateUpdate]) -> ShareState | None:
    """Return what folding the updates one by one gives; batches are combined only once.

    That is the same as long as start offsets do not go back, because on each offset the best
    batch wins whatever the order (CMB-2, CMB-12).
    """
    if not updates:
        return state
    if state is None or not _start_never_goes_back(state, updates):
        for each in updates:
            state = _updated(state, each)
        return state
    bare = state
    for each in updates:
        bare = _updated(bare, each, combining=False)
    new = [batch for each in updates for batch in each.batches]
    if not new and bare.start_offset == state.start_offset:
        return bare
    batches = combined(state.batches, new, start_offset=bare.start_offset)
    return replace(bare, batches=batches)


def fold_floors(floors: Floors, record: StateRecord) -> Floors:
    """Return the floors of a shard after one more record of it; they only rise."""
    match record:
        case Tombstone():
            state_epoch, leader_epoch = record.state_epoch, record.leader_epoch_max
        case EpochFloor():
            state_epoch, leader_epoch = record.state_epoch, record.leader_epoch
        case StateSnapshot() | SnapshotPart() | StateUpdate() | Generation():
            return floors
    if state_epoch <= floors.state_epoch and leader_epoch <= floors.leader_epoch:
        return floors
    return Floors(max(floors.state_epoch, state_epoch), max(floors.leader_epoch, leader_epoch))


def _snapshotted(state: ShareState | None, record: StateSnapshot) -> ShareState:
    known = record.leader_epoch_max if state is None else state.leader_epoch_max
    return ShareState(
        snapshot_epoch=record.snapshot_epoch,
        state_epoch=record.state_epoch,
        leader_epoch=record.leader_epoch,
        leader_epoch_max=max(known, record.leader_epoch_max, record.leader_epoch),
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        create_timestamp_ms=record.create_timestamp_ms,
        write_timestamp_ms=record.write_timestamp_ms,
        batches=packed(record.batches),
        initial_start_offset=record.initial_start_offset,
        archived=record.archived,
    )


def _start_never_goes_back(state: ShareState, updates: Sequence[StateUpdate]) -> bool:
    highest = state.start_offset
    for each in updates:
        if each.start_offset != NO_START_OFFSET:
            if each.start_offset < highest:
                return False
            highest = each.start_offset
    return True


def _updated(
    state: ShareState | None, record: StateUpdate, *, combining: bool = True
) -> ShareState:
    if state is None:  # only in a log that lost its snapshot; better a part than nothing
        state = ShareState(
            snapshot_epoch=record.snapshot_epoch,
            state_epoch=record.state_epoch,
            leader_epoch=0,
            leader_epoch_max=0,
            start_offset=NO_START_OFFSET,
            delivery_complete_count=NO_COUNT,
            create_timestamp_ms=record.write_timestamp_ms,
            write_timestamp_ms=record.write_timestamp_ms,
        )
    start_offset = record.start_offset
    count = record.delivery_complete_count
    if start_offset == NO_START_OFFSET:
        start_offset = state.start_offset
        if count == NO_COUNT:  # says nothing of offsets: a leader epoch was raised (SC-10)
            count = state.delivery_complete_count
    leader_epoch = record.leader_epoch if record.leader_epoch >= 0 else state.leader_epoch
    batches = state.batches
    if combining and (record.batches or start_offset != state.start_offset):
        batches = combined(batches, record.batches, start_offset=start_offset)
    return ShareState(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=leader_epoch,
        leader_epoch_max=max(state.leader_epoch_max, leader_epoch),
        start_offset=start_offset,
        delivery_complete_count=count,
        create_timestamp_ms=state.create_timestamp_ms,
        write_timestamp_ms=state.write_timestamp_ms,
        batches=batches,
        initial_start_offset=state.initial_start_offset,
        archived=_archived(state, record),
    )


def _archived(state: ShareState, record: StateUpdate) -> ArchivedCounts | None:
    """Return the counts after an update; one that does not count what it archives ends them."""
    if record.archived is None and has_archived(record.batches):
        return None
    return record.archived or state.archived


def content_hash(states: Mapping[SharePartitionKey, ShareState], floors: Floors) -> bytes:
    """Return the SHA-256 over all states in order of their key text, and the floors."""
    return packed_hash(
        (
            (
                format_key(key),
                [getattr(state, name) for name in NUMBERS],
                *_packed(state.batches),
            )
            for key, state in states.items()
        ),
        floors,
    )


def _packed(batches: Sequence[StateBatch]) -> tuple[bytes, bool]:
    """Return the bytes of batches, and whether they have the not-before."""
    if not any(batch.not_before_ms for batch in batches):
        return b"".join([_BATCH.pack(*batch[:4]) for batch in batches]), False
    pack = _DELAYED_BATCH.pack
    return b"".join([pack(*batch[:4], batch.not_before_ms) for batch in batches]), True


def packed_hash(states: Iterable[tuple[str, Sequence[int], bytes, bool]], floors: Floors) -> bytes:
    """Return the same hash of states that stand in columns, without making them.

    Args:
        states: Key text, ``NUMBERS``, the bytes of the batches of each, and whether these have
            ``DELAYED_BATCH_FIELDS``, as they must if one has a not-before, else ``BATCH_FIELDS``.
        floors: Of the shard.
    """
    digest = hashlib.sha256(_FLOORS.pack(floors.state_epoch, floors.leader_epoch))
    for text, numbers, batches, is_delayed in sorted(states, key=lambda item: item[0]):
        name = text.encode()
        digest.update(struct.pack(">i", len(name)) + name)
        # Below 0: no state without a delay has the same bytes.
        count = (
            -(len(batches) // _DELAYED_BATCH.size) if is_delayed else len(batches) // _BATCH.size
        )
        digest.update(_STATE.pack(*numbers, count))
        digest.update(batches)
    return digest.digest()
