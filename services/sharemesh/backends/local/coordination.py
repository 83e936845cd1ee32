"""Coordination inside one process: the semantics of etcd without the network.

For unit tests, simulation and the single-process mode. Time is the Clock's, so leases run out
in virtual time; ``LocalCoordination.cut_off`` plays an unreachable store.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from sharemesh.backends.local.coordination_store import LocalStore, candidate_key, election_prefix
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import (
    GUARDS_MAX,
    OPERATIONS_MAX,
    CoordinationError,
    Delete,
    ElectedLeadership,
    Guard,
    KeyValue,
    Put,
    RangeSnapshot,
    Session,
    SessionLostError,
    WatchEvent,
)
from sharemesh.tasks import cancel_and_wait

_POLL_MS = 250  # how soon a cut-off watch notices that the store is back


class LocalSession:
    """A lease in the store, kept alive every ttl/3 for as long as the store can be reached."""

    def __init__(self, coordination: "LocalCoordination", *, lease_id: int, ttl_ms: int) -> None:
        self._coordination = coordination
        self._lease_id = lease_id
        self._ttl_ms = ttl_ms
        self._margin_ms = max(1_000, ttl_ms // 5)
        self._valid_until_ms = coordination.clock.now_ms() + ttl_ms - self._margin_ms
        self._lost = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._keep_alive(), name=f"keep-alive {lease_id:x}"),
            asyncio.create_task(self._watch_deadline(), name=f"session watchdog {lease_id:x}"),
        ]

    @property
    def lease_id(self) -> int:
        """The id that a parent may revoke."""
        return self._lease_id

    @property
    def valid(self) -> bool:
        """Whether work under this lease may go on now."""
        return not self._lost.is_set() and self._coordination.clock.now_ms() < self._valid_until_ms

    @property
    def trusted_ms(self) -> int:
        """For how long work may go on if no keep-alive is confirmed any more; 0: no longer."""
        left_ms = self._valid_until_ms - self._coordination.clock.now_ms()
        return 0 if self._lost.is_set() else max(0, left_ms)

    async def lost(self) -> None:
        """Return when the lease is lost or can no longer be trusted."""
        await self._lost.wait()

    async def close(self) -> None:
        """Stop and revoke."""
        self._lost.set()
        await cancel_and_wait(*self._tasks)
        if not self._coordination.cut_off:
            self._coordination.store.revoke(self._lease_id)

    def mark_lost(self) -> None:
        """Believe no longer in the lease."""
        self._lost.set()

    async def _keep_alive(self) -> None:
        clock, store = self._coordination.clock, self._coordination.store
        while not self._lost.is_set():
            await clock.sleep_ms(max(1, self._ttl_ms // 3))
            if self._coordination.cut_off:
                continue
            sent_ms = clock.now_ms()
            if not store.keep_alive(self._lease_id):
                self._lost.set()
                return
            self._valid_until_ms = sent_ms + self._ttl_ms - self._margin_ms

    async def _watch_deadline(self) -> None:
        clock = self._coordination.clock
        while not self._lost.is_set():
            left_ms = self._valid_until_ms - clock.now_ms()
            if left_ms <= 0:
                self._lost.set()
                return
            await clock.sleep_ms(left_ms)


class LocalCoordination:
    """One process's connection to a LocalStore; several may share a store."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.clock: Clock = store.clock
        self.cut_off = False
        self._sessions: list[LocalSession] = []

    async def open_session(self, *, ttl_ms: int) -> Session:
        """Grant a lease and keep it alive every ttl/3; margin 20 % (at least 1 s)."""
        await self._reach()
        session = LocalSession(self, lease_id=self.store.grant(ttl_ms), ttl_ms=ttl_ms)
        self._sessions.append(session)
        return session

    async def get(self, key: str) -> KeyValue | None:
        """Return one key, linearizable."""
        await self._reach()
        return self.store.get(key)

    async def list(self, prefix: str) -> RangeSnapshot:
        """Return all keys with this prefix, linearizable."""
        await self._reach()
        return self.store.snapshot(prefix)

    async def commit(
        self,
        guards: Sequence[Guard],
        operations: Sequence[Put | Delete],
        *,
        session: Session | None = None,
    ) -> int | None:
        """Apply all operations if all guards hold; return the revision, or None if not."""
        if len(operations) > OPERATIONS_MAX or len(guards) > GUARDS_MAX:
            raise ValueError(
                f"a transaction of {len(operations)} operations and {len(guards)} guards; "
                f"at most {OPERATIONS_MAX} and {GUARDS_MAX}: split it"
            )
        leased = any(isinstance(operation, Put) and operation.leased for operation in operations)
        if leased and (session is None or not session.valid):
            raise SessionLostError("a leased key needs a valid session; open a new one")
        await self._reach()
        if leased and not self.store.has_lease(_lease_of(session)):
            if isinstance(session, LocalSession):
                session.mark_lost()
            raise SessionLostError("the lease is gone; open a new session")
        return self.store.commit(guards, operations, _lease_of(session))

    async def watch(self, prefix: str) -> AsyncGenerator[RangeSnapshot | WatchEvent, None]:
        """Yield a snapshot, then each change in order; a new snapshot after lost history."""
        await self._until_reachable()
        queue, first = self.store.subscribe(prefix)
        try:
            yield first
            while True:
                event = await queue.get()
                if self.cut_off:
                    await self._until_reachable()
                yield event
        finally:
            self.store.unsubscribe(queue)

    async def campaign(self, election: str, value: bytes, session: Session) -> ElectedLeadership:
        """Return once elected under ``session``; cancelling withdraws."""
        await self._reach()
        if not session.valid:
            raise SessionLostError("campaign without a valid session; open a new one")
        key = candidate_key(election, session.lease_id)
        await self.commit(
            [Guard(key, create_revision=0)], [Put(key, value, leased=True)], session=session
        )
        queue, _ = self.store.subscribe(election_prefix(election))
        lost = asyncio.create_task(session.lost())
        try:
            return await self._wait_for_turn(election, key, queue, lost)
        except BaseException:
            if not self.cut_off:
                self.store.commit([], [Delete(key)], 0)
            raise
        finally:
            lost.cancel()
            self.store.unsubscribe(queue)

    async def resign(self, leadership: ElectedLeadership) -> None:
        """Give a leadership up; the next candidate wins at once."""
        await self.commit([leadership.guard], [Delete(leadership.key)])

    async def revoke(self, lease_id: int) -> None:
        """End somebody's lease at once (a parent that saw its child die)."""
        await self._reach()
        self.store.revoke(lease_id)

    async def close(self) -> None:
        """End this connection's sessions; the store stays."""
        for session in self._sessions:
            await session.close()
        self._sessions.clear()

    async def _wait_for_turn(
        self,
        election: str,
        key: str,
        queue: "asyncio.Queue[WatchEvent]",
        lost: "asyncio.Task[None]",
    ) -> ElectedLeadership:
        while True:
            candidates = self.store.snapshot(election_prefix(election)).entries
            mine = next((entry for entry in candidates if entry.key == key), None)
            if mine is None or lost.done():
                raise SessionLostError(f"the session ended while campaigning for {election}")
            if all(entry.create_revision >= mine.create_revision for entry in candidates):
                return ElectedLeadership(key, mine.create_revision)
            change = asyncio.ensure_future(queue.get())
            try:
                await asyncio.wait({change, lost}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            while self.cut_off and not lost.done():
                await self.clock.sleep_ms(_POLL_MS)

    async def _reach(self) -> None:
        await self.clock.sleep_ms(0)  # as any call over a network, it lets others run
        if self.cut_off:
            raise CoordinationError("the coordination store is cut off (in-process filling)")

    async def _until_reachable(self) -> None:
        while self.cut_off:
            await self.clock.sleep_ms(_POLL_MS)


def _lease_of(session: Session | None) -> int:
    return session.lease_id if session is not None else 0
