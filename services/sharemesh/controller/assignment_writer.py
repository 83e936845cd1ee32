"""Writes assignments in guarded batches that fit a transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sharemesh.cluster.store import records
from sharemesh.cluster.store.records import AssignmentState, PartitionAssignment
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.controller.desired import AssignmentPlan, Change
from sharemesh.ports.coordination import (
    GUARDS_MAX,
    OPERATIONS_MAX,
    Coordination,
    Delete,
    ElectedLeadership,
    Guard,
    Put,
    SessionLostError,
)


@dataclass(frozen=True, slots=True)
class _Write:
    """One operation and what must hold for it."""

    operation: Put | Delete
    guards: tuple[Guard, ...]


class AssignmentWriter:
    """Each write is guarded by the controller's token and by what the plan was made from."""

    def __init__(self, coordination: Coordination, view: WatchedView) -> None:
        self._coordination = coordination
        self._view = view

    async def write(self, leadership: ElectedLeadership, plan: AssignmentPlan) -> bool:
        """Write a plan; return False if part of it was overtaken by other changes.

        Raises:
            SessionLostError: Another controller was elected.
            CoordinationError: The store cannot be reached.
        """
        complete = True
        for batch in _batches(self._writes(plan)):
            if await self._commit(leadership, batch):
                continue
            await self._check(leadership)
            complete = False
            for write in batch:  # one of them was overtaken: the others may stand
                await self._commit(leadership, [write])
        return complete

    async def _commit(self, leadership: ElectedLeadership, batch: Sequence[_Write]) -> bool:
        guards = {guard.key: guard for write in batch for guard in write.guards}
        revision = await self._coordination.commit(
            [leadership.guard, *guards.values()], [write.operation for write in batch]
        )
        return revision is not None

    async def _check(self, leadership: ElectedLeadership) -> None:
        stored = await self._coordination.get(leadership.key)
        if stored is None or stored.create_revision != leadership.token:
            raise SessionLostError("another controller was elected")

    def _writes(self, plan: AssignmentPlan) -> Iterator[_Write]:
        for change in plan.changes:
            guard = self._topic_guard(change)
            if guard is not None:
                yield self._assignment(change, guard)
        for topic_id in plan.finished_deletions:
            yield _Write(Delete(self._view.keys.deletion(topic_id)), ())

    def _topic_guard(self, change: Change) -> Guard | None:
        """Return what makes a write fail once the topic is gone; None if it is gone already."""
        tables, keys, topic_id = self._view.tables, self._view.keys, change.partition.topic_id
        topic = tables.topics_by_id.get(topic_id)
        if topic is not None:
            return Guard(keys.topic(topic.value.name), create_revision=topic.create_revision)
        deletion = tables.deletions.get(topic_id)
        if deletion is not None and change.basis is not None:
            return Guard(keys.deletion(topic_id), create_revision=deletion.create_revision)
        return None

    def _assignment(self, change: Change, topic_guard: Guard) -> _Write:
        basis, placed = change.basis, change.placed
        moving = (
            basis is not None
            and basis.value.leader != placed.leader
            and change.partition in self._view.tables.claims
        )
        assignment = PartitionAssignment(
            placed.leader,
            placed.standbys,
            basis.value.leader_epoch if basis else 0,
            AssignmentState.MOVING if moving else AssignmentState.SERVING,
        )
        key = self._view.keys.assignment(change.partition)
        unchanged = Guard(key, mod_revision=basis.mod_revision if basis else 0)
        return _Write(Put(key, records.encode_assignment(assignment)), (unchanged, topic_guard))


def _batches(writes: Iterator[_Write]) -> Iterator[list[_Write]]:
    batch: list[_Write] = []
    keys: set[str] = set()
    for write in writes:
        more = keys | {guard.key for guard in write.guards}
        if batch and (len(batch) == OPERATIONS_MAX or len(more) >= GUARDS_MAX):
            yield batch
            batch, more = [], {guard.key for guard in write.guards}
        batch.append(write)
        keys = more
    if batch:
        yield batch
