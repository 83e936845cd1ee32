"""One topic-partition's life in one share leader: claim, lead, let go; or free a deleted one."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sharemesh.cluster import records
from sharemesh.cluster.claim_decision import ClaimWatch
from sharemesh.cluster.claim_writer import ClaimWriter
from sharemesh.cluster.departures import Departures
from sharemesh.cluster.keys import partition_path
from sharemesh.cluster.records import Assignment, AssignmentState, Claim, Trouble
from sharemesh.cluster.shard_term import EPOCH_MAX, FENCE_ATTEMPTS
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import PartitionHost
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    Delete,
    Guard,
    Put,
    Session,
    SessionLostError,
)
from sharemesh.ports.shard_log import FencedError

_log = logging.getLogger(__name__)

STALE_VIEW_WAIT_MS = 100  # after a lost race: the view is about to show the winner


@dataclass(slots=True)
class _Held:
    """A claim in the store."""

    session: Session
    epoch: int
    token: int  # create revision of the claim: guards every write under it
    revision: int
    generation: int


@dataclass(frozen=True, slots=True)
class ClaimTurns:
    """What the claims of this process share: how much goes on at once, and how it is written."""

    writer: ClaimWriter
    departures: Departures
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
        watch: ClaimWatch,
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
        self._coordination = coordination
        self._watch = watch
        self._host = host
        self._turns = turns
        self._keys = watch.view.keys
        self._name = partition_path(partition)
        self._ended = False
        self._noted_trouble = False
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
                held = await self._claim(session)
            if held is None:
                await self._wait(STALE_VIEW_WAIT_MS)
            elif self._watch.deleted(self.partition):
                await self._free(held)
            elif self._watch.withdrawn:
                await self._release(held)
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

    # ---- the claim -------------------------------------------------------------------------------

    async def _claim(self, session: Session) -> _Held | None:
        """Take the claim and raise the leader epoch in one transaction; None: others did."""
        stored = self._watch.assignment(self.partition)
        if stored is None:
            return None
        generation = self._watch.view.generation
        if self._watch.claim(self.partition) is not None:
            return await self._adopt(session, generation)
        assignment = self._raised(stored.value, above=0)
        revision = await self._turns.writer.commit(
            [
                Guard(self._keys.claim(self.partition), create_revision=0),
                Guard(self._keys.assignment(self.partition), mod_revision=stored.mod_revision),
            ],
            self._claim_puts(assignment),
            session=session,
        )
        if revision is None:
            return None
        _log.debug("partition %s epoch %d: claimed", self._name, assignment.leader_epoch)
        return _Held(session, assignment.leader_epoch, revision, revision, generation)

    async def _adopt(self, session: Session, generation: int) -> _Held | None:
        """Take up our own claim, left by a call whose outcome we did not learn."""
        stored = await self._coordination.get(self._keys.claim(self.partition))
        if stored is None or stored.lease_id != session.lease_id:
            return None
        epoch = records.decode_claim(stored.value).leader_epoch
        return _Held(session, epoch, stored.create_revision, stored.mod_revision, generation)

    def _raised(self, assignment: Assignment, *, above: int) -> Assignment:
        epoch = max(assignment.leader_epoch, above) + 1
        if epoch > EPOCH_MAX:
            raise CoordinationError(
                f"leader epoch of {self._keys.assignment(self.partition)} is at its end "
                f"({EPOCH_MAX}); check its fences"
            )
        me = self._watch.me
        return replace(
            assignment,
            leader=me,
            standbys=tuple(node_id for node_id in assignment.standbys if node_id != me),
            leader_epoch=epoch,
            state=AssignmentState.SERVING,
        )

    def _claim_puts(self, assignment: Assignment) -> list[Put]:
        claim = Claim(assignment.leader, assignment.leader_epoch)
        return [
            Put(self._keys.claim(self.partition), records.encode_claim(claim), leased=True),
            Put(self._keys.assignment(self.partition), records.encode_assignment(assignment)),
        ]

    async def _raise_epoch(self, held: _Held, above: int) -> bool:
        """Go above a fence that was found; False if the assignment is no longer ours."""
        stored = await self._coordination.get(self._keys.assignment(self.partition))
        if stored is None:
            return False
        found = records.decode_assignment(stored.value)
        if found.leader != self._watch.me:
            return False
        assignment = self._raised(found, above=above)
        claim = Guard(self._keys.claim(self.partition), create_revision=held.token)
        revision = await self._coordination.commit(
            [claim, Guard(stored.key, mod_revision=stored.mod_revision)],
            self._claim_puts(assignment),
            session=held.session,
        )
        if revision is None:
            return False
        held.epoch, held.revision = assignment.leader_epoch, revision
        return True

    async def _release(self, held: _Held) -> None:
        key = self._keys.claim(self.partition)
        await self._turns.writer.commit([Guard(key, create_revision=held.token)], [Delete(key)])
        self._watch.note_released(self.partition, held.token)
        _log.debug("partition %s epoch %d: claim given back", self._name, held.epoch)

    # ---- leading ---------------------------------------------------------------------------------

    async def _lead(self, held: _Held) -> None:
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
                await self._note_trouble(held, "")
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
            await self._note_trouble(held, why)
            self._back_off()
        if self._watch.deleted(self.partition):
            await self._free(held)
        else:
            await self._release(held)
            self.settled.set()
            await self._wait(STALE_VIEW_WAIT_MS)

    async def _start(self, held: _Held) -> bool:
        for attempt in range(FENCE_ATTEMPTS):
            self.epoch = held.epoch
            try:
                return await self._start_once(held)
            except FencedError as error:
                # A store that was restored from a backup is behind the data: go above it.
                self.last_error = f"fenced: {error}"
                above = max(error.fence_epoch, held.epoch + (1 << attempt) - 1)
                if not await self._raise_epoch(held, above):
                    return False
            except Exception as error:
                self.last_error = f"{type(error).__name__}: {error}"
                return False
        return False

    async def _start_once(self, held: _Held) -> bool:
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
            if not starting.done():
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)

    async def _serve(self, held: _Held) -> None:
        lost = asyncio.create_task(held.session.lost())
        turn_ms: float | None = None
        try:
            while held.session.valid and not self._ended:
                self.wake.clear()
                left_ms: int | None = None
                if self._watch.has_seen(held.revision, held.generation):
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
                if not draining.done():
                    draining.cancel()
                    await asyncio.gather(draining, return_exceptions=True)
        await self._host.stop_partition(self.partition)

    async def _free(self, held: _Held) -> None:
        """The topic is gone: free its directories, then forget the partition."""
        try:
            await self._host.delete_partition(self.partition)
        except Exception as error:
            self.last_error = f"{type(error).__name__}: {error}"
            self._back_off()
            await self._release(held)
            return
        claim = Guard(self._keys.claim(self.partition), create_revision=held.token)
        await self._coordination.commit(
            [claim],
            [
                Delete(self._keys.claim(self.partition)),
                Delete(self._keys.assignment(self.partition)),
                Delete(self._keys.trouble(self.partition)),
            ],
        )
        self._watch.note_released(self.partition, held.token)
        await self._wait(STALE_VIEW_WAIT_MS)

    # ---- waiting ---------------------------------------------------------------------------------

    async def _note_trouble(self, held: _Held, why: str) -> None:
        """Say in the store why the partition is not led, for whoever asks the cluster."""
        key = self._keys.trouble(self.partition)
        if why:
            self._noted_trouble = True
            value = records.encode_trouble(Trouble(self._watch.me, why))
            await self._coordination.commit(
                [], [Put(key, value, leased=True)], session=held.session
            )
        elif self._noted_trouble:
            self._noted_trouble = False
            await self._coordination.commit([], [Delete(key)])

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
