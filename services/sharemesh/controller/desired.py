"""What assignments should be now: the pure plan, fed from the view, in slices of the loop."""

from collections.abc import Mapping
from dataclasses import dataclass

from sharemesh.cluster.store.keys import partition_path
from sharemesh.cluster.store.records import PartitionAssignment
from sharemesh.cluster.view.cluster_state import Stored
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain import placement
from sharemesh.domain.ids import NodeId, TopicId, TopicPartition
from sharemesh.domain.placement import Placement, PlacementNode
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo, Role


@dataclass(frozen=True, slots=True)
class PlacementLimits:
    """Bounds on moves that only serve the balance, and what balance is."""

    moves_per_round: int = 10
    round_ms: int = 10_000
    trouble_ms: int = 300_000  # none for so long after a node could not lead something
    kept_ms: int = 30 * 24 * 60 * 60 * 1_000
    """How long the leader epochs of a detached topic are kept: longer than any state (KTP-19)."""
    shape: placement.PartitionShape = placement.SHIPPED


@dataclass(frozen=True, slots=True)
class Change:
    """One assignment to write; ``basis`` is what the plan was made from."""

    partition: TopicPartition
    placed: Placement
    basis: Stored[PartitionAssignment] | None


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """Assignments to write, deletion notes to drop, and when to plan again (None: on change).

    ``forgotten`` are topics that were detached for so long that their leader epochs go (KTP-19).
    """

    changes: tuple[Change, ...]
    finished_deletions: tuple[TopicId, ...]
    forgotten: tuple[TopicId, ...]
    voluntary_moves: int
    again_ms: int | None


