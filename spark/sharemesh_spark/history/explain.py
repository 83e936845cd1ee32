"""The life of one record, line by line; without Spark, so it answers at once."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from sharemesh.codec.generation import shard_states
from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import (
    SharePartitionKey,
    TopicId,
    format_key,
    format_topic_id,
    home_shard,
    parse_topic_id,
)
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.records import StateRecord, StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch
from sharemesh_spark.generation.shard_fold import generation_of_shard
from sharemesh_spark.generation.source import shard_records
from sharemesh_spark.history.history import FOLDER, RUNS, holes, watermark
from sharemesh_spark.reader.data_directory import cluster_file

_RECORD = re.compile(r"(?P<topic>.+)/(?P<partition>\d+)@(?P<offset>\d+)")


class BadRecordError(Exception):
    """The text is not of the form topic/partition@offset."""


@dataclass(frozen=True, slots=True)
class ExplainedEvent:
    """One line of a record's life; times in ms since the epoch."""

    at_ms: int
    offset: int
    what: str
    delivery_count: int
    cause: str
    member_id: str
    trace_id: str
    acquired_at_ms: int = 0

    def line(self) -> str:
        """Return it for people."""
        at = _time(self.at_ms)
        count = f", delivery count {self.delivery_count}" if self.delivery_count else ""
        by = f" by {self.member_id}" if self.member_id else ""
        trace = f" (trace {self.trace_id})" if self.trace_id else ""
        held = f", acquired {_time(self.acquired_at_ms)}" if self.acquired_at_ms else ""
        return f"{at}  {self.what}{count}: {self.cause}{by}{held}{trace}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def parse_record(text: str) -> tuple[str, int, int]:
    """Return topic, partition and offset.

    Raises:
        BadRecordError: The text has another form.
    """
    found = _RECORD.fullmatch(text)
    if found is None:
        raise BadRecordError(f"{text!r} is not of the form topic/partition@offset")
    return found["topic"], int(found["partition"]), int(found["offset"])


def topic_id_of(text: str) -> TopicId:
    """Return the topic id in the form that Kafka shows.

    Raises:
        BadRecordError: It is not one; names need a running cluster to be looked up.
    """
    try:
        return parse_topic_id(text)
    except RefusedError as error:
        raise BadRecordError(
            f"{text!r} is no topic id; pass --bootstrap host:port to look up a topic by its name"
        ) from error


def life_of(data: Path, key: SharePartitionKey, record: int) -> list[ExplainedEvent]:
    """Return all that is known of one record: from the history, then from the log behind it."""
    shard = home_shard(format_key(key), cluster_file(data).state_shards)
    reached = watermark(data).get(shard, 0)
    events = list(_from_history(data, key, record))
    for offset, _, each in shard_records(data, shard):
        keyed = isinstance(each, StateSnapshot | StateUpdate | Tombstone) and each.key == key
        if keyed and offset >= reached:
            events += _events(offset, each, record)
    return events


def not_told_by(
    data: Path, key: SharePartitionKey, record: int, events: list[ExplainedEvent]
) -> list[str]:
    """Return what must be said beside the events: what was pruned, and how it ended (REP-12)."""
    shard = home_shard(format_key(key), cluster_file(data).state_shards)
    states, _ = shard_states(generation_of_shard(data, shard), shard)
    ended = _ended_in(states.get(key), record)
    said = {event.what for event in _of_last_life(events)}
    lines = []
    if ended and not said & set(_FINAL):
        lines.append(f"{ended}; when and why is not recorded")
    for low, high in holes(data).get(shard, ()):
        lines.append(
            f"offsets {low:,} to {high - 1:,} of shard {shard} were pruned before they were read: "
            "what they said of this record is not known"
        )
    return lines


_FINAL = ("acknowledged", "archived")


def _of_last_life(events: list[ExplainedEvent]) -> list[ExplainedEvent]:
    begins = [n for n, each in enumerate(events) if each.what.startswith(("initialized", "state"))]
    return events[begins[-1] :] if begins else events


def _ended_in(state: ShareState | None, record: int) -> str:
    """Return how a record ended according to the newest state; "" if it did not, or has none."""
    if state is None:
        return ""
    for batch in state.batches:
        name = batch.delivery_state.name.lower()
        if batch.first_offset <= record <= batch.last_offset and name in _FINAL:
            return name
    if max(state.initial_start_offset, 0) <= record < state.start_offset:
        return f"finished, or passed over: below the start offset {state.start_offset:,}"
    if record < state.start_offset:
        return f"not of this group, which began at {state.initial_start_offset:,}"
    return ""


def _events(offset: int, each: StateRecord, record: int) -> Iterator[ExplainedEvent]:
    assert isinstance(each, StateSnapshot | StateUpdate | Tombstone)
    origin = each.origin
    member, trace = origin.member_id, origin.trace_id.hex()
    at_ms, cause = each.write_timestamp_ms, origin.cause.name.lower()
    if isinstance(each, Tombstone):
        yield ExplainedEvent(at_ms, offset, "state deleted", 0, cause, member, trace)
        return
    changed: tuple[StateBatch, ...] = (
        each.batches if isinstance(each, StateUpdate) else each.changed
    )
    if isinstance(each, StateSnapshot) and cause == "initialize":
        what = f"initialized at offset {each.start_offset}, state epoch {each.state_epoch}"
        yield ExplainedEvent(at_ms, offset, what, 0, cause, member, trace)
    for batch in changed:
        if batch.first_offset <= record <= batch.last_offset:
            why = batch.cause.name.lower() if batch.cause else cause
            what, count = batch.delivery_state.name.lower(), batch.delivery_count
            held = batch.acquired_at_ms
            yield ExplainedEvent(at_ms, offset, what, count, why, member, trace, held)


def _from_history(data: Path, key: SharePartitionKey, record: int) -> Iterator[ExplainedEvent]:
    base = data / FOLDER / RUNS
    if not any(base.glob("run=*/day=*")):
        return
    names = pa.schema([(name, pa.string()) for name in ("run", "day", "group_id")])
    hive = ds.partitioning(names, flavor="hive")
    table = ds.dataset(base, partitioning=hive).to_table(filter=_filter(key, record))
    for row in sorted(table.to_pylist(), key=lambda row: (row["shard"], row["offset"])):
        yield _event_of(row)


def _filter(key: SharePartitionKey, record: int) -> ds.Expression:
    covers = (ds.field("first_offset") <= record) & (ds.field("last_offset") >= record)
    return (
        (ds.field("group_id") == key.group_id)
        & (ds.field("topic_id") == format_topic_id(key.topic_id))
        & (ds.field("partition") == key.partition)
        & (covers | ds.field("first_offset").is_null())
    )


def _event_of(row: dict[str, Any]) -> ExplainedEvent:
    what = row["delivery_state"]
    if row["kind"] == "tombstone":
        what = "state deleted"
    elif what is None:
        what = f"initialized at offset {row['start_offset']}, state epoch {row['state_epoch']}"
    return ExplainedEvent(
        row["at_ms"],
        row["offset"],
        what,
        row["delivery_count"] or 0,
        row["cause"],
        row["member_id"],
        row["trace_id"],
        row.get("acquired_at_ms") or 0,
    )
