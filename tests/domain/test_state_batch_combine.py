"""Spec 18: how persisted batches combine, against a naive model that knows offsets only."""

import itertools
import random

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.state_batch import StateBatch, combine


def batch(first, last, state, count, cause=Cause.UNSPECIFIED, not_before_ms=0):
    return StateBatch(first, last, DeliveryState(state), count, cause, not_before_ms)


def naive(stored, new, start_offset):
    best = {}
    for item in [*stored, *new]:
        for offset in range(item.first_offset, item.last_offset + 1):
            if start_offset == -1 or offset >= start_offset:
                key = (item.delivery_count, item.delivery_state, item.not_before_ms)
                best[offset] = max(best.get(offset, key), key)
    return best


def spread(batches):
    return {
        offset: (item.delivery_count, item.delivery_state, item.not_before_ms)
        for item in batches
        for offset in range(item.first_offset, item.last_offset + 1)
    }


def random_batches(rng, size):
    firsts = [rng.randrange(0, 40) for _ in range(size)]
    return [random_batch(rng, first, rng.choice([0, 2, 4])) for first in firsts]


def random_batch(rng, first, state):
    made = batch(first, first + rng.randrange(0, 12), state, rng.randrange(0, 4))
    return made if state else made._replace(not_before_ms=rng.choice([0, 0, 5, 6]))


def test_rty_7_of_equals_the_later_not_before_wins_and_different_ones_do_not_merge():
    stored = [batch(0, 9, 0, 1, not_before_ms=50)]
    assert combine(stored, [batch(3, 4, 0, 1, not_before_ms=60)], start_offset=-1) == (
        batch(0, 2, 0, 1, not_before_ms=50),
        batch(3, 4, 0, 1, not_before_ms=60),
        batch(5, 9, 0, 1, not_before_ms=50),
    )
    assert combine(stored, [batch(0, 9, 0, 1)], start_offset=4) == (
        batch(4, 9, 0, 1, not_before_ms=50),
    )
    finished = [batch(0, 9, 2, 1)]
    assert combine(stored, finished, start_offset=-1) == tuple(finished)


def test_random_lists_agree_with_the_naive_model_and_come_out_canonical():
    for seed in range(3000):
        rng = random.Random(seed)
        stored = combine(random_batches(rng, rng.randrange(0, 6)), (), start_offset=-1)
        new = random_batches(rng, rng.randrange(0, 6))
        start = rng.choice([-1, rng.randrange(0, 40)])
        result = combine(stored, new, start_offset=start)
        assert spread(result) == naive(stored, new, start), f"seed {seed}"
        for left, right in itertools.pairwise(result):
            assert left.last_offset < right.first_offset, f"seed {seed}"
            assert not (
                left.last_offset + 1 == right.first_offset
                and (left.delivery_state, left.delivery_count, left.not_before_ms)
                == (right.delivery_state, right.delivery_count, right.not_before_ms)
            ), f"seed {seed}"


def test_none_counts_as_empty():
    assert combine(None, None, start_offset=-1) == ()
    assert combine(None, [batch(1, 2, 0, 1)], start_offset=-1) == (batch(1, 2, 0, 1),)


def test_the_cause_survives_where_the_merged_pieces_agree_and_takes_no_part_otherwise():
    accept = batch(0, 4, 2, 1, Cause.ACCEPT)
    assert combine([accept], [batch(5, 9, 2, 1, Cause.ACCEPT)], start_offset=-1)[0].cause is (
        Cause.ACCEPT
    )
    (merged,) = combine(
        [batch(0, 4, 4, 1, Cause.GAP)], [batch(5, 9, 4, 1, Cause.REJECT)], start_offset=-1
    )
    assert merged == batch(0, 9, 4, 1)
    assert merged.cause is Cause.UNSPECIFIED


def test_exp_6_what_is_written_keeps_causes_apart_and_a_state_does_not():
    limit = StateBatch(0, 4, DeliveryState.ARCHIVED, 5, Cause.DELIVERY_LIMIT)
    rejected = StateBatch(5, 9, DeliveryState.ARCHIVED, 5, Cause.REJECT)
    written = combine([rejected, limit], (), start_offset=-1, keep_causes=True)
    assert [each.cause for each in written] == [Cause.DELIVERY_LIMIT, Cause.REJECT]
    assert combine((), written, start_offset=-1) == (StateBatch(0, 9, DeliveryState.ARCHIVED, 5),)
