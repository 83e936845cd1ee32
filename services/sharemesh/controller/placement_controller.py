"""The elected controller: turns topics and live share leaders into assignments, and writes them."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import CONTROLLER
from sharemesh.cluster.store.records import AssignmentState, PartitionAssignment
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.controller.desired import AssignmentPlan, Change, DesiredPlacement, PlacementLimits
from sharemesh.controller.topic_mirror import TopicMirror
from sharemesh.domain.ids import TopicId
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import (
    GUARDS_MAX,
    OPERATIONS_MAX,
    Coordination,
    CoordinationError,
    Delete,
    ElectedLeadership,
    Guard,
    Put,
    Session,
    SessionLostError,
)
from sharemesh.tasks import cancel_and_wait, first_done
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.spans import Span, Spans
from sharemesh.telemetry.telemetry import Telemetry, without_export

RETRY_MS = 250

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How patient the controller is; milliseconds."""

    arrival_ms: int = 3_000  # after its election it waits this long for leaders it knows of
    settle_ms: int = 30_000  # no voluntary moves until members did not change for this long
    gather_ms: int = 2  # changes that come together are planned together
    limits: PlacementLimits = field(default_factory=PlacementLimits)


class PlacementController:
    """Campaigns; while elected, keeps ``assign/…`` as the plan wants it.

    The data plane continues without it: it only writes assignments, guarded by its token.
    """

    def __init__(
        self,
        coordination: Coordination,
        member: ClusterMember,
        view: WatchedView,
        clock: Clock,
        *,
        settings: ControllerSettings | None = None,
        telemetry: Telemetry | None = None,
        mirror: TopicMirror | None = None,
    ) -> None:
        """Build; ``mirror`` keeps the records of topics while this controller is elected."""
        self._mirror = mirror
        self._telemetry = telemetry or without_export(lambda: clock.wall_ms() * 1_000_000)
        register(self._telemetry.registry, lambda: self.elected, lambda: self.moves)
        self._coordination = coordination
        self._member = member
        self._view = view
        self._clock = clock
        self._settings = settings or ControllerSettings()
        self._desired = DesiredPlacement(view, clock, self._settings.limits)
        self._writer = AssignmentWriter(coordination, view)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.elected = False
        self.moves = 0
        self.last_error = ""

    async def start(self) -> None:
        """Begin to campaign; the view and the member must have started."""
        self._task = asyncio.create_task(self._run(), name="placement controller")
        self._member.vital(self._task)

    async def close(self) -> None:
        """Resign and end."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_and_wait(task)

    async def _run(self) -> None:
        self._member.on_registered(self._wake.set)
        unsubscribe = self._view.subscribe(self._changed)
        seen_under: Session | None = None
        try:
            while True:
                session = self._member.session
                if session is None:
                    await self._wait(None)
                    self._wake.clear()  # or it would not wait at all until there is a session
                    continue
                if session is not seen_under:
                    seen_under = session
                    self._desired.forget_seen()
                    self._desired.note_seen()
                try:
                    await self._campaign_and_lead(session)
                except (SessionLostError, CoordinationError) as error:
                    self.last_error = str(error)
                    await self._clock.sleep_ms(RETRY_MS)
                except Exception as error:  # whatever ended this term, another one begins
                    self.last_error = f"{type(error).__name__}: {error}"
                    _log.exception("controller: term ended")
                    await self._clock.sleep_ms(RETRY_MS)
        finally:
            unsubscribe()

    async def _campaign_and_lead(self, session: Session) -> None:
        leadership = await self._coordination.campaign(
            self._view.keys.election(CONTROLLER),
            records.encode_candidate(self._member.node.node_id),
            session,
        )
        self.elected = True
        _log.info("controller: %s elected", self._member.node.node_id)
        mirroring = self._start_mirror(leadership)
        try:
            await self._lead(leadership, session)
        finally:
            self.elected = False
            if mirroring is not None:
                await cancel_and_wait(mirroring)
            if session.valid:
                await self._resign(leadership)

    def _start_mirror(self, leadership: ElectedLeadership) -> "asyncio.Task[None] | None":
        if self._mirror is None:
            return None
        return asyncio.create_task(self._mirror.run(leadership), name="topic mirror")

    async def _resign(self, leadership: ElectedLeadership) -> None:
        try:
            await self._coordination.resign(leadership)
        except (CoordinationError, SessionLostError) as error:
            self.last_error = str(error)

    async def _lead(self, leadership: ElectedLeadership, session: Session) -> None:
        elected_ms = self._clock.now_ms()
        generation = self._view.generation
        lost = asyncio.create_task(session.lost())
        try:
            while session.valid:
                self._wake.clear()
                if self._view.election_vanished(CONTROLLER, leadership, generation):
                    raise SessionLostError("the election does not know this controller any more")
                began_ns = self._telemetry.spans.now_ns()
                plan = await self._desired.plan(
                    elected_ms + self._settings.arrival_ms, self._settings.settle_ms
                )
                complete = await self._writer.write(leadership, plan)
                self.moves += plan.voluntary_moves
                trace_round(
                    self._telemetry.spans, began_ns, len(plan.changes), plan.voluntary_moves
                )
                if plan.changes:
                    _log.info(
                        "controller: %d assignments written, %d of them to balance",
                        len(plan.changes),
                        plan.voluntary_moves,
                    )
                wait_ms = plan.again_ms if complete else RETRY_MS
                await self._wait(wait_ms, lost)
                await self._clock.sleep_ms(self._settings.gather_ms)
        finally:
            lost.cancel()

    def _changed(self, changes: StateChanges) -> None:
        if changes.everything or changes.members:
            self._desired.note_seen()
        whole = changes.everything or changes.members or changes.topics or changes.deletions
        if whole or any(self._desired.touches(partition) for partition in changes.partitions):
            self._wake.set()

    async def _wait(
        self, duration_ms: int | None, other: "asyncio.Task[Any] | None" = None
    ) -> None:
        limit = () if duration_ms is None else (self._clock.sleep_ms(duration_ms),)
        await first_done(self._wake.wait(), *limit, *(() if other is None else (other,)))


def register(registry: Registry, elected: Callable[[], bool], moves: Callable[[], int]) -> None:
    """Register the controller's metrics."""
    registry.observe(names.CONTROLLER_ELECTED, lambda: [((), float(elected()))])
    registry.observe(names.PLACEMENT_MOVES, lambda: [((), moves())])


def trace_round(spans: Spans, began_ns: int, changes: int, moves: int) -> None:
    """Write the span of a placement round that wrote assignments."""
    if spans.enabled and changes:
        attributes = {names.PLACEMENT_CHANGES: changes, names.MOVES: moves}
        context = spans.context()
        spans.end(Span(names.PLACEMENT, context, None, began_ns, spans.now_ns(), attributes))


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
        for topic_id in plan.forgotten:
            yield from self._forget(topic_id)

    def _forget(self, topic_id: TopicId) -> Iterator[_Write]:
        """Forget a topic that was detached long ago; it fails for one that is attached again."""
        tables, keys = self._view.tables, self._view.keys
        note = tables.deletions[topic_id]
        guard = Guard(keys.deletion(topic_id), create_revision=note.create_revision)
        yield _Write(Delete(keys.seen_topic(topic_id), prefix=True), (guard,))
        for partition in tables.assignments:
            if partition.topic_id == topic_id:
                unclaimed = Guard(keys.claim(partition), create_revision=0)
                yield _Write(Delete(keys.assignment(partition)), (guard, unclaimed))

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
