"""Which node leads what: rendezvous hashing with bounded load, sticky, with standbys.

Pure and deterministic: the same partitions, nodes and current placement give the same plan in
every process. Planning is a generator of small steps, so that a service can plan for 10,000
partitions without blocking its loop.
"""

import math
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

from sharemesh.domain.ids import NodeId

LOAD_SLACK = 0.10  # a node takes at most 10 % more than its fair share, rounded up
STANDBYS = 2
STEP_PARTITIONS = 100  # planned between two yields

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PartitionShape:
    """How even a plan is, and how many standbys it names; an operator may choose otherwise."""

    load_slack: float = LOAD_SLACK
    standbys: int = STANDBYS


SHIPPED = PartitionShape()


@dataclass(frozen=True, slots=True)
class PlacementNode:
    """A node that can lead; ``weight`` scales its fair share."""

    node_id: NodeId
    rack: str = ""
    weight: float = 1.0
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Who leads one partition, and who follows if that one is lost, first one first."""

    leader: NodeId
    standbys: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacementPlan(Generic[Key]):
    """Placements of all partitions that can be placed; ``voluntary_moves`` were made to balance."""

    placements: Mapping[Key, Placement]
    voluntary_moves: int


def score(key: str, node: PlacementNode) -> float:
    """Return the weighted rendezvous score of a node for a key; the highest owns it."""
    digest = blake2b(f"{key}\0{node.node_id}".encode(), digest_size=8).digest()
    uniform = (int.from_bytes(digest, "big") + 1) / (2**64 + 2)  # in (0, 1)
    return -node.weight / math.log(uniform)


def ranking(key: str, nodes: Iterable[PlacementNode]) -> list[PlacementNode]:
    """Return nodes by falling score; losing one node changes nothing among the others."""
    return sorted(nodes, key=lambda node: (-score(key, node), node.node_id))


def load_cap(
    partitions: int, nodes: Sequence[PlacementNode], slack: float = LOAD_SLACK
) -> dict[NodeId, int]:
    """Return how many partitions each node may lead: its share and the slack, rounded up."""
    total = sum(node.weight for node in nodes)
    return {
        node.node_id: math.ceil((1 + slack) * partitions * node.weight / total) for node in nodes
    }


def plan(
    partitions: Sequence[Key],
    nodes: Sequence[PlacementNode],
    current: Mapping[Key, Placement],
    *,
    text: Callable[[Key], str],
    max_moves: int | None = None,
    shape: PartitionShape = SHIPPED,
) -> PlacementPlan[Key]:
    """Return the plan in one go; see ``plan_in_steps``."""
    steps = plan_in_steps(partitions, nodes, current, text=text, max_moves=max_moves, shape=shape)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: PlacementPlan[Key] = finished.value
            return result


def plan_in_steps(
    partitions: Sequence[Key],
    nodes: Sequence[PlacementNode],
    current: Mapping[Key, Placement],
    *,
    text: Callable[[Key], str],
    max_moves: int | None = None,
    shape: PartitionShape = SHIPPED,
) -> Generator[None, None, PlacementPlan[Key]]:
    """Plan; yields between portions of work.

    Leaders stay unless they are gone, draining, or (within ``max_moves``) above their cap. A
    lost leader's partitions go to their standbys first. Then nodes far below their share are
    filled, within what is left of ``max_moves`` (None: no limit, 0: none).

    Without any node that is not draining, draining leaders keep what they have and the rest
    stays unplaced.
    """
    live = sorted((n for n in nodes if not n.draining), key=lambda node: node.node_id)
    if not live:
        known = {node.node_id for node in nodes}
        kept = {p: current[p] for p in partitions if p in current and current[p].leader in known}
        return PlacementPlan(kept, 0)
    work = _Planning(partitions, live, current, text=text, max_moves=max_moves, shape=shape)
    yield from work.place_leaders()
    yield from work.fill_low_nodes()
    yield from work.choose_standbys()
    return PlacementPlan(work.placements, work.moves)


class _Planning(Generic[Key]):
    """One run of planning."""

    def __init__(
        self,
        partitions: Sequence[Key],
        live: Sequence[PlacementNode],
        current: Mapping[Key, Placement],
        *,
        text: Callable[[Key], str],
        max_moves: int | None,
        shape: PartitionShape,
    ) -> None:
        self._text = text
        self._shape = shape
        self._order = sorted(
            partitions, key=lambda p: blake2b(text(p).encode(), digest_size=8).digest()
        )
        self._live = {node.node_id: node for node in live}
        self._current = current
        self._cap = load_cap(len(partitions), live, shape.load_slack)
        self._load = dict.fromkeys(self._live, 0)
        self._leader: dict[Key, NodeId] = {}
        self._max_moves = max_moves
        self.moves = 0
        self.placements: dict[Key, Placement] = {}

    def place_leaders(self) -> Generator[None, None, None]:
        homeless = []
        for partition in self._order:
            placed = self._current.get(partition)
            if placed is None or placed.leader not in self._live:
                homeless.append(partition)
                continue
            over = self._load[placed.leader] >= self._cap[placed.leader]
            if over and self._may_move():
                self.moves += 1
                homeless.append(partition)
                continue
            self._take(partition, placed.leader)
        yield
        for number, partition in enumerate(homeless):
            self._take(partition, self._home_for(partition))
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield

    def fill_low_nodes(self) -> Generator[None, None, None]:
        total = sum(node.weight for node in self._live.values())
        share = {i: len(self._order) * node.weight / total for i, node in self._live.items()}
        low = {i: math.floor((1 - self._shape.load_slack) * share[i]) for i in self._live}
        for number, partition in enumerate(self._order):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            if not self._may_move():
                return
            under = [node for i, node in self._live.items() if self._load[i] < low[i]]
            if not under:
                return
            owner = self._leader[partition]
            if self._load[owner] <= share[owner]:
                continue
            heir = ranking(self._text(partition), under)[0]
            self._load[owner] -= 1
            self._take(partition, heir.node_id)
            self.moves += 1

    def choose_standbys(self) -> Generator[None, None, None]:
        wanted = min(self._shape.standbys, len(self._live) - 1)
        for number, partition in enumerate(self._order):
            leader = self._leader[partition]
            placed = self._current.get(partition)
            kept = [s for s in placed.standbys if s in self._live and s != leader] if placed else []
            standbys = tuple(kept[:wanted])
            if len(standbys) < wanted:
                standbys = self._more_standbys(partition, standbys, wanted)
            self.placements[partition] = Placement(leader, standbys)
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield

    def _home_for(self, partition: Key) -> NodeId:
        placed = self._current.get(partition)
        for standby in placed.standbys if placed else ():
            if standby in self._live and self._load[standby] < self._cap[standby]:
                return standby
        for node in ranking(self._text(partition), self._live.values()):
            if self._load[node.node_id] < self._cap[node.node_id]:
                return node.node_id
        return min(self._live, key=lambda node_id: (self._load[node_id], node_id))

    def _more_standbys(
        self, partition: Key, standbys: tuple[NodeId, ...], wanted: int
    ) -> tuple[NodeId, ...]:
        """Add the best-ranked nodes, those of racks that are not used yet first."""
        ranked = ranking(self._text(partition), self._live.values())
        chosen = [self._leader[partition], *standbys]
        while len(chosen) <= wanted:
            racks = {self._live[node_id].rack for node_id in chosen}
            free = [node for node in ranked if node.node_id not in chosen]
            other = next((node for node in free if node.rack not in racks), free[0])
            chosen.append(other.node_id)
        return tuple(chosen[1:])

    def _take(self, partition: Key, node_id: NodeId) -> None:
        self._leader[partition] = node_id
        self._load[node_id] += 1

    def _may_move(self) -> bool:
        return self._max_moves is None or self.moves < self._max_moves
