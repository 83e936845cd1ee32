"""Packed state batches are the batches that ``combine`` gives, whatever is asked of them."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.codec.packed_batches import decode_packed, encode_packed
from sharemesh.domain import packed_batches
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.packed_batches import (
    PACKED_MIN,
    PackedBatches,
    columns_of,
    combined,
    packed,
    touching,
)
from sharemesh.domain.state_batch import StateBatch, combine
from sharemesh.v1.common_pb2 import PackedStateBatches


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(packed_batches, "BLOCK_MAX", 12)
    monkeypatch.setattr(packed_batches, "_BLOCK_MIN", 4)
    monkeypatch.setattr(packed_batches, "_NEAR", 2)


@st.composite
def batches(draw):
    first = draw(st.integers(0, 200))
    state = draw(st.sampled_from([DeliveryState.AVAILABLE, DeliveryState.ARCHIVED]))
    later = draw(st.sampled_from([0, 0, 7, 9])) if state is DeliveryState.AVAILABLE else 0
    last = first + draw(st.sampled_from([0, 0, 0, 1, 9]))
    return StateBatch(first, last, state, draw(st.integers(0, 2)), Cause.REJECT, later)


several = st.lists(batches(), max_size=6)
offsets = st.integers(-1, 220)


def packed_of(several_batches):
    return PackedBatches.of(columns_of(several_batches))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(batches(), max_size=120),
    st.lists(st.tuples(several, offsets), max_size=4),
    offsets,
    st.integers(1, 30),
)
def test_win_16_they_combine_as_others_do(stored, writes, offset, size):
    """WIN-16, CMB-1, CMB-2, CMB-3."""
    plain = combine(stored, (), start_offset=-1)
    made = packed_of(plain)
    for new, start_offset in writes:
        before, was = made, tuple(made)
        plain = combine(plain, new, start_offset=start_offset)
        made = made.combined(new, start_offset)
        assert made == plain == made
        assert plain == made
        assert tuple(before) == was, "what others hold does not change"
    assert len(made) == len(plain)
    assert [batch.cause for batch in made] == [batch.cause for batch in plain]
    last = offset + size
    expected = [each for each in plain if each.last_offset >= offset and each.first_offset <= last]
    assert list(touching(made, offset, last)) == expected
    assert list(touching(plain, offset, last)) == expected
    assert tuple(PackedBatches.joined(made.parts(size))) == plain
    assert all(len(part) <= size for part in made.parts(size))
    found, following = [], 0
    while following is not None:
        part, following = made.part_from(following, size)
        found += part
    assert tuple(found) == plain
    assert decode_packed(encode_packed(made)) == plain


def test_single_batches_and_slices_are_found():
    plain = [StateBatch(2 * n, 2 * n, DeliveryState.ACKNOWLEDGED, 1) for n in range(100)]
    made = packed_of(plain)
    assert made[0] == plain[0]
    assert made[-1] == plain[-1]
    assert made[40] == plain[40]
    assert made[95:] == tuple(plain[95:])
    with pytest.raises(IndexError):
        made[100]
    assert made != plain, "a list is another thing"
    assert made != tuple(plain[1:])


def alternating(count):
    """Return single batches that never merge, in blocks of nine."""
    states = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
    return [StateBatch(n, n, states[n % 2], 1) for n in range(count)]


def test_win_16_a_block_of_which_little_is_left_joins_the_one_before():
    plain = tuple(alternating(24))
    made = packed_of(plain)
    ended = [StateBatch(9, 22, DeliveryState.ARCHIVED, 2)]
    assert tuple(made.combined(ended, -1)) == combine(plain, ended, start_offset=-1)
    assert len(made._blocks) == 3
    assert len(made.combined(ended, -1)._blocks) == 1


def test_win_15_a_part_that_ends_with_a_block_says_where_the_next_begins():
    plain = alternating(24)
    made = packed_of(plain)
    size = len(made._blocks[0].lasts)
    part, following = made.part_from(0, size)
    assert (tuple(part), following) == (tuple(plain[:size]), size)
    part, following = made.part_from(following, 100)
    assert (tuple(part), following) == (tuple(plain[size:]), None)


def test_not_befores_change_and_nothing_else_does():
    plain = [StateBatch(n, n, DeliveryState.AVAILABLE, 1 + n % 2) for n in range(20)]
    assert tuple(packed_of(plain).with_not_befores(lambda at_ms: at_ms + 1)) == tuple(plain)
    plain[3] = plain[3]._replace(not_before_ms=50)
    changed = packed_of(plain).with_not_befores(lambda at_ms: at_ms and at_ms - 20)
    plain[3] = plain[3]._replace(not_before_ms=30)
    assert tuple(changed) == tuple(plain)


def test_only_many_batches_are_packed():
    many = [StateBatch(2 * n, 2 * n, DeliveryState.ACKNOWLEDGED, 1) for n in range(PACKED_MIN)]
    assert isinstance(packed(many), PackedBatches)
    assert isinstance(packed(many[1:]), tuple)
    assert isinstance(packed([*many[::-1]]), tuple), "not as this version writes them"
    made = combined(many, (), start_offset=-1)
    fewer = combined(made, (), start_offset=PACKED_MIN)
    assert isinstance(fewer, PackedBatches)
    assert len(fewer) == PACKED_MIN // 2
    assert isinstance(combined(fewer, (), start_offset=PACKED_MIN + 1), tuple)


def test_columns_that_do_not_fit_are_refused():
    many = [
        StateBatch(2 * n, 2 * n, DeliveryState.AVAILABLE, 1, Cause.RELEASE, 5) for n in range(3)
    ]
    good = encode_packed(packed_of(many))
    for spoil in (
        lambda message: message.gaps.append(1),
        lambda message: message.not_befores.append(1),
        lambda message: message.gaps.__setitem__(1, 0),
        lambda message: message.lengths.__setitem__(0, 2**63 - 1),
    ):
        bad = PackedStateBatches()
        bad.CopyFrom(good)
        spoil(bad)
        with pytest.raises(ValueError, match=r"columns|column|order|large"):
            decode_packed(bad)


def test_win_16_a_batch_takes_at_most_64_bytes(monkeypatch):
    """WIN-16."""
    monkeypatch.setattr(packed_batches, "BLOCK_MAX", 512)
    made = packed_of(
        [
            StateBatch(2 * n, 2 * n, DeliveryState.AVAILABLE, 1, not_before_ms=9)
            for n in range(9_000)
        ]
    )
    size = sum(sys.getsizeof(block) + sum(map(sys.getsizeof, block)) for block in made._blocks)
    assert size / 9_000 <= 64
