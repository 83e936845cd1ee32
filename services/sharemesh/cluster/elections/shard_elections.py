"""Elections of coordinator shards: spread over processes, under epochs that only grow."""

import asyncio
import logging
from dataclasses import dataclass

from sharemesh.backoff import Backoff
from sharemesh.cluster.elections.candidate_ranking import CandidateRanking, TermSettings
from sharemesh.cluster.leadership import EPOCH_MAX, Leadership, Leaderships
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import election_name
from sharemesh.cluster.store.seen_records import encode_damage
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import NodeId
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardHost, ShardKind
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    Delete,
    ElectedLeadership,
    Guard,
    Put,
    Session,
    SessionLostError,
)
from sharemesh.ports.shard_log import LossFoundError
from sharemesh.tasks import cancel_and_wait

_log = logging.getLogger(__name__)

GUARD_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _Election:
    """An election that this process has won."""

    leadership: ElectedLeadership
    session: Session


class ShardTerm(Leadership[_Election]):
    """Campaigns for one shard and leads it, for ever in ``run``."""

    def __init__(
        self,
        shard: int,
        coordination: Coordination,
        member: ClusterMember,
        ranking: CandidateRanking,
        host: ShardHost,
        clock: Clock,
    ) -> None:
        settings = ranking.settings
        backoff = Backoff(settings.backoff_min_ms, settings.backoff_max_ms)
        super().__init__(clock, backoff, settings.unanswered_max_ms)
        self.shard = shard
        self.name = election_name(ranking.kind, shard)
        self._coordination = coordination
        self._member = member
        self._ranking = ranking
        self._host = host
        self._failed_ms: int | None = None
        self._vacant_since_ms: int | None = None

    async def run(self) -> None:
        """Campaign and lead, over and over."""
        while True:
            session = await self._await_turn()
            try:
                leadership = await self._campaign(session)
                if leadership is not None:
                    await self._hold(_Election(leadership, session))
            except SessionLostError as error:
                self.last_error = str(error)
                await self._wait(self._ranking.settings.backoff_min_ms)
            except CoordinationError as error:
                self.last_error = str(error)
                await self._clock.sleep_ms(self._ranking.settings.store_retry_ms)
            except Exception as error:  # the term ended, for whatever reason; another may begin
                self.last_error = f"{type(error).__name__}: {error}"
                _log.exception("shard %s: term ended", self.name)
                await self._clock.sleep_ms(self._backoff.next_ms())

    async def _await_turn(self) -> Session:
        while True:
            self.wake.clear()
            leader = self._ranking.view.tables.leader_of(self.name)
            if leader is not None:
                self._vacant_since_ms = None
            elif self._vacant_since_ms is None:
                self._vacant_since_ms = self._clock.now_ms()
            session = self._member.session
            wait_ms = self._ranking.wait_ms(self.shard, self._vacant_since_ms)
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
        return max(0, self._ranking.settings.failed_rest_ms - rested_ms)

    async def _campaign(self, session: Session) -> ElectedLeadership | None:
        """Stand for election; withdraw when the turn has passed to another."""
        campaign = asyncio.create_task(
            self._coordination.campaign(
                self._ranking.view.keys.election(self.name),
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
        if self._ranking.withdrawn:
            return True
        me = self._member.node.node_id
        ranks = self._ranking.ranks(self.shard)
        leader = self._ranking.view.tables.leader_of(self.name)
        return bool(ranks) and ranks[0] != me and leader is not None and leader.value != me

    async def _hold(self, held: _Election) -> None:
        failed = await self._lead(held)
        corruption = self._corruption
        if corruption is not None and not isinstance(corruption, LossFoundError):
            await self._note_damage(held, str(corruption))
        if held.session.valid:
            await self._coordination.resign(held.leadership)
        if failed:
            _log.warning("shard %s epoch %d: not led: %s", self.name, self.epoch, self.why_not_led)
            self._failed_ms = self._clock.now_ms()
            await self._clock.sleep_ms(self._rest_ms_after_failure())

    async def _start_host(self, held: _Election) -> None:  # noqa: ARG002 - the epoch says all
        await self._host.start_shard(self.shard, self.epoch)

    async def _stop_host(self, held: _Election, *, orderly: bool) -> None:
        await self._host.stop_shard(self.shard, orderly=orderly and held.session.valid)

    async def _serve(self, held: _Election) -> None:
        self._failed_ms = None
        _log.info("shard %s epoch %d: led", self.name, self.epoch)
        lost = asyncio.create_task(held.session.lost())
        view, generation = self._ranking.view, self._ranking.view.generation
        waiting_since_ms: int | None = None
        try:
            while held.session.valid and not self._ended and not self._ranking.withdrawn:
                self.wake.clear()
                if view.election_vanished(self.name, held.leadership, generation):
                    self.last_error = "the election does not know this leader: etcd was restored?"
                    _log.warning("shard %s: %s", self.name, self.last_error)
                    return
                await self._note_damage(held, "")
                left_ms: int | None = None
                if not self._ranking.preferred_waits(self.shard):
                    waiting_since_ms = None
                else:
                    now_ms = self._clock.now_ms()
                    waiting_since_ms = now_ms if waiting_since_ms is None else waiting_since_ms
                    left_ms = waiting_since_ms + self._ranking.settings.stable_ms - now_ms
                    if left_ms <= 0:
                        return
                await self._wait(left_ms, lost)
        finally:
            lost.cancel()

    async def _note_damage(self, held: _Election, words: str) -> None:
        """Let everybody know why the log cannot be read, or ("") that it was (STL-30)."""
        if words == self._ranking.view.tables.damages.get(self.name, ""):
            return
        key = self._ranking.view.keys.damaged_log(self.name)
        write = Put(key, encode_damage(words)) if words else Delete(key)
        try:
            await self._coordination.commit([held.leadership.guard], [write])
        except CoordinationError as error:
            _log.debug("shard %s: its damage is not noted now: %s", self.name, error)

    async def _raise_epoch(self, held: _Election, above: int) -> int:
        key = self._ranking.view.keys.epoch(self.name)
        for _ in range(GUARD_ATTEMPTS):
            stored = await self._coordination.get(key)
            known = records.decode_number(stored.value) if stored else 0
            epoch = max(known, above) + 1
            if epoch > EPOCH_MAX:
                raise CoordinationError(
                    f"epoch of shard {self.name} is at its end ({EPOCH_MAX}); check its fences"
                )
            guards = [
                held.leadership.guard,
                Guard(key, mod_revision=stored.mod_revision if stored else 0),
            ]
            if await self._coordination.commit(guards, [Put(key, records.encode_number(epoch))]):
                return epoch
            mine = await self._coordination.get(held.leadership.key)
            if mine is None or mine.create_revision != held.leadership.token:
                raise SessionLostError(f"the leadership of {self.name} is gone")
        raise CoordinationError(f"epoch of {self.name} changes under its leader; it was given up")


class ShardElections(Leaderships[int, ShardTerm]):
    """Campaigns for every shard of one kind and has the host serve those that are won.

    Each shard is a task of its own; ``start`` begins, ``drain`` gives all away, ``close`` ends.
    """

    def __init__(
        self,
        coordination: Coordination,
        member: ClusterMember,
        view: WatchedView,
        clock: Clock,
        *,
        kind: ShardKind,
        host: ShardHost,
        settings: TermSettings | None = None,
    ) -> None:
        super().__init__(member, host.on_ended)
        self._view = view
        self._kind = kind
        self._settings = settings or TermSettings()
        self._ranking = CandidateRanking(view, member, clock, kind, self._settings)
        self._coordination = coordination
        self._clock = clock
        self._host = host
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to campaign; the view must have started."""
        counts = self._view.cluster_record()
        shards = counts.group_shards if self._kind is ShardKind.GROUP else counts.state_shards
        for shard in range(shards):
            self._lives[shard] = ShardTerm(
                shard, self._coordination, self._member, self._ranking, self._host, self._clock
            )
        self._unsubscribe = self._view.subscribe(self._changed)
        self._tasks = [
            asyncio.create_task(term.run(), name=f"election {term.name}")
            for term in self._lives.values()
        ]
        for task in self._tasks:
            self._member.vital(task)

    async def drain(self) -> None:
        """Relinquish every shard and stop campaigning; others take over at once."""
        self._ranking.withdraw()
        self._wake_all()
        await self._until_stopped()

    async def close(self) -> None:
        """Relinquish every shard and end."""
        await self.drain()
        if self._unsubscribe is not None:
            self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _changed(self, changes: StateChanges) -> None:
        if changes.everything or changes.members:
            self._wake_all()
            return
        for shard, term in self._lives.items():
            if election_name(self._kind, shard) in changes.elections:
                term.wake.set()
