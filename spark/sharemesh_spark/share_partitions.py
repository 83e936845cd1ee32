"""All that is known of each share partition, brought together: spans and lives as one table.

One row ``what = 'life'`` for each life, also if nothing of it is known but its state (REP-4), and
one row ``what = 'span'`` for each span (``spans.Spans``) with what counts for its life beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh_spark.lives import NONE, Changes, Life, NewestState, lives_of
from sharemesh_spark.reader.data_directory import Range
from sharemesh_spark.reader.varints import Ints, Mask
from sharemesh_spark.spans import NOT_RECORDED, Appended, JobSpans, spans_of

KEY = ("group_id", "topic_id", "partition")
NOT_RECORDED_NAME = "not recorded"
FINISHED_NAME = "finished"
"""What became of records of which only that is known."""

KNOWN_SCHEMA = (
    "group_id string, topic_id string, partition int, what string, shard int, offset bigint, "
    "kind string, cause string, state_epoch int, start_offset bigint, at_ms bigint, "
    "first_offset bigint, last_offset bigint, delivery_state string, delivery_count int, "
    "member_id string, initial_start_offset bigint, acquired_at_ms bigint"
)
"""What is known of share partitions, a row each: ``what`` is change, state or batch."""

SCHEMA = (
    "group_id string, topic_id string, partition int, life int, what string, began_ms bigint, "
    "life_ended_ms bigint, not_counted bigint, counts_from_ms bigint, first_offset bigint, "
    "last_offset bigint, records bigint, came_ms bigint, changed_ms bigint, ended_ms bigint, "
    "acquired_ms bigint, worked_ms bigint, became string, cause string, member_id string, "
    "delivery_count int"
)
_TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
_ARROW = pa.schema(
    [(name, _TYPES[kind]) for name, kind in (each.split() for each in SCHEMA.split(", "))]
)


def lives_and_spans(known: pa.Table, holes: Mapping[int, Sequence[Range]]) -> pa.Table:
    """Return the rows (``SCHEMA``) of one share partition.

    Args:
        known: Its rows of ``KNOWN_SCHEMA``, in any order.
        holes: What of the log was never read, by shard.
    """
    key = {name: known.column(name)[0].as_py() for name in KEY}
    rows = _of(known, "change").sort_by([("offset", "ascending"), ("first_offset", "ascending")])
    changes, state, appended = _changes(rows), _state(known), _appended(known)
    shard = pc.max(known.column("shard")).as_py()
    lowest = int(appended.first[0]) if len(appended.first) else 0
    tables = [
        table
        for life in lives_of(changes, state, holes.get(shard, ()), lowest_offset=lowest)
        for table in (_life_row(life), _span_rows(life, spans_of(life, changes, appended), rows))
    ]
    whole = pa.concat_tables(tables) if tables else _ARROW.empty_table()
    for place, name in enumerate(KEY):
        column = pa.array([key[name]] * whole.num_rows, _ARROW.field(name).type)
        whole = whole.set_column(place, _ARROW.field(name), column)
    return whole


def _of(known: pa.Table, what: str) -> pa.Table:
    return known.filter(pc.equal(known.column("what"), what)).combine_chunks()


def _numbers(table: pa.Table, name: str) -> Ints:
    filled = pc.fill_null(table.column(name).cast(pa.int64()), NONE)
    found: Ints = filled.to_numpy().astype(np.int64)
    return found


def _named(table: pa.Table, name: str, kind: type[IntEnum], absent: int) -> Ints:
    """Return names of history columns as numbers of the domain."""
    encoded = table.column(name).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    numbers = [kind[each.upper()].value for each in encoded.dictionary.to_pylist()]
    indices = pc.fill_null(encoded.indices, len(numbers)).to_numpy(zero_copy_only=False)
    found: Ints = np.array([*numbers, absent], dtype=np.int64)[indices]
    return found


def _is(table: pa.Table, name: str, values: Sequence[str]) -> Mask:
    found: Mask = pc.is_in(table.column(name), pa.array(values)).to_numpy()
    return found


def _changes(rows: pa.Table) -> Changes:
    snapshot, began = _is(rows, "kind", ["snapshot"]), _is(rows, "cause", ["initialize", "import"])
    return Changes(
        log_offset=_numbers(rows, "offset"),
        at_ms=_numbers(rows, "at_ms"),
        state_epoch=_numbers(rows, "state_epoch"),
        start_offset=_numbers(rows, "start_offset"),
        first=_numbers(rows, "first_offset"),
        last=_numbers(rows, "last_offset"),
        state=_named(rows, "delivery_state", DeliveryState, NONE),
        count=_numbers(rows, "delivery_count"),
        cause=_named(rows, "cause", Cause, int(Cause.UNSPECIFIED)),
        acquired_ms=_numbers(rows, "acquired_at_ms"),
        begins=snapshot & began,
        deletes=_is(rows, "kind", ["tombstone"]),
    )


def _state(known: pa.Table) -> NewestState | None:
    rows = _of(known, "state").to_pylist()
    if not rows:
        return None
    final = tuple(
        (
            row["first_offset"],
            row["last_offset"],
            int(DeliveryState[row["delivery_state"].upper()]),
            row["delivery_count"],
        )
        for row in rows
        if row["first_offset"] is not None
    )
    one = rows[0]
    initial = one["initial_start_offset"]
    return NewestState(
        one["state_epoch"],
        one["start_offset"],
        NONE if initial is None else initial,
        one["at_ms"],
        final,
    )


def _appended(known: pa.Table) -> Appended:
    rows = _of(known, "batch").sort_by("first_offset")
    return Appended(
        _numbers(rows, "first_offset"), _numbers(rows, "last_offset"), _numbers(rows, "at_ms")
    )


def _life_columns(life: Life, what: str) -> dict[str, Any]:
    return {
        "life": life.number,
        "what": what,
        "began_ms": _told(life.began_ms),
        "life_ended_ms": _told(life.ended_ms),
        "not_counted": life.not_counted,
        "counts_from_ms": _told(life.counts_from_ms),
    }


def _told(value: int) -> int | None:
    return None if value == NONE else value


def _life_row(life: Life) -> pa.Table:
    row = dict.fromkeys(_ARROW.names) | _life_columns(life, "life") | {"records": 0}
    return pa.Table.from_pylist([row], schema=_ARROW)


def _span_rows(life: Life, spans: JobSpans, rows: pa.Table) -> pa.Table:
    count = len(spans)
    columns = dict(_constant(_life_columns(life, "span"), count))
    columns["records"] = pa.array(spans.last - spans.first + 1)
    columns["first_offset"], columns["last_offset"] = pa.array(spans.first), pa.array(spans.last)
    for name in ("came_ms", "changed_ms", "ended_ms", "acquired_ms", "worked_ms"):
        columns[name] = _nullable(getattr(spans, name))
    columns["delivery_count"] = _nullable(spans.count).cast(pa.int32())
    by_change = pa.array(spans.change, mask=spans.change < 0)
    columns["member_id"] = rows.column("member_id").combine_chunks().take(by_change)
    ended = spans.ended_ms >= 0
    became = {each.value: each.name.lower() for each in DeliveryState} | {0: FINISHED_NAME}
    columns["became"] = _texts(spans.state, became, ended)
    causes = {each.value: each.name.lower() for each in Cause} | {NOT_RECORDED: NOT_RECORDED_NAME}
    columns["cause"] = _texts(spans.cause, causes, ended)
    nothing = pa.nulls(count)
    arrays = [_flat(columns.get(each.name, nothing)).cast(each.type) for each in _ARROW]
    return pa.Table.from_arrays(arrays, schema=_ARROW)


def _constant(values: Mapping[str, Any], count: int) -> Iterator[tuple[str, pa.Array]]:
    for name, value in values.items():
        yield name, pa.array([value] * count, _ARROW.field(name).type)


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == NONE)


def _texts(values: Ints, names: Mapping[int, str], which: Mask) -> pa.Array:
    codes = pa.array(values, mask=~which)
    known = pa.array([names.get(each, "") for each in range(max(names) + 1)])
    return known.take(codes)


def _flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
