"""One topic-partition's life in one share leader: claim, lead, let go; or free a deleted one."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sharemesh.cluster.claims.claim_policy import ClaimPolicy
from sharemesh.cluster.claims.claim_store import ClaimStore, HeldClaim
from sharemesh.cluster.claims.claim_writer import ClaimWriter
from sharemesh.cluster.claims.drain_pacer import DrainPacer
from sharemesh.cluster.elections.shard_term import FENCE_ATTEMPTS
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import PartitionHost
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    Session,
    SessionLostError,
)
from sharemesh.ports.shard_log import FencedError
from sharemesh.tasks import cancel_and_wait

_log = logging.getLogger(__name__)

STALE_VIEW_WAIT_MS = 100  # after a lost race: the view is about to show the winner


@dataclass(frozen=True, slots=True)
class ClaimTurns:
    """What the claims of this process share: how much goes on at once, and how it is written."""

    writer: ClaimWriter
    departures: DrainPacer
    led: Callable[[], int]
    claims: asyncio.Semaphore
    starts: asyncio.Semaphore


class PartitionClaim:
    """Runs until the partition concerns this process no more.

    ``stopped`` is set while nothing is led, ``settled`` once the claim is given back too.
    """

    def __init__(
        self,
        partition: TopicPartition,
        coordination: Coordination,
        watch: ClaimPolicy,
        host: PartitionHost,
        turns: ClaimTurns,
    ) -> None:
        self.partition = partition
        self.epoch = 0
        self.serving = False
        self.last_error = ""
        self.wake = asyncio.Event()
        self.stopped = asyncio.Event()
        self.stopped.set()
        self.settled = asyncio.Event()
        self.settled.set()
        self._store = ClaimStore(partition, coordination, watch, turns.writer)
        self._watch = watch
        self._host = host
        self._turns = turns
        self._name = self._store.name
        self._ended = False
        self._backoff_ms = watch.settings.backoff_min_ms
        self._retry_ms = 0

    def end(self) -> None:
        """The host says that the leader epoch ended by itself (fenced, disk)."""
        if self.serving:
            self._ended = True
            self.wake.set()

    async def run(self) -> None:
        """Claim and lead for as long as the assignment says so."""
        vacant_since_ms = self._watch.clock.now_ms()
        while True:
            self.wake.clear()
            session = self._watch.member.session
            step = self._watch.next_step(self.partition, vacant_since_ms)
            if step.idle:
                return
            if session is None:
                await self._wait(None)
            elif step.wait_ms == 0 and self._retry_ms <= self._watch.clock.now_ms():
                await self._take(session)
                vacant_since_ms = self._watch.clock.now_ms()
            else:
                left_ms = max(self._retry_ms - self._watch.clock.now_ms(), step.wait_ms or 0, 1)
                await self._wait(left_ms)

    async def _take(self, session: Session) -> None:
        try:
            async with self._turns.claims:
                held = await self._store.take(session)
            if held is None:
                await self._wait(STALE_VIEW_WAIT_MS)
            elif self._watch.deleted(self.partition):
                await self._free(held)
            elif self._watch.withdrawn:
                await self._store.hand_over(held)
            else:
                self.settled.clear()
                await self._lead(held)
        except SessionLostError as error:
            self.last_error = str(error)
            await self._wait(STALE_VIEW_WAIT_MS)
        except CoordinationError as error:
            self.last_error = str(error)
            self._retry_ms = self._watch.clock.now_ms() + self._watch.settings.store_retry_ms
        except Exception as error:  # the host could not stop; what it does is fenced
            self.last_error = f"{type(error).__name__}: {error}"
            _log.exception("partition %s: given up", self._name)
            self._back_off()
        finally:
            self.settled.set()

    # ---- leading ---------------------------------------------------------------------------------

    async def _lead(self, held: HeldClaim) -> None:
        self.stopped.clear()
        self._ended = False
        drain_ms = 0
        try:
            async with self._turns.starts:
                started = await self._start(held)
            failed = not started
            if started:
                self.serving, self.last_error = True, ""
                self._backoff_ms = self._watch.settings.backoff_min_ms
                await self._store.note_trouble(held.session, "")
                await self._serve(held)
                failed = self._ended
                if not failed and not self._watch.deleted(self.partition):
                    drain_ms = self._watch.settings.drain_ms
        finally:
            self.serving = False
            try:
                await self._stop(held.session, drain_ms)
            finally:
                self.stopped.set()
        if not held.session.valid:
            return
        if failed:
            why = self.last_error or "its epoch ended (fenced, or disk)"
            _log.warning("partition %s epoch %d: not led: %s", self._name, self.epoch, why)
            await self._store.note_trouble(held.session, why)
            self._back_off()
        if self._watch.deleted(self.partition):
            await self._free(held)
        else:
            await (self._store.give_up(held) if failed else self._store.hand_over(held))
            self.settled.set()
            await self._wait(STALE_VIEW_WAIT_MS)

    async def _start(self, held: HeldClaim) -> bool:
        """Start under the claim's epoch, which serves once, or above it."""
        # Who is cut off from the store sees its old claim for a while. Should the topic have been
        # deleted meanwhile, no fence is left: to start anew would leave files that nobody frees.
        above = self.epoch if held.epoch <= self.epoch else 0
        for attempt in range(FENCE_ATTEMPTS):
            if above and not await self._store.raise_epoch(held, above):
                return False
            self.epoch = held.epoch
            try:
                return await self._start_once(held)
            except FencedError as error:
                # A store that was restored from a backup is behind the data: go above it.
                self.last_error = f"fenced: {error}"
                above = max(error.fence_epoch, held.epoch + (1 << attempt) - 1)
            except Exception as error:
                self.last_error = f"{type(error).__name__}: {error}"
                return False
        return False

    async def _start_once(self, held: HeldClaim) -> bool:
        if not held.session.valid:
            return False
        starting = asyncio.create_task(self._host.start_partition(self.partition, held.epoch))
        lost = asyncio.create_task(held.session.lost())
        try:
            await asyncio.wait({starting, lost}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done() or not held.session.valid:
                return False
            starting.result()
            return True
        finally:
            lost.cancel()
            await cancel_and_wait(starting)

    async def _serve(self, held: HeldClaim) -> None:
        lost = asyncio.create_task(held.session.lost())
        turn_ms: float | None = None
        try:
            while held.session.valid and not self._ended:
                self.wake.clear()
                left_ms: int | None = None
                if self._watch.has_seen(self.partition, held.revision, held.generation):
                    if not self._watch.holds(self.partition, held.session.lease_id):
                        self._ended = True
                        self.last_error = "the claim vanished from the coordination store"
                        return
                    if self._watch.deleted(self.partition):
                        return
                    if not self._watch.should_let_go(self.partition):
                        turn_ms = None
                    else:
                        departures = self._turns.departures
                        if turn_ms is None:
                            turn_ms = departures.turn_ms(self._turns.led())
                        left_ms = departures.left_ms(turn_ms)
                        if left_ms == 0:
                            return
                elif self._watch.withdrawn:
                    return
                await self._wait(left_ms, lost)
        finally:
            lost.cancel()

    async def _stop(self, session: Session, drain_ms: int) -> None:
        """Stop; a drain is cut short when the session is lost."""
        if drain_ms and session.valid:
            draining = asyncio.create_task(
                self._host.stop_partition(self.partition, drain_ms=drain_ms)
            )
            lost = asyncio.create_task(session.lost())
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

    # ---- waiting ---------------------------------------------------------------------------------

    def _back_off(self) -> None:
        self._retry_ms = self._watch.clock.now_ms() + self._backoff_ms
        self._backoff_ms = min(self._backoff_ms * 2, self._watch.settings.backoff_max_ms)

    async def _wait(
        self, duration_ms: int | None, other: "asyncio.Task[Any] | None" = None
    ) -> None:
        """Return on wake, after ``duration_ms`` (None: no limit) or when ``other`` is done."""
        tasks: set[asyncio.Task[Any]] = {asyncio.create_task(self.wake.wait())}
        if duration_ms is not None:
            tasks.add(asyncio.create_task(self._watch.clock.sleep_ms(duration_ms)))
        try:
            waits = tasks if other is None else {*tasks, other}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
