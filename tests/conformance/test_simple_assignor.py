"""Section N: the simple assignor."""

from math import ceil

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MemberId, TopicId
from sharemesh.domain.share_group import assignor
from sharemesh.domain.share_group.assignor import NOTHING, AssignorMode, Subscriber, assign
from tests.conformance.scenario import scenario

T1, T2, T3, T4 = (TopicId(bytes([number]) * 16) for number in (1, 2, 3, 4))
COUNTS = {T1: 3, T2: 3, T3: 2}


def members(before=None, /, **wishes):
    before = before or {}
    return {
        MemberId(name): Subscriber(frozenset(topics), before.get(MemberId(name), NOTHING))
        for name, topics in wishes.items()
    }


def everything(counts):
    return {topic_id: range(count) for topic_id, count in counts.items()}


def size(assignment):
    return sum(map(len, assignment.values()))


def shares(result):
    count = {}
    for assignment in result.values():
        for topic_id, numbers in assignment.items():
            for number in numbers:
                count[topic_id, number] = count.get((topic_id, number), 0) + 1
    return count


@scenario("ASG-S01")
def test_name():
    assert assignor.NAME == "simple"


@scenario("ASG-S02")
def test_nothing_to_share_and_unknown_topics():
    assert assign({}, COUNTS, everything(COUNTS)) == {}
    assert size(assign(members(A=[]), COUNTS, everything(COUNTS))[MemberId("A")]) == 0
    with pytest.raises(RefusedError) as caught:
        assign(members(A=[T4]), COUNTS, everything(COUNTS))
    assert caught.value.error is ErrorCode.UNKNOWN_SERVER_ERROR


@scenario("ASG-S03")
def test_two_members_two_topics():
    counts = {T1: 3, T3: 2}
    result = assign(members(A=[T1, T3], B=[T1, T3]), counts, everything(counts))
    assert shares(result) == {
        (T1, 0): 1, (T1, 1): 1, (T1, 2): 1, (T3, 0): 1, (T3, 1): 1
    }  # fmt: skip
    assert sorted(map(size, result.values())) == [2, 3]


@scenario("ASG-S04")
def test_only_what_is_assignable():
    both = members(A=[T1, T3], B=[T1, T3])
    result = assign(both, COUNTS, {T1: {0, 1, 2}, T3: {0, 1}})
    assert len(shares(result)) == 5
    result = assign(both, COUNTS, {T1: {0, 1, 2}})
    assert set(shares(result)) == {(T1, 0), (T1, 1), (T1, 2)}


@scenario("ASG-S05")
def test_heterogeneous():
    wishes = {"A": [T1, T2], "B": [T3], "C": [T2, T3]}
    result = assign(members(**wishes), COUNTS, everything(COUNTS))
    assert len(shares(result)) == 8
    assert all(set(result[MemberId(name)]) <= set(topics) for name, topics in wishes.items())


@scenario("ASG-S06")
def test_heterogeneous_with_a_topic_that_is_not_assignable():
    three = members(A=[T1, T2], B=[T3], C=[T2, T3])
    result = assign(three, COUNTS, everything({T1: 3, T2: 3}))
    assert result == {"A": {T1: (0, 1, 2), T2: (0, 2)}, "B": {}, "C": {T2: (1,)}}


@scenario("ASG-S07")
def test_a_member_without_topics():
    counts = {T1: 3, T2: 2}
    result = assign(members(A=[T1, T2], B=[]), counts, everything(counts))
    assert result == {"A": {T1: (0, 1, 2), T2: (0, 1)}, "B": {}}


@scenario("ASG-S08")
def test_members_come_and_go_one_at_a_time():
    before = {}
    for count in [*range(1, 102), *range(100, 0, -1)]:
        wishes = {f"m{number:03}": [T1] for number in range(1, count + 1)}
        before = assign(members(before, **wishes), {T1: 24}, {T1: range(24)})
        shared = shares(before)
        assert set(shared) == {(T1, number) for number in range(24)}
        assert max(shared.values()) <= ceil(count / 24)
        if count <= 24:
            assert set(shared.values()) == {1}
            sizes = [size(each) for each in before.values()]
            assert max(sizes) - min(sizes) <= 1


@scenario("ASG-S11")
def test_assign_all():
    counts = {T1: 3, T3: 2}
    result = assign(
        members(A=[T1, T3], B=[T1, T3]), counts, everything(counts), AssignorMode.ASSIGN_ALL
    )
    assert result == {name: {T1: (0, 1, 2), T3: (0, 1)} for name in ("A", "B")}
