"""Elections of coordinator shards: spread over processes, under epochs that only grow."""

import asyncio
from collections.abc import Callable

from sharemesh.cluster.elections.candidate_ranking import CandidateRanking, TermSettings
from sharemesh.cluster.elections.shard_term import ShardTerm
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store.keys import election_name
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardHost, ShardKind
from sharemesh.ports.coordination import Coordination


class ShardElections:
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
        self._member = member
        self._view = view
        self._kind = kind
        self._settings = settings or TermSettings()
        self._turns = CandidateRanking(view, member, clock, kind, self._settings)
        self._terms: dict[int, ShardTerm] = {}
        self._coordination = coordination
        self._clock = clock
        self._host = host
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: Callable[[], None] | None = None
        host.on_ended(self._ended)
        member.on_lost(self._until_stopped)
        member.on_registered(self._wake_all)

    @property
    def led(self) -> dict[int, int]:
        """Shards that this process serves now, with their epochs."""
        return {shard: term.epoch for shard, term in self._terms.items() if term.serving}

    @property
    def errors(self) -> dict[int, str]:
        """Why shards could not be started last time, by shard."""
        return {shard: term.last_error for shard, term in self._terms.items() if term.last_error}

    async def start(self) -> None:
        """Begin to campaign; the view must have started."""
        counts = self._view.cluster_record()
        shards = counts.group_shards if self._kind is ShardKind.GROUP else counts.state_shards
        for shard in range(shards):
            self._terms[shard] = ShardTerm(
                shard, self._coordination, self._member, self._turns, self._host, self._clock
            )
        self._unsubscribe = self._view.subscribe(self._changed)
        self._tasks = [
            asyncio.create_task(term.run(), name=f"election {term.name}")
            for term in self._terms.values()
        ]
        for task in self._tasks:
            self._member.vital(task)

    async def drain(self) -> None:
        """Give up every shard and campaign no more; others take over at once."""
        self._turns.withdraw()
        self._wake_all()
        await self._until_stopped()

    async def close(self) -> None:
        """Give up every shard and end."""
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
        for shard, term in self._terms.items():
            if election_name(self._kind, shard) in changes.elections:
                term.wake.set()

    def _wake_all(self) -> None:
        for term in self._terms.values():
            term.wake.set()

    def _ended(self, shard: int) -> None:
        term = self._terms.get(shard)
        if term is not None:
            term.end()

    async def _until_stopped(self) -> None:
        for term in self._terms.values():
            await term.stopped.wait()
