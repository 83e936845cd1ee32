"""Lives and spans: every figure of a report is right, or says from where on it counts (REP)."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharemesh_spark.reader.data_directory import holes_between
from sharemesh_spark.share_partitions import KNOWN_SCHEMA, lives_and_spans

TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
ARROW = pa.schema(
    [(name, TYPES[kind]) for name, kind in (each.split() for each in KNOWN_SCHEMA.split(", "))]
)
ABSENT = dict.fromkeys(ARROW.names)


def known(*rows):
    key = {"group_id": "g", "topic_id": "t", "partition": 0, "shard": 3}
    return pa.Table.from_pylist([{**ABSENT, **key, **row} for row in rows], schema=ARROW)


def begins(offset, at_ms, epoch=1, start=0):
    return {
        "what": "change", "kind": "snapshot", "cause": "initialize", "offset": offset,
        "at_ms": at_ms, "state_epoch": epoch, "start_offset": start,
    }  # fmt: skip


def change(offset, at_ms, first, last, became="acknowledged", *, count=1, epoch=1, start=0,
           cause="accept", member="m", acquired=None):  # fmt: skip
    return {
        "what": "change", "kind": "update", "cause": cause, "offset": offset, "at_ms": at_ms,
        "state_epoch": epoch, "start_offset": start, "first_offset": first, "last_offset": last,
        "delivery_state": became, "delivery_count": count, "member_id": member,
        "acquired_at_ms": acquired,
    }  # fmt: skip


def deleted(offset, at_ms, epoch=1):
    return {
        "what": "change", "kind": "tombstone", "cause": "delete", "offset": offset,
        "at_ms": at_ms, "state_epoch": epoch,
    }  # fmt: skip


def batch(first, last, at_ms):
    return {"what": "batch", "first_offset": first, "last_offset": last, "at_ms": at_ms}


def state(start, *, at_ms=9_000, epoch=1, initial=0, archived=()):
    about = {
        "what": "state", "state_epoch": epoch, "start_offset": start, "at_ms": at_ms,
        "initial_start_offset": initial,
    }  # fmt: skip
    final = {"delivery_state": "archived", "delivery_count": 5}
    return [
        about,
        *({**about, **final, "first_offset": a, "last_offset": b} for a, b in archived),
    ]


def told(table, *names):
    spans = [row for row in table.to_pylist() if row["what"] == "span"]
    return [tuple(row[name] for name in names) for row in spans]


def lives(table):
    return [row for row in table.to_pylist() if row["what"] == "life"]


def test_holes_are_what_neither_history_nor_log_has():
    """REP-3."""
    assert holes_between([(0, 5), (8, 12)], 12) == [(5, 8)]
    assert holes_between([(3, 12)], 12) == [(0, 3)]
    assert holes_between([(0, 6), (4, 12), (2, 3)], 12) == []
    assert holes_between([], 0) == []
    assert holes_between([(0, 4)], 9) == [(4, 9)]


def test_a_record_is_finished_once_in_a_life_however_often_its_end_was_written():
    """REP-5."""
    table = known(
        begins(0, 1_000), change(1, 2_000, 0, 9), change(2, 2_100, 0, 9), *state(0)
    )  # the answer to the first write was lost: it was sent again
    found = lives_and_spans(table, {})
    assert told(found, "records", "became", "cause", "ended_ms") == [
        (10, "acknowledged", "accept", 2_000)
    ]
    [life] = lives(found)
    assert (life["began_ms"], life["counts_from_ms"], life["not_counted"]) == (1_000, None, 0)


def test_what_was_pruned_is_counted_from_the_state_with_its_cause_not_recorded():
    """REP-6."""
    table = known(change(700, 8_000, 5, 9, start=5), *state(5, initial=0, archived=[(12, 12)]))
    found = lives_and_spans(table, {3: [(0, 600)]})
    assert told(found, "first_offset", "last_offset", "became", "cause", "delivery_count") == [
        (0, 4, "finished", "not recorded", None),
        (5, 9, "acknowledged", "accept", 1),
        (12, 12, "archived", "not recorded", 5),
    ]
    [life] = lives(found)
    assert (life["began_ms"], life["counts_from_ms"]) == (None, 8_000)


def test_a_group_of_which_every_change_was_pruned_is_still_listed():
    """REP-4."""
    [life] = lives(lives_and_spans(known(*state(162_288, initial=-1)), {3: [(0, 600)]}))
    assert (life["not_counted"], life["counts_from_ms"]) == (162_288, 9_000)
    found = lives_and_spans(known(*state(162_288, initial=0)), {3: [(0, 600)]})
    assert told(found, "records", "cause") == [(162_288, "not recorded")]


def test_where_a_life_of_unknown_beginning_counts_from_is_told():
    """REP-3."""
    table = known(change(700, 8_000, 50, 59, start=50), *state(50, initial=-1), batch(20, 99, 1))
    found = lives_and_spans(table, {3: [(0, 600)]})
    [life] = lives(found)
    assert life["not_counted"] == 30  # 20 to 49: the record log begins at 20
    assert told(found, "first_offset", "last_offset", "ended_ms") == [
        (50, 59, 8_000),
        (60, 99, None),
    ]


def test_a_hole_before_a_life_began_does_not_touch_it():
    table = known(begins(600, 1_000), change(601, 2_000, 0, 9), *state(0))
    [life] = lives(lives_and_spans(table, {3: [(0, 600)]}))
    assert life["counts_from_ms"] is None
    [life] = lives(lives_and_spans(table, {3: [(601, 602)]}))
    assert life["counts_from_ms"] == 9_000
    [life] = lives(lives_and_spans(table, {5: [(0, 900)]}))  # another shard
    assert life["counts_from_ms"] is None


def test_a_group_deleted_and_made_again_has_two_lives_that_share_nothing():
    """REP-1."""
    table = known(
        batch(0, 9, 100),
        begins(0, 1_000), change(1, 2_000, 0, 2, "available", cause="lock_expiry"),
        deleted(2, 3_000),
        begins(3, 500_000, epoch=2), change(4, 501_000, 0, 2, epoch=2),
        *state(0, epoch=2),
    )  # fmt: skip
    found = lives_and_spans(table, {})
    assert told(found, "life", "records", "came_ms", "changed_ms", "ended_ms") == [
        (1, 3, 1_000, 2_000, None),
        (1, 7, 1_000, None, None),
        (2, 3, 500_000, 501_000, 501_000),
        (2, 7, 500_000, None, None),
    ]
    assert [(life["began_ms"], life["life_ended_ms"]) for life in lives(found)] == [
        (1_000, 3_000),
        (500_000, None),
    ]


def test_lives_are_told_apart_by_state_epoch_if_deletion_and_initialization_were_pruned():
    """REP-1."""
    table = known(
        begins(0, 1_000), change(1, 2_000, 0, 2), change(9, 500_000, 5, 5, epoch=4, start=3),
        *state(3, epoch=4, initial=3),
    )  # fmt: skip
    found = lives_and_spans(table, {3: [(2, 9)]})
    assert told(found, "life", "first_offset", "last_offset") == [(1, 0, 2), (2, 5, 5)]
    assert [life["counts_from_ms"] for life in lives(found)] == [2_000, 500_000]


def test_records_whose_topic_is_gone_came_no_later_than_they_were_finished():
    """REP-9."""
    table = known(begins(0, 1_000), change(1, 2_000, 0, 2), deleted(2, 3_000))
    assert told(lives_and_spans(table, {}), "came_ms", "ended_ms") == [(2_000, 2_000)]


def test_an_offset_without_a_record_neither_comes_nor_is_missed():
    """REP-9."""
    table = known(
        begins(0, 1_000), change(1, 2_000, 0, 4, start=0),
        change(2, 2_500, 5, 5, "archived", cause="gap", start=5), batch(0, 4, 500), *state(6),
    )  # fmt: skip
    assert told(lives_and_spans(table, {}), "first_offset", "came_ms", "cause") == [
        (0, 1_000, "accept"),
        (5, None, "gap"),
    ]


def test_a_life_that_chose_its_start_itself_begins_at_the_first_start_offset_known():
    """REP-7."""
    table = known(
        begins(0, 1_000, start=-1), change(1, 2_000, 7, 8, start=7), batch(0, 9, 500), *state(9)
    )
    found = lives_and_spans(table, {})
    assert told(found, "first_offset", "last_offset", "came_ms") == [(7, 8, 1_000), (9, 9, 1_000)]
    assert lives(found)[0]["not_counted"] == 0


def test_a_second_delivery_whose_first_was_pruned_is_counted_but_not_timed():
    """REP-10."""
    table = known(change(700, 8_000, 0, 0, count=2), change(701, 8_100, 1, 1), *state(0))
    found = lives_and_spans(table, {3: [(0, 600)]})
    assert told(found, "changed_ms", "ended_ms") == [(None, 8_000), (8_100, 8_100)]


@pytest.mark.parametrize("start", [0, 4])
def test_what_the_log_start_passed_is_finished_without_a_cause(start):
    """REP-6."""
    table = known(begins(0, 1_000, start=start), change(1, 2_000, 20, 24, start=20), *state(25))
    found = lives_and_spans(table, {})
    assert told(found, "first_offset", "records", "cause") == [
        (start, 20 - start, "not recorded"),
        (20, 5, "accept"),
    ]
    assert lives(found)[0]["counts_from_ms"] is None


@st.composite
def histories(draw):
    """Lives of a share partition with everything that may go wrong, holes included."""
    rows, offset, at_ms, epoch, start = [], 0, 0, 0, 0
    for _ in range(draw(st.integers(1, 3))):
        epoch += draw(st.integers(1, 2))
        start = draw(st.integers(-1, 5))
        rows.append(begins(offset, at_ms, epoch, start))
        initial = start
        for _ in range(draw(st.integers(0, 6))):
            offset += 1
            at_ms += draw(st.integers(-5, 50))
            start = max(start, draw(st.integers(0, 12)))
            first = draw(st.integers(start, 25))
            became = draw(st.sampled_from(["available", "acknowledged", "archived"]))
            cause = draw(st.sampled_from(["accept", "gap", "release", "delivery_limit"]))
            last = first + draw(st.integers(0, 6))
            rows.append(
                change(offset, max(at_ms, 0), first, last, became, epoch=epoch, start=start,
                       cause=cause, count=draw(st.integers(1, 3)))
            )  # fmt: skip
        offset += 1
        lives_on = draw(st.booleans())
        if not lives_on:
            rows.append(deleted(offset, max(at_ms, 0), epoch))
            offset += 1
    newest = state(max(start, 0), epoch=epoch, initial=initial) if lives_on else []
    cut = draw(st.integers(0, offset))
    holes = {3: [(0, cut)]} if cut else {}
    kept = [row for row in rows if row["offset"] >= cut]
    appended = draw(st.lists(st.integers(1, 8), max_size=5))
    first, batches = draw(st.integers(0, 5)), []
    for size in appended:
        batches.append(batch(first, first + size - 1, draw(st.integers(-1, 300))))
        first += size + draw(st.integers(0, 2))
    return [*kept, *newest, *batches], holes


@given(histories())
def test_spans_of_a_life_are_disjoint_and_no_record_leaves_before_it_came(drawn):
    rows, holes = drawn
    if not rows:
        return
    found = lives_and_spans(known(*rows), holes).to_pylist()
    reached = {}
    for row in found:
        if row["what"] == "life":
            continue
        assert row["first_offset"] > reached.get(row["life"], -1)
        reached[row["life"]] = row["last_offset"]
        assert row["records"] == row["last_offset"] - row["first_offset"] + 1 > 0
        assert row["came_ms"] is not None or row["ended_ms"] is not None
        if row["came_ms"] is not None and row["ended_ms"] is not None:
            assert row["came_ms"] <= row["ended_ms"]
        assert (row["ended_ms"] is None) == (row["cause"] is None) == (row["became"] is None)
    known_rows = [row for row in rows if row["what"] != "batch"]
    assert bool(known_rows) == any(row["what"] == "life" for row in found)


def test_rep_10_waiting_and_working_are_told_apart():
    """REP-10: working is the sum of the deliveries; one that does not say when makes it unknown."""
    rows = known(
        begins(0, 1_000),
        batch(0, 9, 1_500),
        change(1, 2_500, 0, 5, "available", cause="release", acquired=2_000),
        change(2, 9_000, 0, 3, count=2, acquired=8_000),
        change(3, 9_500, 4, 5, count=2),
        change(4, 9_600, 6, 9, acquired=9_700),  # a clock that was set back
    )
    names = ("first_offset", "came_ms", "acquired_ms", "ended_ms", "worked_ms")
    assert told(lives_and_spans(rows, {}), *names) == [
        (0, 1_500, 2_000, 9_000, 1_500),
        (4, 1_500, 2_000, 9_500, None),
        (6, 1_500, 9_700, 9_600, 0),
    ]


def test_rep_10_nothing_is_said_of_working_where_the_log_does_not_say_it():
    rows = known(begins(0, 1_000), batch(0, 0, 1_500), change(1, 2_500, 0, 0))
    [span] = told(lives_and_spans(rows, {}), "acquired_ms", "worked_ms", "changed_ms")
    assert span == (None, None, 2_500)
