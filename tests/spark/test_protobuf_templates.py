"""Values read as tables are read as protobuf reads them, whatever they hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.v1.common_pb2 import ArchivedCounts, StateBatch
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from sharemesh_spark.reader.protobuf_columns import (
    BATCH_FIELDS,
    FIELDS,
    REPEATED,
    TEXTS,
    UNKNOWN_NUMBERS,
)
from sharemesh_spark.reader.protobuf_templates import SHAPES_OF_LENGTH_MAX, ValueTemplates, shape_of
from sharemesh_spark.reader.record_layout import RecordLayout
from sharemesh_spark.reader.state_columns import state_columns
from sharemesh_spark.reader.varints import Bytes

pytestmark = pytest.mark.spark
NUMBERS = [name for name, _ in FIELDS if name not in REPEATED | TEXTS]
int32 = st.one_of(st.integers(-3, 300), st.integers(-(2**31), 2**31 - 1))
int64 = st.one_of(int32, st.integers(-(2**63), 2**63 - 1))
offsets = st.one_of(st.integers(0, 40_000), int64)
texts = st.sampled_from(["", "g", "group", "a longer name than before"])
batches = st.lists(
    st.builds(
        StateBatch,
        first_offset=offsets,
        last_offset=offsets,
        delivery_state=st.integers(0, 4),
        delivery_count=int32,
        cause=st.integers(0, 9),
    ),
    max_size=3,
)
messages = st.builds(
    ShareStateRecord,
    kind=st.integers(1, 5),
    group_id=texts,
    topic_id=st.binary(max_size=16),
    partition=int32,
    snapshot_epoch=int32,
    state_epoch=int32,
    leader_epoch=int32,
    start_offset=int64,
    delivery_complete_count=int32,
    write_timestamp_ms=int64,
    state_batches=batches,
    cause=int32,
    member_id=texts,
    trace_id=st.sampled_from([b"", b"t" * 16]),
    format_version=st.integers(0, 1),
    leader_epoch_max=int32,
    changed_batches=batches,
    initial_start_offset=st.none() | int64,
    archived=st.none() | st.builds(ArchivedCounts, since_ms=int64),
)


def read(values, rows_min=1, around=b"??"):
    """Return the columns of values that lie somewhere in a buffer."""
    data, at = bytearray(around), []
    for value in values:
        at.append(len(data))
        data += value + around
    numbers = np.arange(len(values))
    length = np.array([len(value) for value in values], dtype=np.int64)
    at = np.array(at, dtype=np.int64)
    places = RecordLayout(numbers, numbers, at, length, at, length)
    return state_columns(Bytes(bytes(data)), places, ValueTemplates(rows_min))


def same(columns, expected):
    assert len(columns) == len(expected)
    for name in NUMBERS:
        wanted = [
            getattr(each, name)
            if name not in UNKNOWN_NUMBERS or each.HasField(name)
            else UNKNOWN_NUMBERS[name]
            for each in expected
        ]
        assert columns.numbers[name].tolist() == wanted, name
    for name in ("group_id", "topic_id", "member_id", "trace_id", "span_id"):
        wanted = [getattr(each, name) for each in expected]
        wanted = [each.encode() if isinstance(each, str) else each for each in wanted]
        assert columns.text(name).to_pylist() == wanted, name
    for name, found in (("state_batches", columns.batches), ("changed_batches", columns.changed)):
        lists = [getattr(each, name) for each in expected]
        assert found.splits.tolist() == np.cumsum([0, *map(len, lists)]).tolist()
        for column, _ in BATCH_FIELDS:
            wanted = [getattr(each, column) for batches in lists for each in batches]
            assert getattr(found, column).tolist() == wanted, (name, column)


@settings(max_examples=150, deadline=None)
@given(st.lists(messages, min_size=1, max_size=6), st.data())
def test_every_column_is_what_protobuf_reads(made, data):
    # Some records again with other numbers: the same shape, or one that nearly is.
    for each in list(made):
        changed = ShareStateRecord.FromString(each.SerializeToString())
        changed.start_offset = each.start_offset ^ data.draw(st.integers(0, 200))
        changed.partition ^= 1
        made.append(changed)
    values = [each.SerializeToString(deterministic=True) for each in made]
    rows_min = data.draw(st.sampled_from([1, 2, 3, 100]))
    same(read(values, rows_min), made)


@settings(max_examples=100, deadline=None)
@given(messages, st.integers(1, 200), st.binary(min_size=1, max_size=1))
def test_a_changed_byte_is_read_as_protobuf_reads_it_or_refused(message, place, octet):
    value = bytearray(message.SerializeToString(deterministic=True))
    value[place % len(value)] = octet[0]
    try:
        wanted = ShareStateRecord.FromString(bytes(value))
    except Exception:  # the codec's words for it are tested where it is read
        wanted = None
    shape = shape_of(bytes(value))
    if wanted is None:
        assert shape is None or shape.texts  # a text that is not UTF-8
    elif shape is not None and wanted.kind in range(1, 6) and wanted.format_version <= 1:
        same(read([bytes(value)] * 2), [wanted] * 2)


def test_more_shapes_than_are_remembered_are_read_field_by_field():
    # Of one length: what one number has more of bytes, the other has less.
    made = [
        ShareStateRecord(kind=2, start_offset=1 << (7 * n), write_timestamp_ms=1 << (56 - 7 * n))
        for n in range(1, 8)
    ]
    made += [
        ShareStateRecord(kind=2, start_offset=1 << (7 * n), create_timestamp_ms=1 << (56 - 7 * n))
        for n in range(1, 8)
    ]
    made += [
        ShareStateRecord(kind=kind, state_epoch=1, create_timestamp_ms=1 << 55) for kind in (1, 2)
    ]
    made += [
        ShareStateRecord(kind=2, start_offset=1 << (7 * n), leader_epoch_max=1, cause=1)
        for n in range(1, 8)
    ]
    same(read([each.SerializeToString() for each in made] * 3), made * 3)
    assert SHAPES_OF_LENGTH_MAX < 100


def test_a_value_that_reaches_beyond_the_buffer_is_not_read_as_a_table():
    value = ShareStateRecord(kind=2, start_offset=5).SerializeToString()
    rows = np.zeros(3, dtype=np.int64)
    length = np.full(3, 500, dtype=np.int64)
    places = RecordLayout(rows, rows, rows, rows, rows, length)
    found, others = ValueTemplates(1).tables(Bytes(value), places)
    assert found == []
    assert others.tolist() == [0, 1, 2]
