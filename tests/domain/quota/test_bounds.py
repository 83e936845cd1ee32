"""Precedence of quotas (spec QUO-2)."""

import pytest

from sharemesh.domain.quota.bounds import QuotaBounds
from sharemesh.domain.quota.names import QuotaName
from tests.domain.quota.entities import group, user

PRODUCED, RECORDS = QuotaName.PRODUCER_BYTE_RATE, QuotaName.RECORD_RATE


def bounds_of(stored):
    bounds = QuotaBounds()
    for entity, values in stored:
        bounds.put(entity, values)
    return bounds


@pytest.mark.parametrize(
    ("stored", "limit"),
    [
        ([], None),
        ([(user("User:ann"), {PRODUCED: 5.0})], 5.0),
        ([(user(), {PRODUCED: 7.0})], 7.0),
        ([(user(), {PRODUCED: 7.0}), (user("User:ann"), {PRODUCED: 5.0})], 5.0),
        ([(user("User:ann"), {PRODUCED: 9.0}), (user(), {PRODUCED: 7.0})], 9.0),
        # The default is looked for name by name.
        ([(user(), {PRODUCED: 7.0}), (user("User:ann"), {QuotaName.STREAMS: 1.0})], 7.0),
        ([(user(), {QuotaName.STREAMS: 1.0})], None),
        ([(user("User:bob"), {PRODUCED: 5.0})], None),
        ([(group(), {RECORDS: 7.0}), (group("User:ann"), {RECORDS: 7.0})], None),
    ],
)
def test_the_own_value_goes_before_the_default_quo_2(stored, limit):
    assert bounds_of(stored).limit(PRODUCED, "User:ann") == limit


def test_groups_have_values_and_a_default_of_their_own_quo_2():
    bounds = bounds_of([(group("orders"), {RECORDS: 5.0}), (group(), {RECORDS: 7.0})])
    assert [bounds.limit(RECORDS, name) for name in ("orders", "others")] == [5.0, 7.0]


def test_what_is_put_replaces_what_was_there_and_nothing_removes_it():
    bounds = bounds_of([(user("User:ann"), {PRODUCED: 5.0, QuotaName.STREAMS: 1.0})])
    bounds.put(user("User:ann"), {PRODUCED: 6.0})
    assert bounds.limit(PRODUCED, "User:ann") == 6.0
    assert bounds.limit(QuotaName.STREAMS, "User:ann") is None
    bounds.put(user("User:ann"), {})
    bounds.put(user(), {})
    assert bounds.limit(PRODUCED, "User:ann") is None


def test_own_values_are_told_by_their_names():
    bounds = bounds_of([(user(), {PRODUCED: 7.0}), (user("User:ann"), {PRODUCED: 5.0})])
    assert bounds.values_of(user()) == {"producer_byte_rate": 7.0}
    assert bounds.values_of(user("User:ann")) == {"producer_byte_rate": 5.0}
    assert bounds.values_of(group()) == {}
