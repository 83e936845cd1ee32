"""The share coordinator's kind of shard: its machine over the state log."""

from collections.abc import Sequence
from functools import partial

from sharemesh.codec.state_record import (
    UPDATE_PREFIX,
    decode_record,
    decode_updates,
    encode_key,
    encode_value,
)
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import (
    EpochFloor,
    Generation,
    SnapshotPart,
    StateRecord,
    StateSnapshot,
    StateUpdate,
    Tombstone,
)
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.shard import CoordinatorShard
from sharemesh.runtime.shard_kind import ShardDefinition
from sharemesh.share_coordinator.generations import GenerationReader, restore
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings

StateShard = CoordinatorShard[ShareStateMachine, StateRecord]
STATE_LOG = "state"
_KEYS_PER_FOLD = 10


def state_shard_kind(
    settings: ShareCoordinatorSettings,
    generations: GenerationReader | None = None,
) -> ShardDefinition[ShareStateMachine, StateRecord]:
    """Return how a shard of the state log is loaded, from a generation on if one is committed."""
    return ShardDefinition(
        name=STATE_LOG,
        new_machine=lambda _shard: ShareStateMachine(
            settings.updates_per_snapshot,
            decode_updates,
            large_batches=settings.large_batches,
            part_batches=settings.part_batches,
        ),
        encode=encode,
        load=partial(load, backlog_max_bytes=settings.backlog_max_bytes),
        restore=None if generations is None else partial(restore, reader=generations),
    )


def encode(record: StateRecord) -> LogRecord:
    """Return the log record of a state record."""
    return LogRecord(encode_key(record), encode_value(record), timestamp_ms=_timestamp_ms(record))


def load(machine: ShareStateMachine, chunk: Sequence[LogRecord], *, backlog_max_bytes: int) -> None:
    """Take stored records over; kinds and versions not known here are passed over (spec SC-22).

    Updates are kept as they are until their share partition is asked for, within a bound.
    """
    backlog = machine.backlog
    values, prefix, size_bytes = backlog.values, UPDATE_PREFIX, 0
    for key, value, offset, _ in chunk:
        if value is not None and value.startswith(prefix):
            try:
                values[key].append(value)
            except KeyError:
                values[key] = [value]
            size_bytes += len(value)
        else:
            record = decode_record(key, value)
            if record is not None:
                machine.apply(record, offset)
    backlog.size_bytes += size_bytes
    while machine.backlog.size_bytes > backlog_max_bytes:
        machine.fold_backlog(_KEYS_PER_FOLD)


def _timestamp_ms(record: StateRecord) -> int:
    match record:
        case StateSnapshot() | StateUpdate() | Tombstone() | EpochFloor() | Generation():
            return record.write_timestamp_ms
        case SnapshotPart():
            return record.made_ms
