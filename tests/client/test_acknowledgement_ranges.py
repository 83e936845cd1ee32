"""Ranges on the wire (spec CL-27; scenarios CL-S34..36)."""

import random

import pytest

from sharemesh.client.consumer.deliveries import (
    ReleaseTerms,
    UniformTypes,
    encode_types,
    encode_unseen,
    runs_of,
    span_of,
)
from sharemesh.domain.delivery_state import AcknowledgeType as A


def ranges(types):
    return [
        (b.first_offset, b.last_offset, [int(t) for t in b.acknowledge_types])
        for b in encode_types(types)
    ]


def offsets(text: str) -> dict[int, A]:
    """``"0-4 ACCEPT; 5 GAP"``"""
    found = {}
    for part in text.split(";"):
        span, name = part.split()
        first, _, last = span.partition("-")
        for offset in range(int(first), int(last or first) + 1):
            found[offset] = A[name]
    return found


def test_one_type_is_one_range_with_one_type():
    assert ranges(offsets("0-4 ACCEPT")) == [(0, 4, [1])]
    assert ranges(offsets("7 GAP")) == [(7, 7, [0])]
    assert ranges(offsets("0-11 GAP")) == [(0, 11, [0])]
    assert ranges({}) == []


def test_mixed_types_are_listed_one_an_offset():
    assert ranges(offsets("0-2 ACCEPT; 3-4 RELEASE")) == [(0, 4, [1, 1, 1, 2, 2])]


def test_more_than_ten_equal_types_are_cut_out():
    assert ranges(offsets("0-11 ACCEPT; 12-22 REJECT")) == [(0, 11, [1]), (12, 22, [3])]
    mixed = offsets(
        "0-9 ACCEPT; 10 REJECT; 11 ACCEPT; 12 RELEASE; 13 GAP; 14-24 ACCEPT; 25 REJECT; 26 RELEASE"
    )
    assert ranges(mixed) == [
        (0, 13, [1] * 10 + [3, 1, 2, 0]),
        (14, 24, [1]),
        (25, 26, [3, 2]),
    ]


def test_holes_part_ranges():
    assert ranges(offsets("0-1 ACCEPT; 3-4 ACCEPT")) == [(0, 1, [1]), (3, 4, [1])]


def test_any_types_come_back_as_they_were():
    seed = 20260101
    chance = random.Random(seed)
    for _ in range(300):
        picked = chance.sample(range(80), chance.randrange(60))
        types = {offset: chance.choice([A.ACCEPT, A.ACCEPT, A.RELEASE, A.GAP]) for offset in picked}
        back = {}
        last = -1
        for first, end, kinds in ranges(types):
            assert first > last, seed
            assert len(kinds) in (1, end - first + 1), seed
            last = end
            for position, offset in enumerate(range(first, end + 1)):
                back[offset] = kinds[position] if len(kinds) > 1 else kinds[0]
        assert back == {k: int(v) for k, v in types.items()}, seed


def test_a_release_of_unseen_records_names_the_delivery_that_it_ends():
    batches = encode_unseen({7: 2, 5: 1, 6: 1, 9: 2})  # spec HBK-7
    assert [(b.first_offset, b.last_offset, b.delivery_count) for b in batches] == [
        (5, 6, 1),
        (7, 7, 2),
        (9, 9, 2),
    ]
    assert all(b.uncounted and list(b.acknowledge_types) == [2] for b in batches)


def test_releases_with_terms_of_their_own_are_ranges_of_their_own():
    types = offsets("0-1 ACCEPT; 2-6 RELEASE; 7 ACCEPT; 9-10 RELEASE")
    terms = {
        3: ReleaseTerms(50),
        4: ReleaseTerms(50),
        5: ReleaseTerms(0, 2),
        9: ReleaseTerms(50),
        10: ReleaseTerms(60),
    }
    made = encode_types(types, terms)
    assert [(b.first_offset, b.last_offset, list(b.acknowledge_types)) for b in made] == [
        (0, 2, [1, 1, 2]),
        (3, 4, [2]),
        (5, 5, [2]),
        (6, 7, [2, 1]),
        (9, 9, [2]),
        (10, 10, [2]),
    ]
    delays = [b.release_delay_ms if b.HasField("release_delay_ms") else None for b in made]
    assert delays == [None, 50, 0, None, 50, 60]
    assert [(b.uncounted, b.delivery_count) for b in made] == [
        (False, 0), (False, 0), (True, 2), (False, 0), (False, 0), (False, 0),
    ]  # fmt: skip


def test_one_type_of_ranges_is_what_a_type_for_each_offset_is():
    chance = random.Random(3)
    for _ in range(300):
        marks = sorted(chance.sample(range(60), chance.choice((2, 4, 8))))
        runs = [range(*pair) for pair in zip(marks[::2], marks[1::2], strict=True)]
        uniform = UniformTypes(A.ACCEPT, runs)
        plain = {offset: A.ACCEPT for run in runs for offset in run}
        assert uniform == plain
        assert (len(uniform), span_of(uniform)) == (len(plain), span_of(plain))
        assert ranges(uniform) == ranges(plain)
        assert ranges({offset: uniform[offset] for offset in uniform}) == ranges(plain)
        with pytest.raises(KeyError):
            _ = uniform[60]
    assert "ACCEPT" in repr(uniform)


def test_ranges_that_touch_are_one_and_those_out_of_order_are_put_in_order():
    """Base offsets are not under the checksum, so damaged batches may say anything."""
    assert runs_of([3, 4, 5]) == [range(3, 6)]
    assert runs_of([3, 5, 6]) == [range(3, 4), range(5, 7)]
    assert runs_of([3, 1, 5]) == [range(1, 2), range(3, 4), range(5, 6)]
    twice = UniformTypes(A.GAP, [range(5, 9), range(1, 3), range(6, 10)])
    assert list(twice) == [1, 2, 5, 6, 7, 8, 9]
    behind = UniformTypes(A.GAP, [range(10, 12)])
    assert twice.with_those_behind(behind).runs == [range(1, 3), range(5, 12)]
    assert behind.with_those_behind(twice) is None
    assert behind.with_those_behind({20: A.GAP}) is None
    assert behind.with_those_behind(UniformTypes(A.ACCEPT, [range(20, 21)])) is None
