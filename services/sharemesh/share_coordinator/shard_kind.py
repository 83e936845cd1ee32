"""The share coordinator's kind of shard: its machine over the state log."""

from collections.abc import Sequence

from sharemesh.codec.state_record import decode_record, encode_key, encode_value
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import (
    EpochFloor,
    Generation,
    Snapshot,
    StateRecord,
    Tombstone,
    Update,
)
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.shard import Shard
from sharemesh.runtime.shard_kind import ShardKind
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings

StateShard = Shard[ShareStateMachine, StateRecord]
STATE_LOG = "state"


def state_shard_kind(
    settings: ShareCoordinatorSettings,
) -> ShardKind[ShareStateMachine, StateRecord]:
    """Return how a shard of the state log is loaded and written."""
    return ShardKind(
        name=STATE_LOG,
        new_machine=lambda _shard: ShareStateMachine(settings.updates_per_snapshot),
        encode=encode,
        load=load,
    )


def encode(record: StateRecord) -> LogRecord:
    """Return the log record of a state record."""
    return LogRecord(encode_key(record), encode_value(record), timestamp_ms=_timestamp_ms(record))


def load(machine: ShareStateMachine, chunk: Sequence[LogRecord]) -> None:
    """Apply stored records; kinds and versions not known here are passed over (spec SC-22)."""
    for stored in chunk:
        record = decode_record(stored.key, stored.value)
        if record is not None:
            machine.apply(record, stored.offset)


def _timestamp_ms(record: StateRecord) -> int:
    match record:
        case Snapshot() | Update() | Tombstone() | EpochFloor() | Generation():
            return record.write_timestamp_ms
