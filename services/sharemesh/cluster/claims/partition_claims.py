"""Claims on topic-partitions: a share leader takes what is assigned to it, and nothing else."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sharemesh.backoff import Backoff
from sharemesh.cluster.claims.claim_policy import ClaimPolicy, ClaimSettings, DrainPacer
from sharemesh.cluster.claims.claim_store import ClaimStore, HeldClaim
from sharemesh.cluster.claims.claim_writer import ClaimWriter
from sharemesh.cluster.leadership import Leadership, Leaderships
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import PartitionHost, Role
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    Session,
    SessionLostError,
)
from sharemesh.tasks import cancel_and_wait

_log = logging.getLogger(__name__)

STALE_VIEW_WAIT_MS = 100  # after a lost race: the view is about to show the winner


@dataclass(frozen=True, slots=True)
class ClaimTurns:
    """What the claims of this process share: concurrency limits and the writer of claims."""

    writer: ClaimWriter
    departures: DrainPacer
    led: Callable[[], int]
    claims: asyncio.Semaphore
    starts: asyncio.Semaphore


class PartitionClaim(Leadership[HeldClaim]):
    """Runs until the partition concerns this process no more.

    ``settled`` is set once the claim is given back too.
    """

    def __init__(
        self,
        partition: TopicPartition,
        coordination: Coordination,
        policy: ClaimPolicy,
        host: PartitionHost,
        turns: ClaimTurns,
    ) -> None:
        settings = policy.settings
        backoff = Backoff(settings.backoff_min_ms, settings.backoff_max_ms)
        super().__init__(policy.clock, backoff, settings.unanswered_max_ms)
        self.partition = partition
        self.settled = asyncio.Event()
        self.settled.set()
        self._store = ClaimStore(partition, coordination, policy, turns.writer)
        self._policy = policy
        self._host = host
        self._turns = turns
        self._name = self._store.name
        self._retry_ms = 0

    async def run(self) -> None:
        """Claim and lead for as long as the assignment says so."""
        vacant_since_ms = self._clock.now_ms()
        while True:
            self.wake.clear()
            session = self._policy.member.session
            step = self._policy.next_step(self.partition, vacant_since_ms)
            if step.idle:
                return
            if session is None:
                await self._wait(None)
            elif step.wait_ms == 0 and self._retry_ms <= self._clock.now_ms():
                await self._take(session)
                vacant_since_ms = self._clock.now_ms()
            else:
                left_ms = max(self._retry_ms - self._clock.now_ms(), step.wait_ms or 0, 1)
                await self._wait(left_ms)

    async def _take(self, session: Session) -> None:
        try:
            async with self._turns.claims:
                held = await self._store.take(session)
            if held is None:
                await self._wait(STALE_VIEW_WAIT_MS)
            elif self._policy.deleted(self.partition):
                await self._free(held)
            elif self._policy.detached(self.partition):
                await self._store.give_up(held)
            elif self._policy.withdrawn:
                await self._store.hand_over(held)
            else:
                self.settled.clear()
                await self._hold(held)
        except SessionLostError as error:
            self.last_error = str(error)
            await self._wait(STALE_VIEW_WAIT_MS)
        except CoordinationError as error:
            self.last_error = str(error)
            self._retry_ms = self._clock.now_ms() + self._policy.settings.store_retry_ms
        except Exception as error:  # the host could not stop; what it does is fenced
            self.last_error = f"{type(error).__name__}: {error}"
            _log.exception("partition %s: given up", self._name)
            self._back_off()
        finally:
            self.settled.set()

    # ---- leading ---------------------------------------------------------------------------------

    async def _hold(self, held: HeldClaim) -> None:
        # Who is cut off from the store sees its old claim for a while. Should the topic have been
        # deleted meanwhile, no fence is left: another start would leave files that nobody frees.
        used = max(self.epoch, self._policy.view.lead_above(self.partition))
        failed = await self._lead(held, above=used if held.epoch <= used else 0)
        if not held.session.valid:
            return
        if failed:
            why = self.why_not_led
            _log.warning("partition %s epoch %d: not led: %s", self._name, self.epoch, why)
            await self._store.note_trouble(held.session, why)
            self._back_off()
        if self._policy.deleted(self.partition):
            await self._free(held)
        else:
            given_up = failed or self._policy.detached(self.partition)
            await (self._store.give_up(held) if given_up else self._store.hand_over(held))
            self.settled.set()
            await self._wait(STALE_VIEW_WAIT_MS)

    async def _start(self, held: HeldClaim, above: int) -> bool:
        async with self._turns.starts:
            return await super()._start(held, above)

    async def _raise_epoch(self, held: HeldClaim, above: int) -> int | None:
        """The epoch of a claim serves once: above 0 the claim is written again."""
        if above and not await self._store.raise_epoch(held, above):
            return None
        return held.epoch

    async def _start_host(self, held: HeldClaim) -> None:
        await self._host.start_partition(self.partition, self.epoch, handing_over=held.handing_over)

    async def _serve(self, held: HeldClaim) -> None:
        await self._store.note_trouble(held.session, "")
        lost = asyncio.create_task(held.session.lost())
        turn_ms: float | None = None
        try:
            while held.session.valid and not self._ended:
                self.wake.clear()
                left_ms: int | None = None
                if self._policy.has_seen(self.partition, held.revision, held.generation):
                    if not self._policy.holds(self.partition, held.session.lease_id):
                        self._ended = True
                        self.last_error = "the claim vanished from the coordination store"
                        return
                    if self._policy.gone(self.partition):
                        return
                    if not self._policy.should_let_go(self.partition):
                        turn_ms = None
                    else:
                        departures = self._turns.departures
                        if turn_ms is None:
                            turn_ms = departures.turn_ms(self._turns.led())
                        left_ms = departures.left_ms(turn_ms)
                        if left_ms == 0:
                            return
                elif self._policy.withdrawn:
                    return
                await self._wait(left_ms, lost)
        finally:
            lost.cancel()

    async def _stop_host(self, held: HeldClaim, *, orderly: bool) -> None:
        """Let holders acknowledge if another is to lead; a lost session cuts that short."""
        drain_ms = self._policy.settings.drain_ms
        if orderly and drain_ms and held.session.valid and not self._policy.gone(self.partition):
            draining = asyncio.create_task(
                self._host.stop_partition(
                    self.partition, drain_ms=drain_ms, give_on=partial(self._store.give_on, held)
                )
            )
            lost = asyncio.create_task(held.session.lost())
            try:
                await asyncio.wait({draining, lost}, return_when=asyncio.FIRST_COMPLETED)
                if draining.done():
                    draining.result()
                    return
            finally:
                lost.cancel()
                await cancel_and_wait(draining)
        await self._host.stop_partition(self.partition)

    async def _free(self, held: HeldClaim) -> None:
        """The topic is gone: free its directories, then forget the partition."""
        try:
            await self._host.delete_partition(self.partition)
        except Exception as error:
            self.last_error = f"{type(error).__name__}: {error}"
            self._back_off()
            await self._store.give_up(held)
            return
        await self._store.forget(held)
        await self._wait(STALE_VIEW_WAIT_MS)

    def _back_off(self) -> None:
        self._retry_ms = self._clock.now_ms() + self._rest_ms_after_failure()


class PartitionClaims(Leaderships[TopicPartition, PartitionClaim]):
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
        super().__init__(member, host.on_ended)
        self._coordination = coordination
        self._view = view
        self._clock = clock
        self._host = host
        self._settings = settings or ClaimSettings()
        self._policy = ClaimPolicy(view, member, clock, self._settings)
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
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._failure: BaseException | None = None

    async def start(self) -> None:
        """Begin to claim; the view must have started."""
        self._unsubscribe = self._view.subscribe(self._changed)
        self._review_all()

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
        for claim in tuple(self._lives.values()):
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
        self._policy.withdraw()
        self._wake_all()

    def _nothing_to_await(self) -> bool:
        """Return whether no partition led here still waits for the controller's next leader."""
        node = self._member.node
        to_be_named = self._view.controller() is not None and self._has_successor()
        if not node.draining or not to_be_named:
            return True
        assigned = (self._policy.assignment(partition) for partition in self.led)
        return all(found is None or found.value.leader != node.node_id for found in assigned)

    def _has_successor(self) -> bool:
        """Return whether some other share leader is there to stay."""
        return any(
            other.node_id != self._member.node.node_id and not other.draining
            for other in self._view.nodes_with(Role.SHARE_LEADER)
        )

    def _changed(self, changes: StateChanges) -> None:
        if changes.everything or changes.members or changes.topics or changes.deletions:
            self._review_all()
            return
        for partition in changes.partitions:
            self._review(partition)

    def _registered(self) -> None:
        self._review_all()

    def _review_all(self) -> None:
        if self._unsubscribe is None:
            return
        for partition in self._view.tables.assignments:
            self._review(partition)
        self._wake_all()

    def _review(self, partition: TopicPartition) -> None:
        claim = self._lives.get(partition)
        if claim is not None:
            claim.wake.set()
        elif self._policy.concerns(partition):
            claim = PartitionClaim(
                partition, self._coordination, self._policy, self._host, self._turns
            )
            self._lives[partition] = claim
            task = asyncio.create_task(claim.run(), name=f"claim {partition.partition}")
            self._tasks[partition] = task
            task.add_done_callback(lambda done: self._finished(partition, done))
            self._member.vital(task)

    def _finished(self, partition: TopicPartition, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(partition, None)
        self._lives.pop(partition, None)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        elif self._policy.concerns(partition) and not task.cancelled():
            self._review(partition)  # it changed while the task was ending
