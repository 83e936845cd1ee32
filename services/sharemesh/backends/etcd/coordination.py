"""The Coordination port on etcd; the unknown outcome of a transaction is read back."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from aetcd import rpc

from sharemesh.backends.etcd import session as sessions
from sharemesh.backends.etcd.connection import (
    EtcdConnection,
    EtcdLogin,
    EtcdMessage,
    EtcdRefusedError,
    EtcdTls,
)
from sharemesh.backends.etcd.watch import follow, range_end, read_key, read_prefix, watch_prefix
from sharemesh.backends.leases import needs_lease
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

COMMIT_ATTEMPTS = 4


class EtcdCoordination:
    """Sessions, elections, watches and guarded transactions over etcd's wire stubs."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        clock: Clock,
        rng: random.Random,
        tls: EtcdTls | None = None,
        login: EtcdLogin | None = None,
    ) -> None:
        self._connection = EtcdConnection(endpoints, clock=clock, rng=rng, tls=tls, login=login)
        self._sessions: list[sessions.EtcdSession] = []

    async def open_session(self, *, ttl_ms: int) -> Session:
        """Grant a lease and keep it alive every ttl/3; margin 20 % (at least 1 s)."""
        session = await sessions.open_session(self._connection, ttl_ms=ttl_ms)
        self._sessions = [known for known in self._sessions if known.valid]
        self._sessions.append(session)
        return session

    async def get(self, key: str) -> KeyValue | None:
        """Return one key, linearizable."""
        return await read_key(self._connection, key)

    async def list(self, prefix: str) -> RangeSnapshot:
        """Return all keys with this prefix, linearizable."""
        return await read_prefix(self._connection, prefix)

    async def commit(
        self,
        guards: Sequence[Guard],
        operations: Sequence[Put | Delete],
        *,
        session: Session | None = None,
    ) -> int | None:
        """Apply all operations if all guards hold; return the revision, or None if not."""
        leased = needs_lease(guards, operations, session)
        lease_id = session.lease_id if session is not None else 0
        try:
            return await Transaction(self._connection, guards, operations, lease_id).run()
        except EtcdRefusedError as error:
            if "lease not found" not in error.details or not leased:
                raise
            if isinstance(session, sessions.EtcdSession):
                session.mark_lost("etcd does not know the lease")
            raise SessionLostError(f"lease {lease_id:x} is gone; open a new session") from error

    def watch(self, prefix: str) -> AsyncGenerator[RangeSnapshot | WatchEvent, None]:
        """Yield a snapshot, then each change in order; a new snapshot after lost history."""
        return watch_prefix(self._connection, prefix)

    async def campaign(self, election: str, value: bytes, session: Session) -> ElectedLeadership:
        """Return once elected under ``session``; cancelling withdraws.

        One candidate key a lease, ordered by create revision; each waits for the one before it
        to vanish, so that a change of leader wakes one candidate, not all.
        """
        prefix = election.rstrip("/") + "/"
        key = f"{prefix}{session.lease_id:x}"
        try:
            token = await self._stand(key, value, session)
            await self._until_first(prefix, token, session)
        except BaseException:
            if session.valid:
                await self._withdraw(key)
            raise
        return ElectedLeadership(key, token)

    async def resign(self, leadership: ElectedLeadership) -> None:
        """Give a leadership up; the next candidate wins at once."""
        await self.commit([leadership.guard], [Delete(leadership.key)])

    async def revoke(self, lease_id: int) -> None:
        """Revoke another process's lease (a parent does so when its child dies)."""
        await sessions.revoke(self._connection, lease_id)

    async def close(self) -> None:
        """Close connections; sessions end."""
        for session in self._sessions:
            if session.valid:
                await session.close()
        self._sessions.clear()
        await self._connection.close()

    async def _stand(self, key: str, value: bytes, session: Session) -> int:
        revision = await self.commit(
            [Guard(key, create_revision=0)], [Put(key, value, leased=True)], session=session
        )
        if revision is not None:
            return revision
        known = await self.get(key)  # we stood already, under the same lease
        if known is None:
            raise SessionLostError(f"candidate {key} vanished while standing for election")
        return known.create_revision

    async def _until_first(self, prefix: str, token: int, session: Session) -> None:
        backoff = self._connection.backoff()
        request = rpc.RangeRequest(
            key=prefix.encode(),
            range_end=range_end(prefix),
            max_create_revision=token - 1,
            limit=1,
            sort_order=rpc.RangeRequest.DESCEND,
            sort_target=rpc.RangeRequest.CREATE,
        )
        while True:
            if not session.valid:
                raise SessionLostError(f"the session ended while campaigning under {prefix}")
            try:
                answer = await self._connection.call(lambda endpoint: endpoint.kv.Range, request)
            except EtcdRefusedError:
                raise
            except CoordinationError:
                await self._connection.clock.sleep_ms(
                    backoff.next_ms()
                )  # the candidacy stands for as long as the lease does
                continue
            backoff.reset()
            if not answer.kvs:
                return
            await self._until_deleted(answer.kvs[0].key, answer.header.revision + 1, session)

    async def _until_deleted(self, key: bytes, from_revision: int, session: Session) -> None:
        """Return when the key is deleted, the watch broke (look again) or the session ended."""

        async def deleted() -> None:
            changes = follow(self._connection, key, b"", from_revision=from_revision, resume=False)
            async with aclosing(changes):
                async for event in changes:
                    if event.current is None:
                        return

        waits = {asyncio.create_task(deleted()), asyncio.create_task(session.lost())}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel_and_wait(*waits)

    async def _withdraw(self, key: str) -> None:
        try:
            await self.commit([], [Delete(key)])
        except CoordinationError:
            return  # the lease takes the candidate along; elections adopt a leftover one


