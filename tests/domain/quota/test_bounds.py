"""Names of quotas and precedence of their values (spec QUO-1 to QUO-3)."""

import pytest

from sharemesh.cluster.quota_table import Unlimited
from sharemesh.domain.quota.bounds import QuotaBounds
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName

PRODUCED, RECORDS = QuotaName.PRODUCER_BYTE_RATE, QuotaName.RECORD_RATE
NODE, ROOT = "Node:sharemesh", "User:root"


def user(name=None):
    return QuotaEntity(EntityType.USER, name)


def group(name=None):
    return QuotaEntity(EntityType.GROUP, name)


def test_each_name_binds_one_type_of_entity():
    """QUO-1: only the rate of records binds groups."""
    of_groups = [name for name in QuotaName if name.entity_type is EntityType.GROUP]
    assert of_groups == [RECORDS]


@pytest.mark.parametrize(
    ("stored", "limit"),
    [
        ([], None),
        ([(user("User:ann"), {PRODUCED: 5.0})], 5.0),
        ([(user(), {PRODUCED: 7.0})], 7.0),
        ([(user(), {PRODUCED: 7.0}), (user("User:ann"), {PRODUCED: 5.0})], 5.0),
        ([(user(), {PRODUCED: 7.0}), (user("User:ann"), {PRODUCED: 9.0})], 9.0),
        # The default is looked for name by name.
        ([(user(), {PRODUCED: 7.0}), (user("User:ann"), {QuotaName.STREAMS: 1.0})], 7.0),
        ([(user("User:bob"), {PRODUCED: 5.0})], None),
        ([(group(), {RECORDS: 7.0}), (group("User:ann"), {RECORDS: 7.0})], None),
    ],
)
def test_the_own_value_goes_before_the_default(stored, limit):
    """QUO-2."""
    assert QuotaBounds(stored).limit(PRODUCED, "User:ann") == limit


def test_groups_have_values_and_a_default_of_their_own():
    """QUO-2."""
    bounds = QuotaBounds([(group("orders"), {RECORDS: 5.0}), (group(), {RECORDS: 7.0})])
    assert [bounds.limit(RECORDS, name) for name in ("orders", "others")] == [5.0, 7.0]


def test_the_clusters_processes_and_super_users_have_no_bound():
    """QUO-3: also where a value is stored for them; a group may bear their name."""
    above = frozenset({NODE, ROOT})
    stored = [
        (user(), {PRODUCED: 7.0}),
        (user(ROOT), {PRODUCED: 5.0}),
        (group(), {RECORDS: 3.0}),
    ]
    bounds = QuotaBounds(stored, unbounded=above)
    assert [bounds.limit(PRODUCED, each) for each in (NODE, ROOT)] == [None, None]
    assert bounds.limit(PRODUCED, "User:ann") == 7.0
    assert bounds.limit(RECORDS, ROOT) == 3.0


def test_without_quotas_nothing_binds_anybody():
    quotas = Unlimited()
    assert all(quotas.limit(name, "User:ann") is None for name in QuotaName)
    quotas.on_change(lambda: None)()
