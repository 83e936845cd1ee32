"""The simple assignor: balanced first, sticky second (spec ASG)."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MemberId, TopicId

Assignment = Mapping[TopicId, tuple[int, ...]]
"""Partitions ascending; topics without partitions are absent, so that equal means equal."""

NOTHING: Assignment = MappingProxyType({})
NAME = "simple"
"""The only built-in assignor (spec ASG-1)."""

_Partition = tuple[TopicId, int]


def nothing() -> Assignment:
    """Return the assignment without partitions."""
    return NOTHING


class AssignorMode(StrEnum):
    """``group.share.assignors``: balanced, or every member gets everything (spec ASG-2)."""

    SIMPLE = "simple"
    ASSIGN_ALL = "assign-all"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member as the assignor sees it: what it wants and what it has."""

    topics: frozenset[TopicId]
    assigned: Assignment = field(default_factory=nothing)


def assign(
    members: Mapping[MemberId, Subscriber],
    partition_counts: Mapping[TopicId, int],
    assignable: Mapping[TopicId, Iterable[int]],
    mode: AssignorMode = AssignorMode.SIMPLE,
) -> dict[MemberId, Assignment]:
    """Return what each member gets; the same input gives the same result (spec ASG-3 to ASG-12).

    Every assignable partition gets at least one of the members that subscribe to its topic.
    Members are taken in the order of their ids.

    Args:
        members: All members of the group.
        partition_counts: The topics that exist.
        assignable: The initialized partitions (spec GC-17); a topic that is absent has none.
        mode: Balanced or assign-all.

    Raises:
        RefusedError: UNKNOWN_SERVER_ERROR; a member subscribes to a topic that does not exist.
    """
    for member_id, member in members.items():
        for topic_id in member.topics:
            if topic_id not in partition_counts:
                raise RefusedError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"member {member_id!r} subscribes to topic id {topic_id.hex()}, "
                    "which is not in the metadata",
                )
    targets = {topic_id: sorted(numbers) for topic_id, numbers in assignable.items()}
    order = sorted(members)
    if mode is AssignorMode.ASSIGN_ALL:
        return {member_id: _all_of(members[member_id], targets) for member_id in order}
    held: dict[MemberId, list[_Partition]] = {member_id: [] for member_id in order}
    for group_topics, subscribers in _groups(members, order):
        _share(
            [
                (topic_id, number)
                for topic_id in group_topics
                for number in targets.get(topic_id, ())
            ],
            subscribers,
            members,
            held,
        )
    return {member_id: _as_assignment(partitions) for member_id, partitions in held.items()}


def _all_of(member: Subscriber, targets: Mapping[TopicId, list[int]]) -> Assignment:
    return {
        topic_id: tuple(targets[topic_id])
        for topic_id in sorted(member.topics)
        if targets.get(topic_id)
    }


def _groups(
    members: Mapping[MemberId, Subscriber], order: list[MemberId]
) -> list[tuple[list[TopicId], list[MemberId]]]:
    """Topics that are balanced together, with their subscribers.

    All topics at once if all members subscribe to the same ones (spec ASG-5), else each topic on
    its own (spec ASG-9).
    """
    distinct = {member.topics for member in members.values()}
    if len(distinct) <= 1:
        return [(sorted(topics), order) for topics in distinct]
    topics = sorted(frozenset().union(*distinct))
    return [
        ([topic_id], [each for each in order if topic_id in members[each].topics])
        for topic_id in topics
    ]


def _share(
    targets: list[_Partition],
    subscribers: list[MemberId],
    members: Mapping[MemberId, Subscriber],
    held: dict[MemberId, list[_Partition]],
) -> None:
    """Share partitions among members and add to ``held`` (the steps of spec ASG-6)."""
    if not targets or not subscribers:
        return
    sharing = -(-len(subscribers) // len(targets))
    slots = sharing * len(targets)
    wanted = _desired_counts(slots, len(subscribers))
    holders: dict[_Partition, int] = dict.fromkeys(targets, 0)
    topics = {topic_id for topic_id, _ in targets}
    kept: list[dict[_Partition, None]] = []
    for index, member_id in enumerate(subscribers):
        mine = _kept(members[member_id].assigned, topics, holders, wanted[index], sharing)
        kept.append(mine)
    unfilled = deque(index for index in range(len(subscribers)) if len(kept[index]) < wanted[index])
    for partition in targets:
        if not unfilled:
            break
        _fill(partition, sharing - holders[partition], unfilled, kept, wanted)
    for index, member_id in enumerate(subscribers):
        held[member_id].extend(kept[index])


def _desired_counts(slots: int, members: int) -> list[int]:
    """How many partitions each member should have; they add up to ``slots`` (spec ASG-5)."""
    edges = [-(-slots * index // members) for index in range(members + 1)]
    return [edges[index + 1] - edges[index] for index in range(members)]


def _kept(
    assigned: Assignment,
    topics: set[TopicId],
    holders: dict[_Partition, int],
    wanted: int,
    sharing: int,
) -> dict[_Partition, None]:
    """What a member keeps: still a target, not more than wanted, not shared too often.

    Both surpluses are dropped in one pass: a partition that has enough holders is passed over
    first, so that a member does not lose one that no other member holds.
    """
    mine: dict[_Partition, None] = {}
    for topic_id in sorted(assigned):
        if topic_id not in topics:
            continue
        for number in assigned[topic_id]:
            partition = (topic_id, number)
            if len(mine) >= wanted:
                return mine
            count = holders.get(partition)
            if count is not None and count < sharing:
                mine[partition] = None
                holders[partition] = count + 1
    return mine


def _fill(
    partition: _Partition,
    missing: int,
    unfilled: deque[int],
    kept: list[dict[_Partition, None]],
    wanted: list[int],
) -> None:
    """Give a partition to members that lack it, round-robin; leave it under-shared if none can."""
    for _ in range(len(unfilled)):
        if missing <= 0:
            return
        index = unfilled.popleft()
        if partition in kept[index]:
            unfilled.append(index)
            continue
        kept[index][partition] = None
        missing -= 1
        if len(kept[index]) < wanted[index]:
            unfilled.append(index)


def _as_assignment(partitions: list[_Partition]) -> Assignment:
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, number in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(number)
    return {topic_id: tuple(numbers) for topic_id, numbers in by_topic.items()}
