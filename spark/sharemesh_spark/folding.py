"""The fold of a shard's rows with the coordinator's own rules, and back from a generation."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.fold import Floors, ShareState, fold, fold_floors
from sharemesh.domain.share_state.records import (
    EpochFloor,
    Generation,
    Snapshot,
    StateRecord,
    Tombstone,
    Update,
)
from sharemesh.domain.state_batch import StateBatch

States = dict[SharePartitionKey, ShareState]
_BATCH = pa.struct(
    [("first", pa.int64()), ("last", pa.int64()), ("state", pa.int32()), ("count", pa.int32())]
)
GENERATION_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("kind", pa.string()),  # state, or floors: one row a shard
        ("group_id", pa.string()),
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("leader_epoch_max", pa.int32()),
        ("start_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("create_timestamp_ms", pa.int64()),
        ("write_timestamp_ms", pa.int64()),
        ("batches", pa.list_(_BATCH)),
        ("initial_start_offset", pa.int64()),
        ("end_offset", pa.int64()),  # of the shard, exclusive; on the row of the floors
        ("records", pa.int64()),
    ]
)
GENERATION_SCHEMA = (
    "shard int, kind string, group_id string, topic_id binary, partition int, snapshot_epoch int, "
    "state_epoch int, leader_epoch int, leader_epoch_max int, start_offset bigint, "
    "delivery_complete_count int, create_timestamp_ms bigint, write_timestamp_ms bigint, "
    "batches array<struct<first:bigint,last:bigint,state:int,count:int>>, "
    "initial_start_offset bigint, end_offset bigint, "
    "records bigint"
)


class ShardFold:
    """States and floors of one shard while its records pass by in order."""

    def __init__(self) -> None:
        self.states: States = {}
        self.floors = Floors()
        self.end_offset = 0
        self.records = 0

    def add(self, offset: int, record: StateRecord) -> None:
        """Fold one record."""
        self.end_offset = offset + 1
        self.records += 1
        self.floors = fold_floors(self.floors, record)
        match record:
            case Snapshot() | Update() | Tombstone():
                state = fold(self.states.get(record.key), record)
                if state is None:
                    self.states.pop(record.key, None)
                else:
                    self.states[record.key] = state
            case EpochFloor() | Generation():
                pass


def fold_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Fold the rows of one shard (``mapInArrow``); yields states, then the row of the floors."""
    folded, shard = ShardFold(), None
    for batch in batches:
        for row in batch.to_pylist():
            shard = row["shard"]
            folded.add(row["offset"], record_of(row))
    if shard is not None:
        yield pa.RecordBatch.from_pylist(generation_rows(shard, folded), schema=GENERATION_ARROW)


def generation_rows(shard: int, folded: ShardFold) -> list[dict[str, Any]]:
    """Return the rows of a shard in a generation."""
    rows: list[dict[str, Any]] = [
        {
            "shard": shard,
            "kind": "state",
            "group_id": key.group_id,
            "topic_id": key.topic_id,
            "partition": key.partition,
            "snapshot_epoch": state.snapshot_epoch,
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "leader_epoch_max": state.leader_epoch_max,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
            "create_timestamp_ms": state.create_timestamp_ms,
            "write_timestamp_ms": state.write_timestamp_ms,
            "batches": [
                {
                    "first": batch.first_offset,
                    "last": batch.last_offset,
                    "state": int(batch.delivery_state),
                    "count": batch.delivery_count,
                }
                for batch in state.batches
            ],
            "initial_start_offset": state.initial_start_offset,
        }
        for key, state in sorted(folded.states.items())
    ]
    rows.append(
        {
            "shard": shard,
            "kind": "floors",
            "state_epoch": folded.floors.state_epoch,
            "leader_epoch": folded.floors.leader_epoch,
            "end_offset": folded.end_offset,
            "records": folded.records,
        }
    )
    return rows


def record_of(row: dict[str, Any]) -> StateRecord:
    """Return the domain's record of a row of the source."""
    kind = row["kind"]
    if kind == "epochfloor":
        return EpochFloor(row["state_epoch"], row["leader_epoch"], row["write_timestamp_ms"])
    if kind == "generation":
        return Generation("", "", row["start_offset"], "", b"", 0)
    key = key_of(row)
    if kind == "tombstone":
        return Tombstone(
            key, row["state_epoch"], row["leader_epoch_max"], row["write_timestamp_ms"]
        )
    batches = tuple(
        StateBatch(b["first"], b["last"], DeliveryState(b["state"]), b["count"], Cause(b["cause"]))
        for b in row["batches"]
    )
    if kind == "update":
        return Update(
            key,
            row["snapshot_epoch"],
            row["state_epoch"],
            row["leader_epoch"],
            row["start_offset"],
            row["delivery_complete_count"],
            row["write_timestamp_ms"],
            batches,
        )
    return Snapshot(
        key,
        row["snapshot_epoch"],
        row["state_epoch"],
        row["leader_epoch"],
        row["leader_epoch_max"],
        row["start_offset"],
        row["delivery_complete_count"],
        row["create_timestamp_ms"],
        row["write_timestamp_ms"],
        batches,
        initial_start_offset=row["initial_start_offset"],
    )


def states_of(rows: Iterable[dict[str, Any]]) -> tuple[States, Floors]:
    """Return states and floors from the rows of one shard in a generation."""
    states: States = {}
    floors = Floors()
    for row in rows:
        if row["kind"] == "floors":
            floors = Floors(row["state_epoch"], row["leader_epoch"])
            continue
        states[key_of(row)] = ShareState(
            row["snapshot_epoch"],
            row["state_epoch"],
            row["leader_epoch"],
            row["leader_epoch_max"],
            row["start_offset"],
            row["delivery_complete_count"],
            row["create_timestamp_ms"],
            row["write_timestamp_ms"],
            tuple(
                StateBatch(b["first"], b["last"], DeliveryState(b["state"]), b["count"])
                for b in row["batches"]
            ),
            row["initial_start_offset"],
        )
    return states, floors


def key_of(row: dict[str, Any]) -> SharePartitionKey:
    """Return the share partition of a row."""
    return SharePartitionKey(
        GroupId(row["group_id"]), TopicId(bytes(row["topic_id"])), row["partition"]
    )