class DesiredPlacement:
    """Plans from the view; remembers when members last changed."""

    def __init__(self, view: WatchedView, clock: Clock, limits: PlacementLimits) -> None:
        self._view = view
        self._clock = clock
        self._limits = limits
        self._members: frozenset[tuple[NodeId, int, bool]] = frozenset()
        self._members_since_ms = clock.now_ms()
        self._next_round_ms = 0
        self._seen: set[NodeId] = set()
        self._noted_ms: dict[tuple[TopicPartition, int], int] = {}
        self._detached_ms: dict[tuple[TopicId, int], int] = {}

    def forget_seen(self) -> None:
        """Forget who was seen: after a lost session others may have lost theirs too."""
        self._seen.clear()

    def note_seen(self) -> None:
        """Remember the present members: one that leaves later is gone and is not waited for."""
        self._seen.update(node.node_id for node in self._view.nodes_with(Role.SHARE_LEADER))

    def touches(self, partition: TopicPartition) -> bool:
        """Return whether a change of this partition needs a plan: its assignment is no longer."""
        assignment = self._view.tables.assignments.get(partition)
        if assignment is None:
            return True
        others = len(self._view.nodes_with(Role.SHARE_LEADER)) - 1
        return self._view.node(assignment.value.leader) is None or len(
            assignment.value.standbys
        ) < min(self._limits.shape.standbys, others)

    async def plan(self, arrival_deadline_ms: int, settle_ms: int) -> AssignmentPlan:
        """Return what to change now."""
        now_ms = self._clock.now_ms()
        members = self._view.nodes_with(Role.SHARE_LEADER)
        self._note_members(members, now_ms)
        partitions = self._partitions()
        basis = {
            partition: stored
            for partition in partitions
            if (stored := self._view.tables.assignments.get(partition)) is not None
        }
        current = {
            partition: Placement(stored.value.leader, stored.value.standbys)
            for partition, stored in basis.items()
        }
        nodes = [PlacementNode(n.node_id, n.rack, draining=n.draining) for n in members]
        awaited = self._awaited(current, members, arrival_deadline_ms - now_ms)
        nodes.extend(PlacementNode(node_id) for node_id in awaited)
        max_moves = self._moves_allowed(members, now_ms, settle_ms) if not awaited else 0
        result = await self._carry_out(partitions, nodes, current, max_moves)
        if result.voluntary_moves:
            self._next_round_ms = now_ms + self._limits.round_ms
        changes = tuple(
            Change(partition, placed, basis.get(partition))
            for partition, placed in sorted(result.placements.items(), key=lambda item: item[0])
            if current.get(partition) != placed and placed.leader not in awaited
        )
        again_ms = self._again_ms(members, now_ms, settle_ms)
        if awaited:
            again_ms = max(1, arrival_deadline_ms - now_ms)
        forgotten, forget_ms = self._forgotten(now_ms)
        if forget_ms is not None:
            again_ms = forget_ms if again_ms is None else min(again_ms, forget_ms)
        return AssignmentPlan(
            changes, self._finished(), forgotten, result.voluntary_moves, again_ms
        )

    async def _carry_out(
        self,
        partitions: list[TopicPartition],
        nodes: list[PlacementNode],
        current: dict[TopicPartition, Placement],
        max_moves: int,
    ) -> placement.PlacementPlan[TopicPartition]:
        steps = placement.plan_in_steps(
            partitions,
            nodes,
            current,
            text=partition_path,
            max_moves=max_moves,
            shape=self._limits.shape,
        )
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                result: placement.PlacementPlan[TopicPartition] = finished.value
                return result
            await self._clock.sleep_ms(0)

    def _partitions(self) -> list[TopicPartition]:
        """Return all that need a leader: those of topics, and those whose files are to be freed."""
        tables = self._view.tables
        partitions = [
            TopicPartition(stored.value.topic_id, number)
            for stored in tables.topics.values()
            for number in range(stored.value.partitions)
        ]
        freed = {topic_id for topic_id, note in tables.deletions.items() if not note.value.kept}
        if freed:
            partitions.extend(p for p in tables.assignments if p.topic_id in freed)
        return partitions

    def _forgotten(self, now_ms: int) -> tuple[tuple[TopicId, ...], int | None]:
        """Return detached topics that were away for their time, and when the next one will be."""
        notes = self._view.tables.deletions.items()
        kept = {(topic_id, note.create_revision) for topic_id, note in notes if note.value.kept}
        self._detached_ms = {note: self._detached_ms.get(note, now_ms) for note in kept}
        left = {
            topic_id: since_ms + self._limits.kept_ms - now_ms
            for (topic_id, _), since_ms in self._detached_ms.items()
        }
        waiting = [left_ms for left_ms in left.values() if left_ms > 0]
        return tuple(t for t, left_ms in left.items() if left_ms <= 0), min(waiting, default=None)

    def _finished(self) -> tuple[TopicId, ...]:
        tables = self._view.tables
        if not tables.deletions:
            return ()
        busy = {partition.topic_id for partition in tables.assignments}
        return tuple(topic_id for topic_id in tables.deletions if topic_id not in busy)

    def _note_members(self, members: tuple[NodeInfo, ...], now_ms: int) -> None:
        tables = self._view.tables.members
        found = frozenset(
            (node.node_id, _lease(tables.get(node.node_id)), node.draining) for node in members
        )
        if found != self._members:
            self._members = found
            self._members_since_ms = now_ms

    def _moves_allowed(self, members: tuple[NodeInfo, ...], now_ms: int, settle_ms: int) -> int:
        """Return how many voluntary moves there may be: none in a rollout, few at a time."""
        if self._troubled(now_ms):
            return 0  # a node that cannot lead looks idle: filling it up would undo the fail-over
        rollout = len({node.version for node in members}) > 1
        draining = any(node.draining for node in members)
        settled = now_ms - self._members_since_ms >= settle_ms
        if rollout or draining or not settled or now_ms < self._next_round_ms:
            return 0
        return self._limits.moves_per_round

    def _troubled(self, now_ms: int) -> bool:
        """Return whether some node said lately that it cannot lead something.

        The note of a node that was relieved stays until its lease ends; it counts for a while.
        """
        notes = {(p, note.mod_revision) for p, note in self._view.tables.troubles.items()}
        self._noted_ms = {note: self._noted_ms.get(note, now_ms) for note in notes}
        limit_ms = self._limits.trouble_ms
        return any(now_ms - noted_ms < limit_ms for noted_ms in self._noted_ms.values())

    def _again_ms(self, members: tuple[NodeInfo, ...], now_ms: int, settle_ms: int) -> int | None:
        """Return when balancing may resume, or None if only a change can start it."""
        if not members or any(node.draining for node in members):
            return None
        if self._troubled(now_ms):
            return settle_ms  # look again whether it is over
        settled_ms = self._members_since_ms + settle_ms
        due_ms = max(settled_ms, self._next_round_ms)
        return due_ms - now_ms if due_ms > now_ms else None

    def _awaited(
        self,
        current: Mapping[TopicPartition, Placement],
        members: tuple[NodeInfo, ...],
        left_ms: int,
    ) -> set[NodeId]:
        """Return leaders of the last life that may still be about to register.

        After a restart of the whole cluster the first member would else be given everything.
        Standbys do not wait: without a claim they take over by themselves.
        """
        self._seen.update(node.node_id for node in members)
        if left_ms <= 0:
            return set()
        return {placed.leader for placed in current.values()} - self._seen


def _lease(stored: Stored[NodeInfo] | None) -> int:
    return stored.lease_id if stored else 0
