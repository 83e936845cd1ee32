"""Claims on topic-partitions: a share leader takes what is assigned to it, and nothing else."""

import asyncio
from collections.abc import Callable

from sharemesh.cluster.claims.claim_policy import ClaimPolicy, ClaimSettings
from sharemesh.cluster.claims.claim_writer import ClaimWriter
from sharemesh.cluster.claims.drain_pacer import DrainPacer
from sharemesh.cluster.claims.partition_claim import ClaimTurns, PartitionClaim
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import PartitionHost, Role
from sharemesh.ports.coordination import Coordination
from sharemesh.tasks import cancel_and_wait


class PartitionClaims:
    """Keeps one task for each topic-partition that concerns this process.

    ``start`` begins, ``drain`` lets holders acknowledge and gives all away, ``close`` ends.
    """

    def __init__(
        self,
        coordination: Coordination,
        member: ClusterMember,
        view: WatchedView,
        clock: Clock,
        *,
        host: PartitionHost,
        settings: ClaimSettings | None = None,
    ) -> None:
        self._coordination = coordination
        self._member = member
        self._view = view
        self._clock = clock
        self._host = host
        self._settings = settings or ClaimSettings()
        self._watch = ClaimPolicy(view, member, clock, self._settings)
        self._turns = ClaimTurns(
            writer=ClaimWriter(coordination),
            departures=DrainPacer(
                clock,
                pace_ms=self._settings.departure_pace_ms,
                all_within_ms=self._settings.departures_ms,
            ),
            led=lambda: len(self.led),
            claims=asyncio.Semaphore(self._settings.parallel_claims),
            starts=asyncio.Semaphore(self._settings.parallel_starts),
        )
        self._claims: dict[TopicPartition, PartitionClaim] = {}
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._failure: BaseException | None = None
        host.on_ended(self._ended)
        member.on_lost(self._until_stopped)
        member.on_registered(self._look_at_all)

    @property
    def led(self) -> dict[TopicPartition, int]:
        """Topic-partitions that this process leads now, with their leader epochs."""
        return {tp: claim.epoch for tp, claim in self._claims.items() if claim.serving}

    @property
    def errors(self) -> dict[TopicPartition, str]:
        """Why topic-partitions could not be led last time."""
        return {tp: claim.last_error for tp, claim in self._claims.items() if claim.last_error}

    async def start(self) -> None:
        """Begin to claim; the view must have started."""
        self._unsubscribe = self._view.subscribe(self._changed)
        self._look_at_all()

    async def drain(self) -> None:
        """Give everything up, letting holders acknowledge for up to ``drain_ms``.

        Set the member to draining first: then the controller names new leaders, each partition
        goes soon after it has one, in turn, and whatever has none after ``hand_over_ms`` goes to
        its standbys. Returns when all claims are free.
        """
        await self._view.wait_for(self._nothing_to_await, timeout_ms=self._settings.hand_over_ms)
        if not self._has_successor():
            self._turns.departures.hurry()  # the whole cluster ends: nobody takes over
        self._withdraw()
        for claim in tuple(self._claims.values()):
            await claim.settled.wait()

    async def close(self) -> None:
        """Give everything up and end."""
        self._turns.departures.hurry()
        self._withdraw()
        await self._until_stopped()
        if self._unsubscribe is not None:
            self._unsubscribe()
        await cancel_and_wait(*self._tasks.values())
        await self._turns.writer.close()
        if self._failure is not None:
            raise self._failure

    def _withdraw(self) -> None:
        self._watch.withdraw()
        self._wake_all()

    def _nothing_to_await(self) -> bool:
        """Return whether no controller is about to name a next leader for what is led here."""
        node = self._member.node
        to_be_named = self._view.controller() is not None and self._has_successor()
        if not node.draining or not to_be_named:
            return True
        assigned = (self._watch.assignment(partition) for partition in self.led)
        return all(found is None or found.value.leader != node.node_id for found in assigned)

    def _has_successor(self) -> bool:
        """Return whether some other share leader is there to stay."""
        return any(
            other.node_id != self._member.node.node_id and not other.draining
            for other in self._view.nodes_with(Role.SHARE_LEADER)
        )

    def _changed(self, changes: StateChanges) -> None:
        if changes.everything or changes.members or changes.topics or changes.deletions:
            self._look_at_all()
            return
        for partition in changes.partitions:
            self._look_at(partition)

    def _look_at_all(self) -> None:
        if self._unsubscribe is None:
            return
        for partition in self._view.tables.assignments:
            self._look_at(partition)
        self._wake_all()

    def _look_at(self, partition: TopicPartition) -> None:
        claim = self._claims.get(partition)
        if claim is not None:
            claim.wake.set()
        elif self._watch.concerns(partition):
            claim = PartitionClaim(
                partition, self._coordination, self._watch, self._host, self._turns
            )
            self._claims[partition] = claim
            task = asyncio.create_task(claim.run(), name=f"claim {partition.partition}")
            self._tasks[partition] = task
            task.add_done_callback(lambda done: self._finished(partition, done))
            self._member.vital(task)

    def _finished(self, partition: TopicPartition, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(partition, None)
        self._claims.pop(partition, None)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        elif self._watch.concerns(partition) and not task.cancelled():
            self._look_at(partition)  # it changed while the task was ending

    def _wake_all(self) -> None:
        for claim in self._claims.values():
            claim.wake.set()

    def _ended(self, partition: TopicPartition) -> None:
        claim = self._claims.get(partition)
        if claim is not None:
            claim.end()

    async def _until_stopped(self) -> None:
        for claim in tuple(self._claims.values()):
            await claim.stopped.wait()
