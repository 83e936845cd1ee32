"""Importer of the old design: share control records in the data partition (spec OLD, OLD-1..10).

The control records themselves are skipped for applications (OLD-8), had to be replicated before
the answer (OLD-5), and were kept from the earliest needed checkpoint on (OLD-7); none of this is
needed any more, since today's records live in the state log with its own pruning.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.domain.share_state.fold import ShareState, fold
from sharemesh.domain.share_state.records import Origin, StateSnapshot, StateUpdate
from sharemesh.domain.state_batch import StateBatch, combine, complete_count

OLD_AVAILABLE = 0
OLD_ACQUIRED = 1
OLD_ACKNOWLEDGED = 2
OLD_ARCHIVED = frozenset({3, 4})  # 3 or 4, by revision (spec RS-1); never ARCHIVING


class OldRecordsError(Exception):
    """The old records do not describe a state; the message names the offset of the record."""


@dataclass(frozen=True, slots=True)
class OldState:
    """Offsets ``base_offset..last_offset``, both included, with the numbers of the old design."""

    base_offset: int
    last_offset: int
    state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareCheckpoint:
    """SHARE_CHECKPOINT, control type 5: the whole state (OLD-1). ``end_offset`` is exclusive."""

    offset: int
    group_id: GroupId
    checkpoint_epoch: int
    start_offset: int
    end_offset: int
    states: tuple[OldState, ...]


@dataclass(frozen=True, slots=True)
class ShareDelta:
    """SHARE_DELTA, control type 6: what changed since the record at ``back_offset`` (OLD-2)."""

    offset: int
    group_id: GroupId
    checkpoint_epoch: int
    back_offset: int
    states: tuple[OldState, ...]


OldRecord = ShareCheckpoint | ShareDelta


def import_records(
    key: SharePartitionKey, log: Sequence[OldRecord], *, timestamp_ms: int
) -> tuple[StateSnapshot, tuple[StateUpdate, ...]]:
    """Return today's records for the group's state: the snapshot, then updates in log order.

    The newest checkpoint counts, with the deltas of its epoch (OLD-3, OLD-6). CheckpointEpoch
    becomes the snapshot epoch, BackOffset is checked and dropped, EndOffset is not stored (OLD-9).
    State epoch and leader epoch begin at 0: the next leader raises the latter by its first read.

    Raises:
        OldRecordsError: No checkpoint, a broken chain of deltas, or a state that makes no sense.
    """
    of_group = sorted(
        (record for record in log if record.group_id == key.group_id),
        key=lambda record: record.offset,
    )
    checkpoints = [record for record in of_group if isinstance(record, ShareCheckpoint)]
    if not checkpoints:
        raise OldRecordsError(f"no checkpoint of group {key.group_id!r}: nothing to import")
    checkpoint = max(checkpoints, key=lambda record: (record.checkpoint_epoch, record.offset))
    origin = Origin(cause=Cause.IMPORT)
    start = checkpoint.start_offset
    batches = combine((), _batches(checkpoint.states, checkpoint.offset), start_offset=start)
    snapshot = StateSnapshot(
        key=key,
        snapshot_epoch=checkpoint.checkpoint_epoch,
        state_epoch=0,
        leader_epoch=0,
        leader_epoch_max=0,
        start_offset=start,
        delivery_complete_count=complete_count(batches),
        create_timestamp_ms=timestamp_ms,
        write_timestamp_ms=timestamp_ms,
        batches=batches,
        origin=origin,
    )
    updates = []
    for delta in _deltas_of(checkpoint, of_group):
        changed = combine((), _batches(delta.states, delta.offset), start_offset=start)
        batches = combine(batches, changed, start_offset=start)
        updates.append(
            StateUpdate(
                key=key,
                snapshot_epoch=checkpoint.checkpoint_epoch,
                state_epoch=0,
                leader_epoch=0,
                start_offset=start,
                delivery_complete_count=complete_count(batches),
                write_timestamp_ms=timestamp_ms,
                batches=changed,
                origin=origin,
            )
        )
    return snapshot, tuple(updates)


def import_state(
    key: SharePartitionKey, log: Sequence[OldRecord], *, timestamp_ms: int
) -> ShareState:
    """Return what the records of ``import_records`` add up to; raises as that."""
    snapshot, updates = import_records(key, log, timestamp_ms=timestamp_ms)
    state = fold(None, snapshot)
    for update in updates:
        state = fold(state, update)
    assert state is not None
    return state


def _deltas_of(checkpoint: ShareCheckpoint, records: Sequence[OldRecord]) -> list[ShareDelta]:
    """Return the deltas behind the checkpoint that carry its epoch, oldest first (OLD-3)."""
    deltas = []
    previous = checkpoint.offset
    for record in records:
        if (
            not isinstance(record, ShareDelta)
            or record.checkpoint_epoch != checkpoint.checkpoint_epoch
            or record.offset < checkpoint.offset
        ):
            continue
        if record.back_offset != previous:
            raise OldRecordsError(
                f"delta at offset {record.offset} follows {record.back_offset}, but the record"
                f" before it lies at {previous}: a control record is missing"
            )
        previous = record.offset
        deltas.append(record)
    return deltas


def _batches(states: Iterable[OldState], offset: int) -> list[StateBatch]:
    """Return today's batches; what was only acquired leaves no trace (OLD-4)."""
    result = []
    for old in states:
        if not 0 <= old.base_offset <= old.last_offset or old.delivery_count < 0:
            raise OldRecordsError(f"control record at offset {offset}: impossible state {old}")
        state, count = _today(old, offset)
        if state is not DeliveryState.AVAILABLE or count > 0:
            batch = StateBatch(old.base_offset, old.last_offset, state, count, Cause.IMPORT)
            result.append(batch)
    return result


def _today(old: OldState, offset: int) -> tuple[DeliveryState, int]:
    if old.state == OLD_AVAILABLE:
        return DeliveryState.AVAILABLE, old.delivery_count
    if old.state == OLD_ACQUIRED:  # never written as such, but harmless
        return DeliveryState.AVAILABLE, max(0, old.delivery_count - 1)
    if old.state == OLD_ACKNOWLEDGED:
        return DeliveryState.ACKNOWLEDGED, old.delivery_count
    if old.state in OLD_ARCHIVED:
        return DeliveryState.ARCHIVED, old.delivery_count
    raise OldRecordsError(f"control record at offset {offset}: unknown state {old.state}")
