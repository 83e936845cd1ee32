"""What may be stored as a quota, of whom (spec QUO-1)."""

import math

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS, MAX_PRINCIPAL_CHARS
from sharemesh.domain.quota.names import EntityType, QuotaName
from sharemesh.domain.quota.values import COUNTS, check_entity, check_value, quota_named
from tests.domain.quota.entities import group, user


def test_each_name_binds_one_type_of_entity_quo_1():
    of_groups = [name for name in QuotaName if name.entity_type is EntityType.GROUP]
    assert of_groups == [QuotaName.RECORD_RATE]
    for name in QuotaName:
        assert quota_named(name.value, name.entity_type) is name


@pytest.mark.parametrize(
    ("text", "entity_type", "words"),
    [
        ("record_rate", EntityType.USER, "binds a group, not a user; a user has producer_byte"),
        ("streams", EntityType.GROUP, "binds a user, not a group; a group has record_rate"),
        ("producer_bite_rate", EntityType.USER, "did you mean producer_byte_rate?"),
        ("", EntityType.USER, "unknown quota ''; a user has"),
        ("x" * 10_000, EntityType.GROUP, "unknown quota 'xxx"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_quo_1(text, entity_type, words):
    with pytest.raises(RefusedError, match=words.replace("?", r"\?")) as refused:
        quota_named(text, entity_type)
    assert refused.value.error is ErrorCode.INVALID_REQUEST
    assert len(refused.value.message) < 500


@pytest.mark.parametrize("name", QuotaName)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0, 1.1e15])
def test_values_that_bound_nothing_or_everything_are_refused_quo_1(name, value):
    with pytest.raises(RefusedError, match="above 0") as refused:
        check_value(name, value)
    assert refused.value.error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", QuotaName)
def test_counts_are_whole_numbers_and_rates_need_not_be_quo_1(name):
    assert check_value(name, 1.0) == 1.0
    assert check_value(name, 1e15) == 1e15
    if name in COUNTS:
        with pytest.raises(RefusedError, match=f"{name.value}=0.5: it counts things"):
            check_value(name, 0.5)
    else:
        assert check_value(name, 0.5) == 0.5


@pytest.mark.parametrize(
    "entity",
    [
        user(),
        group(),
        user("User:jane"),
        user("User:CN=jane,O=a/b"),
        user("User:" + "x" * (MAX_PRINCIPAL_CHARS - 5)),
        group("User:*"),
        group("x" * MAX_GROUP_ID_CHARS),
    ],
)
def test_principals_groups_and_defaults_may_have_quotas_quo_1(entity):
    assert check_entity(entity) is entity


@pytest.mark.parametrize(
    ("entity", "error"),
    [
        (user(""), ErrorCode.INVALID_REQUEST),
        (user("jane"), ErrorCode.INVALID_REQUEST),
        (user("User:"), ErrorCode.INVALID_REQUEST),
        (user("User:*"), ErrorCode.INVALID_REQUEST),
        (user("Node:sharemesh"), ErrorCode.INVALID_REQUEST),
        (user("User:" + "x" * MAX_PRINCIPAL_CHARS), ErrorCode.INVALID_REQUEST),
        (user("User:a\nb"), ErrorCode.INVALID_REQUEST),
        (group(""), ErrorCode.INVALID_GROUP_ID),
        (group("x" * (MAX_GROUP_ID_CHARS + 1)), ErrorCode.INVALID_GROUP_ID),
        (group("a\x1b[2Jb"), ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_who_cannot_exist_has_no_quotas_quo_1(entity, error):
    with pytest.raises(RefusedError) as refused:
        check_entity(entity)
    assert refused.value.error is error
    assert len(refused.value.message) < 500
