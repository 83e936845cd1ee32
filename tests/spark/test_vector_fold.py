"""The vectorised fold is the domain's fold, on every log; and reads every value the codec reads."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharemesh.codec.batch_frame import place_frame
from sharemesh.codec.generation import arrow_schema, shard_states
from sharemesh.codec.log_chain import ReadablePart
from sharemesh.codec.record_set import build_plain_batch
from sharemesh.codec.segment import SegmentName
from sharemesh.codec.state_record import encode_key, encode_value
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.fold import NUMBERS, Floors, ShareState, content_hash
from sharemesh.domain.share_state.records import (
    UNKNOWN_START_OFFSET,
    EpochFloor,
    Generation,
    Origin,
    StateSnapshot,
    StateUpdate,
    Tombstone,
)
from sharemesh.domain.share_state.snapshot_parts import in_parts
from sharemesh.domain.state_batch import StateBatch, combine
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from sharemesh_spark.fold import combine_numpy
from sharemesh_spark.fold.vector_fold import FoldRows, state_at
from sharemesh_spark.generation import shard_fold
from sharemesh_spark.generation.generation_files import BaseShard, shard_content
from sharemesh_spark.generation.shard_fold import ShardFold
from sharemesh_spark.generation.source import SCHEMA, arrow_rows
from sharemesh_spark.reader import shard_windows
from sharemesh_spark.reader.data_directory import LogPart, ShardImage, UnreadableLogError
from sharemesh_spark.reader.protobuf_templates import ROWS_MIN, ValueTemplates
from sharemesh_spark.reader.shard_windows import windows
from tests.spark.reference_fold import DomainFold

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
KEYS = [
    SharePartitionKey(GroupId(group), TopicId(bytes([n + 1]) * 16), n)
    for n, group in enumerate(["g", "g:with:colons", "größe"])
]
ORIGIN = Origin(Cause.ACCEPT, MemberId("m"), b"t" * 16, b"s" * 8)
epochs = st.integers(0, 3)
NOT_BEFORE = st.sampled_from([0, 0, 1_750_000_000_000, 1_750_000_000_001])
delivery = st.sampled_from(
    [DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED]
)


@st.composite
def state_batches(draw):
    first = draw(st.integers(0, 40))
    last = first + draw(st.integers(0, 15))
    state = draw(delivery)
    later = draw(NOT_BEFORE) if state is DeliveryState.AVAILABLE else 0
    return StateBatch(first, last, state, draw(st.integers(0, 3)), Cause.ACCEPT, later)


several = st.lists(state_batches(), max_size=4).map(tuple)
keys = st.sampled_from(KEYS)
starts = st.integers(-1, 30)


@st.composite
def snapshots(draw):
    start = draw(starts)
    batches = combine(draw(several), (), start_offset=start)
    initial = draw(st.sampled_from([UNKNOWN_START_OFFSET, -1, 0, 7]))
    numbers = [draw(epochs) for _ in range(4)]
    return StateSnapshot(
        draw(keys), *numbers, start, draw(st.integers(-1, 9)), 5, 6, batches, ORIGIN,
        draw(several), initial,
    )  # fmt: skip


updates = st.builds(
    StateUpdate, keys, epochs, epochs, st.integers(-1, 4), starts, st.integers(-1, 9), st.just(7),
    several, st.just(ORIGIN),
)  # fmt: skip
rising = st.builds(
    StateUpdate, keys, epochs, epochs, st.just(2), st.just(-1), st.integers(-1, 9), st.just(7),
    several, st.just(ORIGIN),
)  # fmt: skip
records = st.one_of(
    rising,
    updates,
    rising,
    snapshots(),
    st.builds(Tombstone, keys, epochs, epochs, st.just(8), st.just(ORIGIN)),
    st.builds(EpochFloor, epochs, epochs, st.just(9)),
)
batched = st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=12)


def image_of(values, *, epoch_changes=True):
    """A shard as read from disk: each list of (key, value) one record batch, epochs in between."""
    parts, offset = [], 0
    for epoch, half in enumerate([values[::2], values[1::2]] if epoch_changes else [values]):
        data, begin = bytearray(), offset
        for batch in half:
            built = build_plain_batch([(key, value, 1_000) for key, value in batch])
            place_frame(built, offset, epoch + 1)
            data += built
            offset += len(batch)
        place = ReadablePart(SegmentName(epoch + 1, begin), begin, offset, 64, 64 + len(data))
        parts.append(LogPart(Path("log"), place, bytes(data)))
    return ShardImage(0, 2, 0, offset, tuple(parts))


def encoded(batches):
    return [[(encode_key(r), encode_value(r)) for r in batch] for batch in batches]


def in_log_order(batches):
    return [record for half in (batches[::2], batches[1::2]) for batch in half for record in batch]


def vectorised(image, base=None, from_offset=0, rows_min=ROWS_MIN):
    fold = ShardFold(base, one_in=1)
    for window in windows(image, from_offset, ValueTemplates(rows_min)):
        fold.add(window)
    names, rows, proofs = fold.result()
    return names, rows, proofs, fold


def states(names, rows):
    return {name: state_at(rows, row) for row, name in enumerate(names)}


def of_domain(several_records):
    fold = DomainFold()
    for offset, record in enumerate(several_records):
        fold.add(offset, record)
    return fold


def by_text(fold):
    return {encode_key(Tombstone(key, 0, 0, 0)): state for key, state in fold.states.items()}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batched, st.booleans(), st.sampled_from([1, 2, ROWS_MIN]))
def test_the_vectorised_fold_is_the_domains_fold(batches, tight, rows_min):
    pieces = (combine_numpy.PIECES_PER_BATCH_MAX, combine_numpy._PIECES_FREE)
    combine_numpy.PIECES_PER_BATCH_MAX, combine_numpy._PIECES_FREE = (1, 0) if tight else pieces
    try:
        names, rows, proofs, fold = vectorised(image_of(encoded(batches)), rows_min=rows_min)
    finally:
        combine_numpy.PIECES_PER_BATCH_MAX, combine_numpy._PIECES_FREE = pieces
    expected = of_domain(in_log_order(batches))
    assert states(names, rows) == by_text(expected)
    assert fold.floors == expected.floors
    assert fold.records == expected.records
    assert all(proofs)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batched, batched)
def test_folding_on_from_a_generation_is_folding_everything(before, after):
    names, rows, _, fold = vectorised(image_of(encoded(before), epoch_changes=False))
    base = BaseShard(
        "g1", 0, tuple(names), FoldRows(np.arange(len(names)), rows.numbers, rows.runs), fold.floors
    )
    names, rows, _, fold = vectorised(image_of(encoded(after), epoch_changes=False), base)
    expected = of_domain([record for batch in before + after for record in batch])
    assert states(names, rows) == by_text(expected)
    assert fold.floors == expected.floors


@pytest.mark.parametrize("rows_min", [1, ROWS_MIN])
def test_a_tombstone_without_value_and_a_value_in_another_order_are_read_like_the_codec_does(
    rows_min,
):
    snapshot = StateSnapshot(KEYS[0], 1, 1, 1, 1, 5, 0, 1, 1, (), ORIGIN)
    later = ShareStateRecord(kind=2, format_version=2).SerializeToString()
    unknown = encode_value(snapshot) + b"\xf8\x07\x01"  # field 127
    update = ShareStateRecord(
        kind=2, start_offset=6, leader_epoch=-1, delivery_complete_count=-1
    ).SerializeToString()
    swapped = update[2:] + update[:2]
    key = encode_key(snapshot)
    other = encode_key(Tombstone(KEYS[1], 0, 0, 0))
    values = [
        [(other, encode_value(snapshot)), (key, later)],
        [(key, unknown), (key, swapped), (other, None)],
    ]
    names, rows, _, _ = vectorised(image_of(values, epoch_changes=False), rows_min=rows_min)
    assert names == [key]
    assert rows.numbers["start_offset"].tolist() == [6]


@pytest.mark.parametrize("rows_min", [1, ROWS_MIN])
def test_a_value_that_is_no_record_is_named_with_file_and_offset(rows_min):
    image = image_of([[(b"g:AAAAAAAAAAAAAAAAAAAAAA:0", b"\xff\xff")]], epoch_changes=False)
    with pytest.raises(UnreadableLogError, match=r"\.log, offset 0: "):
        vectorised(image, rows_min=rows_min)


@pytest.mark.parametrize("rows_min", [1, ROWS_MIN])
def test_rows_of_the_source_are_those_of_the_records(rows_min):
    at_ms = 1_700_000_000_000
    batch = StateBatch(3, 9, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT, 0, at_ms)
    span = {"first": 3, "last": 9, "state": 2, "count": 1, "cause": 1}
    whole = StateBatch(0, 9, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT)
    made = [
        StateSnapshot(KEYS[0], 1, 2, 3, 4, 5, 6, 7, 8, (whole,), ORIGIN, (batch,), 0),
        StateUpdate(KEYS[1], 1, 2, -1, -1, -1, 8, (batch,), ORIGIN),
        Tombstone(KEYS[2], 2, 3, 9, Origin(Cause.DELETE)),
        EpochFloor(4, 5, 10),
        Generation("g1", "", 3, "p", b"h" * 32, 1),
    ]
    image = image_of(encoded([made]), epoch_changes=False)
    [window] = windows(image, 0, ValueTemplates(rows_min))
    columns = [part.split()[0] for part in SCHEMA.split(", ")]
    columns = [name for name in columns if name.isidentifier()]
    rows = arrow_rows(7, window, columns).to_pylist()
    assert [row["kind"] for row in rows] == [
        "snapshot", "update", "tombstone", "epochfloor", "generation",
    ]  # fmt: skip
    assert rows[0]["changed"] == rows[1]["batches"] == [{**span, "acquired_at_ms": at_ms}]
    assert rows[0]["batches"][0]["first"] == 0
    assert rows[0]["initial_start_offset"] == 0
    assert rows[1]["leader_epoch"] == -1
    assert rows[1]["member_id"] == "m"
    assert rows[1]["initial_start_offset"] is None
    assert (rows[3]["state_epoch"], rows[3]["leader_epoch"]) == (4, 5)
    assert rows[2]["leader_epoch_max"] == 3
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4]


def test_the_hash_of_columns_is_the_hash_of_the_states():
    """A generation is hashed by columns, and by the coordinator and the proofs state by state."""
    import pyarrow as pa

    for seed in range(30):
        rng = random.Random(seed)
        keys = [SharePartitionKey(GroupId(f"g{n}"), TopicId(b"t" * 16), n) for n in range(9)]
        states = {key: random_state(rng) for key in rng.sample(keys, rng.randrange(9))}
        floors = Floors(rng.randrange(-1, 5), rng.randrange(-1, 5))
        rows = [row_of(key, state) for key, state in states.items()]
        rows.append(
            {"shard": 0, "kind": "floors", "state_epoch": floors.state_epoch,
             "leader_epoch": floors.leader_epoch}
        )  # fmt: skip
        content = shard_content(pa.Table.from_pylist(rows, schema=arrow_schema()), 0)
        assert content.hash() == content_hash(states, floors), f"seed {seed}"
        for place, (key, state) in enumerate(states.items()):
            assert content.hash_of(place) == content_hash({key: state}, Floors()), f"seed {seed}"


DURABLE = (DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


def random_state(rng):
    batches, at = [], 0
    for _ in range(rng.randrange(4)):
        first = at + rng.randrange(1, 1 << 33)
        at = first + rng.randrange(50)
        later = rng.choice([0, 0, 0, 1 << 41])
        made = StateBatch(first, at, rng.choice(DURABLE), rng.randrange(1, 6), not_before_ms=later)
        batches.append(made)
    numbers = {name: rng.randrange(-1, 1 << 20) for name in NUMBERS}
    return ShareState(batches=tuple(batches), **numbers)


def row_of(key, state):
    numbers = {name: getattr(state, name) for name in NUMBERS}
    batches = [
        {"first": b.first_offset, "last": b.last_offset, "state": int(b.delivery_state),
         "count": b.delivery_count, "not_before": b.not_before_ms}
        for b in state.batches
    ]  # fmt: skip
    return {"shard": 0, "kind": "state", "group_id": key.group_id, "topic_id": key.topic_id,
            "partition": key.partition, "batches": batches, **numbers}  # fmt: skip


def test_rty_9_a_generation_of_an_older_version_has_no_not_before_and_the_hash_that_it_had():
    import pyarrow as pa

    batch = StateBatch(3, 9, DeliveryState.AVAILABLE, 2)
    state = ShareState(0, 1, 2, 2, 3, 0, 5, 6, (batch,))
    row = row_of(KEYS[0], state)
    for each in row["batches"]:
        del each["not_before"]
    columns = [field for field in arrow_schema() if field.name != "batches"]
    inner = arrow_schema().field("batches").type.value_type
    old = pa.list_(pa.struct([field for field in inner if field.name != "not_before"]))
    schema = pa.schema([*columns, pa.field("batches", old)])
    floors = {"shard": 0, "kind": "floors", "state_epoch": -1, "leader_epoch": -1}
    table = pa.Table.from_pylist([row, floors], schema=schema)
    wanted = "153aa282207111472ee71b9f249cf695ca4285b0f51b656b72902c117357a5de"
    assert content_hash({KEYS[0]: state}, Floors()).hex() == wanted
    assert shard_states(table, 0) == ({KEYS[0]: state}, Floors())
    read = table.select(arrow_schema().names).cast(arrow_schema())  # as Spark reads its files
    assert shard_content(read, 0).hash().hex() == wanted
    delayed = replace(state, batches=(batch._replace(not_before_ms=7),))
    assert content_hash({KEYS[0]: delayed}, Floors()).hex() != wanted


def large_snapshot(batches):
    return StateSnapshot(KEYS[1], 2, 1, 3, 4, 0, 5, 6, 7, tuple(batches), ORIGIN)


@pytest.mark.parametrize("rows_min", [1, ROWS_MIN])
@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_win_12_a_snapshot_in_parts_is_read_whole_or_not_at_all(rows_min, dropped):
    """WIN-12: in one window and over several, and a torn one before it."""
    batches = [
        StateBatch(3 * n, 3 * n, DeliveryState.AVAILABLE, 1, Cause.RELEASE, 9 * n)
        for n in range(40)
    ]
    state = large_snapshot(batches)
    parts = in_parts(state, 50, 3)
    assert len(parts) == 14
    update = StateUpdate(
        KEYS[1], 2, 1, -1, 0, 6, 8, (batches[0]._replace(delivery_count=2),), ORIGIN
    )
    other = StateUpdate(KEYS[0], 0, 0, -1, 0, 0, 8, (batches[0],), ORIGIN)
    torn = parts[: 14 - dropped] if dropped else []
    made = [[state], *([each] for each in torn), [other], *([each] for each in parts), [update]]
    for size in (1, 100):
        log = [each for group in made for each in group]
        grouped = [log[at : at + size] for at in range(0, len(log), size)]
        for begin in (0, 1, len(log) - 2):
            image = image_of(encoded(grouped), epoch_changes=False)
            names, rows, proofs, _ = vectorised(image, from_offset=begin, rows_min=rows_min)
            expected = of_domain(
                [*log[begin : len(log) - 15], *([state] if begin < 2 else []), update]
            )
            assert states(names, rows) == by_text(expected)
            assert all(proofs)


def test_win_12_a_whole_snapshot_is_one_row_where_its_last_part_lies():
    """WIN-12."""
    batches = tuple(StateBatch(3 * n, 3 * n, DeliveryState.ARCHIVED, 1) for n in range(5))
    state = large_snapshot(batches)
    image = image_of(encoded([[state, *in_parts(state, 50, 2)]]), epoch_changes=False)
    [window] = windows(image, 0, ValueTemplates(1))
    assert [int(kind) for kind in window.kind] == [1, 1]
    assert window.places.offset.tolist() == [0, 3]


def test_win_12_large_snapshots_are_folded_before_there_are_too_many_runs(monkeypatch):
    """WIN-12: few records, each of them many runs, which a task must hold."""
    monkeypatch.setattr(shard_fold, "ROWS_PER_FOLD", 50)
    monkeypatch.setattr(shard_windows, "RECORDS_PER_GROUP", 2)
    state = large_snapshot(
        StateBatch(3 * n, 3 * n, DeliveryState.ARCHIVED, 1, Cause.REJECT) for n in range(40)
    )
    again = [[part] for at_ms in range(30) for part in in_parts(state, at_ms, 20)]
    fold, most = ShardFold(None, one_in=1), 0
    image = image_of(encoded([[state], *again]), epoch_changes=False)
    for window in windows(image, 0, ValueTemplates(1)):
        fold.add(window)
        most = max(most, sum(len(part.runs) for part in fold._parts))
    assert most <= 50 * shard_fold.RUNS_PER_ROW + 2 * 40
    names, rows, _ = fold.result()
    assert states(names, rows) == by_text(of_domain([state]))
