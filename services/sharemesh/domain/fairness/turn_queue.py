"""Whose turn it is: round robin by what was used, over groups and their share partitions (FAI-3).

A turn is given to who has credit, and takes its cost away: credit may end below zero, and each
round adds a quantum. So nobody is asked for the cost of the next turn before it is given, and what
a turn costs beyond the quantum is paid by rounds that are sat out.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from sharemesh.domain.ids import GroupId, TopicPartition

REMEMBERED_MAX = 1_000
"""Groups without waiting turns whose debt is remembered, once nobody waits."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One piece of work that waits; ``cost`` is in units of about a microsecond."""

    group_id: GroupId
    partition: TopicPartition
    cost: int


class _Sharer(Protocol):
    credit: int

    @property
    def waits(self) -> bool: ...


@dataclass(slots=True)
class _PartitionTurns:
    """Turns of one share partition, oldest first."""

    credit: int
    turns: OrderedDict[Turn, None] = field(default_factory=OrderedDict)

    @property
    def waits(self) -> bool:
        return bool(self.turns)


Key = TypeVar("Key")
Sharer = TypeVar("Sharer", bound=_Sharer)


class _Round(Generic[Key, Sharer]):
    """Those who share, in the order in which they come next."""

    def __init__(self, quantum: int) -> None:
        self._quantum = quantum
        self.sharers: OrderedDict[Key, Sharer] = OrderedDict()

    def due(self) -> Sharer:
        """Return who has the turn; somebody must wait."""
        while True:
            key, sharer = next(iter(self.sharers.items()))
            if sharer.waits and sharer.credit > 0:
                return sharer
            sharer.credit += self._quantum
            if sharer.waits or sharer.credit < self._quantum:
                self.sharers.move_to_end(key)
            else:
                del self.sharers[key]  # without a debt; what was not used is not kept


class _GroupTurns:
    """Turns of one group, by share partition."""

    def __init__(self, quantum: int) -> None:
        self.credit = quantum
        self.waiting = 0
        self.round: _Round[TopicPartition, _PartitionTurns] = _Round(quantum)

    @property
    def waits(self) -> bool:
        return self.waiting > 0


class TurnQueue:
    """Turns that wait. Finding the next one takes one look for each quantum that was used."""

    def __init__(self, quantum: int) -> None:
        """``quantum`` is what a group, and a share partition of it, gets in each round."""
        self._quantum = quantum
        self._round: _Round[GroupId, _GroupTurns] = _Round(quantum)
        self._waiting = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    def add(self, turn: Turn) -> None:
        """Let a turn wait, behind those of its share partition."""
        groups = self._round.sharers
        group = groups.get(turn.group_id)
        if group is None:
            group = groups[turn.group_id] = _GroupTurns(self._quantum)
        partitions = group.round.sharers
        partition = partitions.get(turn.partition)
        if partition is None:
            partition = partitions[turn.partition] = _PartitionTurns(self._quantum)
        partition.turns[turn] = None
        group.waiting += 1
        self._waiting += 1

    def remove(self, turn: Turn) -> None:
        """Give a waiting turn up; it costs nothing."""
        group = self._round.sharers[turn.group_id]
        del group.round.sharers[turn.partition].turns[turn]
        self._left(group)

    def take(self) -> Turn:
        """Return the turn that comes next, with its cost taken away; one must wait."""
        group = self._round.due()
        partition = group.round.due()
        turn, _ = partition.turns.popitem(last=False)
        group.credit -= turn.cost
        partition.credit -= turn.cost
        self._left(group)
        return turn

    def _left(self, group: _GroupTurns) -> None:
        group.waiting -= 1
        self._waiting -= 1
        if not self._waiting and len(self._round.sharers) > REMEMBERED_MAX:
            self._round.sharers.clear()
