"""Turns are shared by what they cost, nobody waits for ever, and a turn costs little (FAI-3)."""

import random
from collections import Counter, OrderedDict

import pytest

from sharemesh.domain.fairness.turn_queue import REMEMBERED_MAX, Turn, TurnQueue
from sharemesh.domain.ids import GroupId, TopicId, TopicPartition

QUANTUM = 1_000
DEAREST = 20_000


def at(number):
    return TopicPartition(TopicId(b"t" * 16), number)


def turn(group, cost, partition=0):
    return Turn(GroupId(group), at(partition), cost)


def taken(queue):
    return [queue.take() for _ in range(len(queue))]


def costs(rng, largest):
    while True:
        yield rng.randrange(1, largest + 1)


@pytest.mark.parametrize("seed", range(20))
def test_groups_that_always_wait_use_the_same_whatever_their_turns_cost(seed):
    """FAI-3: also if one has many turns waiting in many share partitions, and others one."""
    print("seed", seed)
    rng = random.Random(seed)
    groups = [f"g{number}" for number in range(rng.randrange(2, 10))]
    of = {group: costs(rng, rng.choice((10, QUANTUM, DEAREST))) for group in groups}
    width = {group: rng.choice((1, 2, 50)) for group in groups}
    queue, used = TurnQueue(QUANTUM), Counter(dict.fromkeys(groups, 0))
    for group in groups:
        for number in range(width[group]):
            queue.add(turn(group, next(of[group]), number))
    for _ in range(5_000):
        one = queue.take()
        used[one.group_id] += one.cost
        queue.add(turn(one.group_id, next(of[one.group_id]), one.partition.partition))
        assert max(used.values()) - min(used.values()) <= 2 * (QUANTUM + DEAREST)


@pytest.mark.parametrize("seed", range(20))
def test_share_partitions_of_a_group_use_the_same(seed):
    """FAI-3, the second level."""
    print("seed", seed)
    rng = random.Random(seed)
    of = [costs(rng, rng.choice((10, QUANTUM, DEAREST))) for _ in range(rng.randrange(2, 10))]
    queue, used = TurnQueue(QUANTUM), Counter(dict.fromkeys(range(len(of)), 0))
    for number, each in enumerate(of):
        queue.add(turn("g", next(each), number))
        queue.add(turn("other", next(each), number))
    for _ in range(5_000):
        one = queue.take()
        number = one.partition.partition
        queue.add(turn(one.group_id, next(of[number]), number))
        if one.group_id == "g":
            used[number] += one.cost
            assert max(used.values()) - min(used.values()) <= 2 * (QUANTUM + DEAREST)


@pytest.mark.parametrize("seed", range(20))
def test_a_turn_waits_for_a_bounded_amount_of_others_work(seed):
    """FAI-4: whoever comes, goes, gives up, and whatever they cost."""
    print("seed", seed)
    rng = random.Random(seed)
    queue, waiting, behind = TurnQueue(QUANTUM), {}, 0
    groups = [f"g{number}" for number in range(8)]
    watched, began = None, 0
    for _ in range(5_000):
        for _ in range(rng.randrange(3)):
            one = turn(rng.choice(groups), rng.randrange(1, DEAREST), rng.randrange(4))
            if len(waiting) < 200:
                queue.add(one)
                waiting[one] = None
        if waiting and not rng.randrange(4):
            one = rng.choice(list(waiting))
            if one is not watched:
                queue.remove(one)
                del waiting[one]
        if watched is None and not any(each.group_id == "small" for each in waiting):
            watched = turn("small", 10)
            queue.add(watched)
            waiting[watched] = None
            began = behind
        one = queue.take()
        del waiting[one]
        if one is watched:
            watched = None
            assert behind - began <= len(groups) * (QUANTUM + DEAREST)
        behind += one.cost
    assert len(queue) == len(waiting)


def test_a_dear_turn_is_paid_by_rounds_that_are_sat_out():
    queue = TurnQueue(QUANTUM)
    queue.add(turn("heavy", 5 * QUANTUM))
    queue.add(turn("heavy", 5 * QUANTUM))
    for _ in range(10):
        queue.add(turn("light", QUANTUM))
    rounds = [one.group_id for one in taken(queue)]
    assert rounds == ["heavy", *["light"] * 5, "heavy", *["light"] * 5]


def test_a_debt_outlives_the_wait():
    """FAI-3: who always has one turn waiting at a time gets no more than by many at once."""
    queue = TurnQueue(QUANTUM)
    queue.add(turn("heavy", 5 * QUANTUM))
    assert queue.take().group_id == "heavy"
    queue.add(turn("heavy", 1))
    queue.add(turn("light", QUANTUM))
    assert queue.take().group_id == "light"


def test_turns_of_a_share_partition_keep_their_order():
    """FAI-5."""
    queue = TurnQueue(QUANTUM)
    turns = [turn("g", cost) for cost in (700, 30_000, 1, 400, 9)]
    for one in turns:
        queue.add(one)
    assert taken(queue) == turns


def test_a_turn_that_is_given_up_costs_nothing_and_leaves_nothing():
    """FAI-6."""
    queue = TurnQueue(QUANTUM)
    given_up, kept = turn("a", 30 * QUANTUM), turn("a", 1)
    queue.add(given_up)
    queue.add(kept)
    queue.add(turn("b", 1))
    queue.remove(given_up)
    assert [one.group_id for one in taken(queue)] == ["a", "b"]
    assert len(queue) == 0


def test_debts_are_remembered_of_so_many_groups_only():
    """FAI-6."""
    queue = TurnQueue(QUANTUM)
    for number in range(REMEMBERED_MAX + 1):
        queue.add(turn(f"g{number}", DEAREST))
    taken(queue)
    queue.add(turn("g0", 1))
    queue.add(turn("new", 1))
    assert [one.group_id for one in taken(queue)] == ["g0", "new"]


@pytest.mark.parametrize("groups", [2, 2_000])
def test_finding_the_next_turn_takes_no_longer_among_many(groups):
    """FAI-3: looks are counted, not time."""

    class Counting(OrderedDict):
        looks = 0

        def move_to_end(self, key, last=True):
            Counting.looks += 1
            super().move_to_end(key, last)

    queue = TurnQueue(QUANTUM)
    queue._round.sharers = Counting()
    for number in range(groups):
        queue.add(turn(f"g{number}", QUANTUM))
        queue.add(turn(f"g{number}", QUANTUM))
    taken(queue)
    assert Counting.looks <= 2 * groups
