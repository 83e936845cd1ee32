"""One policy says of each error code what to retry, what to look up again and what ends."""

import ast
import inspect

import pytest

from sharemesh.domain.errors import (
    Ends,
    ErrorCode,
    ErrorPolicy,
    Refresh,
    coordinator_moved,
    leader_moved,
    policy_of,
)


def test_every_code_states_its_policy():
    (codes,) = ast.parse(inspect.getsource(ErrorCode)).body
    assert isinstance(codes, ast.ClassDef)
    stated = [
        ast.unparse(each.targets[0])
        for each in codes.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Tuple)
    ]
    assert stated == list(ErrorCode.__members__)


@pytest.mark.parametrize("code", ErrorCode)
def test_what_is_looked_up_again_is_asked_again(code):
    assert policy_of(code).retriable or policy_of(code).refresh is Refresh.NOTHING


@pytest.mark.parametrize("code", ErrorCode)
def test_what_ends_something_is_not_asked_again_as_it_is(code):
    assert not policy_of(code).retriable or policy_of(code).ends is Ends.NOTHING


def test_a_number_of_a_later_version_is_final():
    assert policy_of(4_711) == ErrorPolicy(retriable=False)


def test_a_coordinator_is_looked_up_again_when_it_moved_loads_or_is_gone():
    assert {code.name for code in ErrorCode if coordinator_moved(code)} == {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    }


def test_a_leader_is_looked_up_again_when_it_moved_or_knows_the_partition_no_more():
    assert {code.name for code in ErrorCode if leader_moved(code)} == {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "KAFKA_STORAGE_ERROR",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",
    }


def test_a_member_joins_again_when_the_coordinator_does_not_know_it_as_it_is():
    ending = {code.name for code in ErrorCode if policy_of(code).ends is Ends.MEMBERSHIP}
    assert ending == {"UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"}
