"""One shard's life in one process: wait for the turn, campaign, raise the epoch, serve, resign."""

import asyncio
import logging

from sharemesh.cluster.elections.candidate_ranking import CandidateRanking
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import election_name
from sharemesh.domain.ids import NodeId
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardHost
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    ElectedLeadership,
    Guard,
    Put,
    Session,
    SessionLostError,
)
from sharemesh.ports.shard_log import FencedError
from sharemesh.tasks import cancel_and_wait

_log = logging.getLogger(__name__)

EPOCH_MAX = 2**31 - 1
FENCE_ATTEMPTS = 20
GUARD_ATTEMPTS = 5


class ShardTerm:
    """Runs for ever in ``run``; ``stopped`` is set whenever nothing of the shard is served."""

    def __init__(
        self,
        shard: int,
        coordination: Coordination,
        member: ClusterMember,
        turns: CandidateRanking,
        host: ShardHost,
        clock: Clock,
    ) -> None:
        self.shard = shard
        self.name = election_name(turns.kind, shard)
        self.epoch = 0
        self.serving = False
        self.last_error = ""
        self.wake = asyncio.Event()
        self.stopped = asyncio.Event()
        self.stopped.set()
        self._coordination = coordination
        self._member = member
        self._turns = turns
        self._host = host
        self._clock = clock
        self._ended = False
        self._failed_ms: int | None = None
        self._vacant_since_ms: int | None = None
        self._backoff_ms = turns.settings.backoff_min_ms

    def end(self) -> None:
        """The host says that the epoch ended by itself (fenced, disk)."""
        if self.serving:
            self._ended = True
            self.wake.set()

    async def run(self) -> None:
        """Campaign and serve, over and over."""
        while True:
            session = await self._await_turn()
            try:
                leadership = await self._campaign(session)
                if leadership is not None:
                    await self._lead(leadership, session)
            except SessionLostError as error:
                self.last_error = str(error)
                await self._wait(self._turns.settings.backoff_min_ms)
            except CoordinationError as error:
                self.last_error = str(error)
                await self._clock.sleep_ms(self._turns.settings.store_retry_ms)
            except Exception as error:  # the term ended, for whatever reason; another may begin
                self.last_error = f"{type(error).__name__}: {error}"
                _log.exception("shard %s: term ended", self.name)
                await self._back_off()

    async def _await_turn(self) -> Session:
        while True:
            self.wake.clear()
            leader = self._turns.view.tables.leader_of(self.name)
            if leader is not None:
                self._vacant_since_ms = None
            elif self._vacant_since_ms is None:
                self._vacant_since_ms = self._clock.now_ms()
            session = self._member.session
            wait_ms = self._turns.wait_ms(self.shard, self._vacant_since_ms)
            if leader is not None and wait_ms == 0:
                wait_ms = self._rest_ms(leader.value)
            if session is not None and wait_ms == 0:
                return session
            await self._wait(None if session is None else wait_ms)

    def _rest_ms(self, leader: NodeId) -> int:
        """Return how long a process that failed lately leaves the shard to a working leader."""
        if self._failed_ms is None or leader == self._member.node.node_id:
            return 0
        rested_ms = self._clock.now_ms() - self._failed_ms
        return max(0, self._turns.settings.failed_rest_ms - rested_ms)

    async def _campaign(self, session: Session) -> ElectedLeadership | None:
        """Stand for election; withdraw when the turn has passed to another."""
        campaign = asyncio.create_task(
            self._coordination.campaign(
                self._turns.view.keys.election(self.name),
                records.encode_candidate(self._member.node.node_id),
                session,
            )
        )
        try:
            while not campaign.done():
                self.wake.clear()
                if self._should_withdraw():
                    return None
                await self._wait(None, campaign)
            return campaign.result()
        finally:
            await cancel_and_wait(campaign)

    def _should_withdraw(self) -> bool:
        if self._turns.withdrawn:
            return True
        me = self._member.node.node_id
        ranks = self._turns.ranks(self.shard)
        leader = self._turns.view.tables.leader_of(self.name)
        return bool(ranks) and ranks[0] != me and leader is not None and leader.value != me

    async def _lead(self, leadership: ElectedLeadership, session: Session) -> None:
        self.stopped.clear()
        self._ended = False
        try:
            if await self._start(leadership, session):
                self.serving = True
                self.last_error = ""
                self._failed_ms = None
                _log.info("shard %s epoch %d: led", self.name, self.epoch)
                self._backoff_ms = self._turns.settings.backoff_min_ms
                await self._serve(leadership, session)
                failed = self._ended
            else:
                failed = session.valid
        finally:
            self.serving = False
            try:
                await self._host.stop_shard(self.shard)
            finally:
                self.stopped.set()
        if session.valid:
            await self._coordination.resign(leadership)
        if failed:
            _log.warning("shard %s epoch %d: not led: %s", self.name, self.epoch, self.last_error)
            self._failed_ms = self._clock.now_ms()
            await self._back_off()

    async def _start(self, leadership: ElectedLeadership, session: Session) -> bool:
        """Have the host take the shard over; above any fence that it finds."""
        above = 0
        for attempt in range(FENCE_ATTEMPTS):
            self.epoch = await self._raise_epoch(leadership, above)
            try:
                return await self._start_once(session)
            except FencedError as error:
                # A store that was restored from a backup is behind the data: go above it.
                above = max(error.fence_epoch, self.epoch + (1 << attempt) - 1)
                self.last_error = f"fenced: {error}"
            except Exception as error:
                self.last_error = f"{type(error).__name__}: {error}"
                return False
        return False

    async def _start_once(self, session: Session) -> bool:
        if not session.valid:
            return False
        starting = asyncio.create_task(self._host.start_shard(self.shard, self.epoch))
        lost = asyncio.create_task(session.lost())
        try:
            await asyncio.wait({starting, lost}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done() or not session.valid:
                return False
            starting.result()
            return True
        finally:
            lost.cancel()
            await cancel_and_wait(starting)

    async def _serve(self, leadership: ElectedLeadership, session: Session) -> None:
        """Return when the shard must be given up."""
        lost = asyncio.create_task(session.lost())
        view, generation = self._turns.view, self._turns.view.generation
        waiting_since_ms: int | None = None
        try:
            while session.valid and not self._ended and not self._turns.withdrawn:
                self.wake.clear()
                if view.election_vanished(self.name, leadership, generation):
                    self.last_error = "the election does not know this leader: etcd was restored?"
                    _log.warning("shard %s: %s", self.name, self.last_error)
                    return
                left_ms: int | None = None
                if not self._turns.preferred_waits(self.shard):
                    waiting_since_ms = None
                else:
                    now_ms = self._clock.now_ms()
                    waiting_since_ms = now_ms if waiting_since_ms is None else waiting_since_ms
                    left_ms = waiting_since_ms + self._turns.settings.stable_ms - now_ms
                    if left_ms <= 0:
                        return
                await self._wait(left_ms, lost)
        finally:
            lost.cancel()

    async def _raise_epoch(self, leadership: ElectedLeadership, above: int) -> int:
        """Return the new epoch, written under the guard of the leadership."""
        key = self._turns.view.keys.epoch(self.name)
        for _ in range(GUARD_ATTEMPTS):
            stored = await self._coordination.get(key)
            known = records.decode_number(stored.value) if stored else 0
            epoch = max(known, above) + 1
            if epoch > EPOCH_MAX:
                raise CoordinationError(
                    f"epoch of shard {self.name} is at its end ({EPOCH_MAX}); check its fences"
                )
            guards = [
                leadership.guard,
                Guard(key, mod_revision=stored.mod_revision if stored else 0),
            ]
            if await self._coordination.commit(guards, [Put(key, records.encode_number(epoch))]):
                return epoch
            mine = await self._coordination.get(leadership.key)
            if mine is None or mine.create_revision != leadership.token:
                raise SessionLostError(f"the leadership of {self.name} is gone")
        raise CoordinationError(f"epoch of {self.name} changes under its leader; it was given up")

    async def _back_off(self) -> None:
        duration_ms = self._backoff_ms
        self._backoff_ms = min(duration_ms * 2, self._turns.settings.backoff_max_ms)
        await self._clock.sleep_ms(duration_ms)

    async def _wait(
        self, duration_ms: int | None, other: "asyncio.Task[object] | None" = None
    ) -> None:
        """Return on wake, after ``duration_ms`` (None: no limit) or when ``other`` is done."""
        tasks: set[asyncio.Task[object]] = {asyncio.create_task(self.wake.wait())}
        if duration_ms is not None:
            tasks.add(asyncio.create_task(self._clock.sleep_ms(duration_ms)))
        try:
            waits = tasks if other is None else {*tasks, other}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
