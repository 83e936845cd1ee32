"""What a topic may be called and have."""

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MAX_TOPIC_NAME_CHARS
from sharemesh.domain.topics import (
    CONFIG_ENTRIES_MAX,
    PARTITIONS_MAX,
    check_partitions,
    check_topic_configs,
    check_topic_name,
    collision,
)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * (MAX_TOPIC_NAME_CHARS + 1)])
def test_a_name_that_metrics_and_files_cannot_hold_is_refused(name):
    with pytest.raises(RefusedError) as caught:
        check_topic_name(name)
    assert caught.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(caught.value.message) < 200
    assert check_topic_name("x" * MAX_TOPIC_NAME_CHARS) == "x" * MAX_TOPIC_NAME_CHARS


def test_names_that_differ_only_in_dots_and_underscores_collide():
    others = {"a.b": None, "ab": None}
    assert collision("a_b", others) == "a.b"
    assert collision("ab", others) is None
    assert collision("a.c", others) is None


@pytest.mark.parametrize(("asked", "existing"), [(0, 0), (4, 4), (PARTITIONS_MAX + 1, 0)])
def test_a_number_of_partitions_that_is_not_more_or_too_many_is_refused(asked, existing):
    with pytest.raises(RefusedError) as caught:
        check_partitions(asked, existing=existing)
    assert caught.value.error is ErrorCode.INVALID_PARTITIONS
    assert check_partitions(PARTITIONS_MAX, existing=existing) == PARTITIONS_MAX


def test_settings_of_a_topic_are_checked_and_taken_back():
    stored = check_topic_configs({"retention.ms": " 1000 "})
    assert stored == {"retention.ms": "1000"}
    assert check_topic_configs({"retention.ms": None}, stored) == {}
    for wrong in (
        {"retention.ms": "soon"},
        {f"x{number}": "1" for number in range(CONFIG_ENTRIES_MAX + 1)},
    ):
        with pytest.raises(RefusedError) as caught:
            check_topic_configs(wrong)
        assert caught.value.error is ErrorCode.INVALID_CONFIG
