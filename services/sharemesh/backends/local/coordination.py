"""Coordination inside one process: the semantics of etcd without the network.

For unit tests, simulation and the single-process mode. Time is the Clock's, so leases run out
in virtual time; ``LocalCoordination.cut_off`` plays an unreachable store.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from sharemesh.backends.leases import LeaseSession, needs_lease
from sharemesh.backends.local.coordination_store import LocalStore, candidate_key, election_prefix
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import (
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


class LocalSession(LeaseSession):
    """A lease in the store, kept alive every ttl/3 for as long as the store can be reached."""

    def __init__(self, coordination: "LocalCoordination", *, lease_id: int, ttl_ms: int) -> None:
        self._coordination = coordination
        super().__init__(
            coordination.clock,
            lease_id=lease_id,
            ttl_ms=ttl_ms,
            sent_ms=coordination.clock.now_ms(),
            watchdog_step_ms=ttl_ms,
        )

    async def close(self) -> None:
        """Stop and revoke."""
        self.mark_lost("closed")
        await cancel_and_wait(*self._tasks)
        if not self._coordination.cut_off:
            self._coordination.store.revoke(self._lease_id)

    async def _keep_alive(self) -> None:
        while not self._lost.is_set():
            await self._clock.sleep_ms(max(1, self._ttl_ms // 3))
            if self._coordination.cut_off:
                continue
            sent_ms = self._clock.now_ms()
            if not self._coordination.store.keep_alive(self._lease_id):
                self.mark_lost("the store has ended the lease")
                return
            self._confirmed(sent_ms, self._ttl_ms)


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
        leased = needs_lease(guards, operations, session)
        await self._reach()
        if leased and not self.store.has_lease(_lease_of(session)):
            if isinstance(session, LocalSession):
                session.mark_lost("the store does not know the lease")
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
        """Revoke another process's lease (a parent does so when its child dies)."""
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
