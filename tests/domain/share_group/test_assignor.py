"""The simple assignor's rules (spec ASG)."""

from math import ceil
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MemberId, TopicId
from sharemesh.domain.share_group.assignor import (
    NOTHING,
    Assignment,
    AssignorMode,
    Subscriber,
    assign,
)

T1, T2, T3 = (TopicId(bytes([number]) * 16) for number in (1, 2, 3))


def member(name):
    return MemberId(name)


def subscribers(wishes, held=None):
    held = held or {}
    return {
        member(name): Subscriber(frozenset(topics), held.get(name, NOTHING))
        for name, topics in wishes.items()
    }


def all_of(counts):
    return {topic_id: range(count) for topic_id, count in counts.items()}


def size(assignment: Assignment) -> int:
    return sum(len(numbers) for numbers in assignment.values())


def holders(result):
    count: dict[tuple[TopicId, int], int] = {}
    for assignment in result.values():
        for topic_id, numbers in assignment.items():
            for number in numbers:
                count[topic_id, number] = count.get((topic_id, number), 0) + 1
    return count


def test_no_members_or_no_topics_gives_nothing():
    assert assign({}, {T1: 3}, all_of({T1: 3})) == {}
    assert assign(subscribers({"a": []}), {T1: 3}, all_of({T1: 3})) == {"a": {}}


def test_unknown_topic_id_is_an_error():
    with pytest.raises(RefusedError) as caught:
        assign(subscribers({"a": [T2]}), {T1: 3}, all_of({T1: 3}))
    assert caught.value.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_two_members_two_topics_are_balanced():
    counts = {T1: 3, T3: 2}
    result = assign(subscribers({"a": [T1, T3], "b": [T1, T3]}), counts, all_of(counts))
    assert set(holders(result).values()) == {1}
    assert len(holders(result)) == 5
    assert sorted(map(size, result.values())) == [2, 3]


def test_only_assignable_partitions_are_given():
    members = subscribers({"a": [T1, T3], "b": [T1, T3]})
    result = assign(members, {T1: 3, T3: 2}, {T1: [0, 1, 2]})
    assert set(holders(result)) == {(T1, 0), (T1, 1), (T1, 2)}


def test_heterogeneous_members_get_only_what_they_subscribe_to():
    counts = {T1: 3, T2: 3, T3: 2}
    wishes = {"a": [T1, T2], "b": [T3], "c": [T2, T3]}
    result = assign(subscribers(wishes), counts, all_of(counts))
    assert len(holders(result)) == 8
    for name, topics in wishes.items():
        assert set(result[member(name)]) <= set(topics)


def test_heterogeneous_with_a_topic_that_is_not_assignable():
    wishes = {"a": [T1, T2], "b": [T3], "c": [T2, T3]}
    result = assign(subscribers(wishes), {T1: 3, T2: 3, T3: 2}, all_of({T1: 3, T2: 3}))
    assert result == {"a": {T1: (0, 1, 2), T2: (0, 2)}, "b": {}, "c": {T2: (1,)}}


def test_assign_all_gives_everything_to_everyone():
    counts = {T1: 3, T3: 2}
    result = assign(
        subscribers({"a": [T1, T3], "b": [T1, T3]}), counts, all_of(counts), AssignorMode.ASSIGN_ALL
    )
    assert result["a"] == result["b"] == {T1: (0, 1, 2), T3: (0, 1)}


def test_members_added_and_removed_one_at_a_time():
    """ASG-6, ASG-8."""
    held: dict[str, Assignment] = {}
    sizes = [*range(1, 102), *range(100, 0, -1)]
    for count in sizes:
        wishes = {f"m{number:03}": [T1] for number in range(count)}
        held = assign(subscribers(wishes, held), {T1: 24}, all_of({T1: 24}))
        shared = holders(held)
        assert len(shared) == 24
        assert max(shared.values()) <= ceil(count / 24)
        if count <= 24:
            member_sizes = [size(each) for each in held.values()]
            assert max(member_sizes) - min(member_sizes) <= 1


names = st.integers(1, 40)
topic_sets = st.dictionaries(
    st.sampled_from([T1, T2, T3]), st.integers(0, 30), min_size=1, max_size=3
)


@st.composite
def worlds(draw):
    counts = draw(topic_sets)
    topics = sorted(counts)
    wishes = {
        f"m{number:02}": draw(st.sets(st.sampled_from(topics))) for number in range(draw(names))
    }
    if draw(st.booleans()):
        wishes = {name: set(topics) for name in wishes}
    assignable = {
        topic_id: sorted(draw(st.sets(st.integers(0, count - 1)))) if count else []
        for topic_id, count in counts.items()
    }
    return counts, wishes, assignable


@settings(max_examples=120, deadline=None)
@given(worlds(), st.randoms(use_true_random=False))
def test_every_assignable_partition_has_a_subscriber_and_members_balance(world, chance):
    counts, wishes, assignable = world
    held = {
        name: {T1: tuple(sorted(chance.sample(range(30), chance.randint(0, 5))))} for name in wishes
    }
    result = assign(subscribers(wishes, held), counts, assignable)
    shared = holders(result)
    for topic_id, numbers in assignable.items():
        interested = [name for name, topics in wishes.items() if topic_id in topics]
        for number in numbers:
            assert bool(shared.get((topic_id, number))) == bool(interested)
    for name, assignment in result.items():
        assert set(assignment) <= wishes[name]
        for topic_id, numbers in assignment.items():
            assert set(numbers) <= set(assignable[topic_id])
            assert list(numbers) == sorted(set(numbers))
    if len({frozenset(topics) for topics in wishes.values()}) == 1:
        _check_homogeneous(result, shared, sum(map(len, assignable.values())))


def _check_homogeneous(result, shared, partitions):
    if shared:
        assert max(shared.values()) <= ceil(len(result) / partitions)
        if len(result) <= partitions:
            sizes = [size(each) for each in result.values()]
            assert max(sizes) - min(sizes) <= 1


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_assigning_again_changes_nothing(world):
    counts, wishes, assignable = world
    first = assign(subscribers(wishes), counts, assignable)
    assert assign(subscribers(wishes, first), counts, assignable) == first


def test_a_join_moves_few_partitions():
    """ASG-8."""
    wishes = {f"m{number:02}": [T1] for number in range(10)}
    before = assign(subscribers(wishes), {T1: 100}, all_of({T1: 100}))
    after = assign(subscribers({**wishes, "m99": [T1]}, before), {T1: 100}, all_of({T1: 100}))
    kept = sum(len(set(before[name][T1]) & set(after[name][T1])) for name in before)
    assert kept >= 90


def processor_seconds(members: int, partitions: int) -> tuple[float, float]:
    """Return what a first assignment costs, and one when one more member joined."""
    counts = {T1: partitions}
    wishes = {f"member-{number:05}": [T1] for number in range(members)}
    first_s, again_s = [], []
    for _ in range(3):
        began_s = process_time()
        held = assign(subscribers(wishes), counts, all_of(counts))
        first_s.append(process_time() - began_s)
        began_s = process_time()
        assign(subscribers({**wishes, "one-more": [T1]}, held), counts, all_of(counts))
        again_s.append(process_time() - began_s)
    return min(first_s), min(again_s)


def test_the_cost_grows_with_members_and_partitions_and_not_with_their_product():
    small, large = processor_seconds(250, 64), processor_seconds(1_000, 256)
    for part, of_small_s, of_large_s in zip(("first", "join"), small, large, strict=True):
        assert of_large_s < 10 * of_small_s, (part, of_small_s, of_large_s)