class Transaction:
    """One set of guards and operations, and its outcome."""

    def __init__(
        self,
        connection: EtcdConnection,
        guards: Sequence[Guard],
        operations: Sequence[Put | Delete],
        lease_id: int,
    ) -> None:
        self._connection = connection
        self._operations = operations
        self._lease_id = lease_id
        self._request = rpc.TxnRequest(
            compare=[_compare(guard) for guard in guards],
            success=[self._operation(operation) for operation in operations],
        )

    async def run(self) -> int | None:
        """Return the revision at which it was applied, or None if a guard does not hold.

        Repeating is safe: the guards refuse a second application, or there are none and the
        operations are the same. After a broken attempt a refusal may be our own doing, so the
        keys are read back before it is believed.

        Raises:
            CoordinationError: No answer, and the keys could not be read back either.
        """
        backoff = self._connection.backoff()
        unknown: CoordinationError | None = None
        for _ in range(COMMIT_ATTEMPTS):
            try:
                answer = await self._connection.call(
                    lambda endpoint: endpoint.kv.Txn, self._request, attempts=1
                )
            except EtcdRefusedError:
                raise
            except CoordinationError as error:
                unknown = error
                await self._connection.clock.sleep_ms(backoff.next_ms())
                continue
            if answer.succeeded:
                return int(answer.header.revision)
            return None if unknown is None else await self._read_back()
        assert unknown is not None
        applied = await self._read_back()
        if applied is None:
            raise CoordinationError(f"the outcome of a write is unknown: {unknown}")
        return applied

    async def _read_back(self) -> int | None:
        """Return the revision at which our values stand, or None if they do not all stand.

        All puts of one transaction share one revision, and leased ones carry their lease: both
        together tell our write from an equal one of somebody else. The keys are read one by one at
        the revision of the first read: etcd before 3.5.5 ends itself when the deadline of a
        transaction that only reads passes while it is at work, as it does where writes are late.
        """
        read_at = 0
        revisions: set[int] = set()
        for operation in self._operations:
            answer = await self._connection.call(
                lambda endpoint: endpoint.kv.Range, _read(operation, read_at)
            )
            read_at = read_at or int(answer.header.revision)
            stored = answer.kvs
            if isinstance(operation, Delete):
                if stored:
                    return None
                continue
            if (
                not stored
                or stored[0].value != operation.value
                or stored[0].lease != self._lease_of(operation)
            ):
                return None
            revisions.add(stored[0].mod_revision)
        if len(revisions) > 1:
            return None
        return revisions.pop() if revisions else read_at

    def _lease_of(self, put: Put) -> int:
        return self._lease_id if put.leased else put.lease_id

    def _operation(self, operation: Put | Delete) -> EtcdMessage:
        key = operation.key.encode()
        if isinstance(operation, Put):
            lease_id = self._lease_of(operation)
            return rpc.RequestOp(
                request_put=rpc.PutRequest(key=key, value=operation.value, lease=lease_id)
            )
        end = range_end(operation.key) if operation.prefix else b""
        return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key, range_end=end))


def _compare(guard: Guard) -> EtcdMessage:
    key = guard.key.encode()
    if guard.create_revision is not None:
        return rpc.Compare(
            key=key,
            target=rpc.Compare.CREATE,
            result=rpc.Compare.EQUAL,
            create_revision=guard.create_revision,
        )
    assert guard.mod_revision is not None, f"guard on {guard.key} has no revision"
    return rpc.Compare(
        key=key,
        target=rpc.Compare.MOD,
        result=rpc.Compare.EQUAL,
        mod_revision=guard.mod_revision,
    )


def _read(operation: Put | Delete, revision: int) -> EtcdMessage:
    prefix = isinstance(operation, Delete) and operation.prefix
    return rpc.RangeRequest(
        key=operation.key.encode(),
        range_end=range_end(operation.key) if prefix else b"",
        limit=1,
        revision=revision,
    )
