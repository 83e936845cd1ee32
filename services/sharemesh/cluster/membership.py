"""One process as a member: its session and its registration, kept up over losses."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from sharemesh.cluster.store import records
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo
from sharemesh.ports.coordination import (
    Coordination,
    CoordinationError,
    Guard,
    Put,
    Session,
    SessionLostError,
)
from sharemesh.tasks import cancel_and_wait
from sharemesh.v1.common_pb2 import Node

_log = logging.getLogger(__name__)

TTL_MS = 10_000

START_ATTEMPTS = 3  # sessions that may be lost before the first registration

RETRY_MS = 250

STEP_DOWN_LIMIT_MS = 1_000  # half of the shipped margin: then the lease is revoked regardless


class ClusterMember:
    """Registers ``members/<id>`` under a lease, again whenever the lease was lost.

    While no session is open, ``session`` is None and nothing may be acquired.
    """

    def __init__(
        self,
        coordination: Coordination,
        view: WatchedView,
        node: NodeInfo,
        clock: Clock,
        *,
        ttl_ms: int = TTL_MS,
    ) -> None:
        self._coordination = coordination
        self._view = view
        self._node = node
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._session: Session | None = None
        self._revision = 0
        self._generation = 0
        self._on_lost: list[Callable[[], Awaitable[None]]] = []
        self._on_registered: list[Callable[[], None]] = []
        self._on_lease: list[Callable[[int], None]] = []
        self._on_broken: list[Callable[[str], None]] = []
        self._task: asyncio.Task[None] | None = None
        self.last_error = ""

    @property
    def node(self) -> NodeInfo:
        """What is registered."""
        return self._node

    @property
    def session(self) -> Session | None:
        """The session of the registration, or None while there is none that can be trusted."""
        session = self._session
        return session if session is not None and session.valid else None

    def on_lost(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Register what stops work when the session is lost; it has ``STEP_DOWN_LIMIT_MS``."""
        self._on_lost.append(callback)

    def on_registered(self, callback: Callable[[], None]) -> None:
        """Register what is called after each registration, the first one included."""
        self._on_registered.append(callback)

    def on_lease(self, callback: Callable[[int], None]) -> None:
        """Register a callback for each lease id, called *before* the lease is used."""
        self._on_lease.append(callback)

    def on_broken(self, callback: Callable[[str], None]) -> None:
        """Register a callback for the failure of a vital task; it gets the reason as text."""
        self._on_broken.append(callback)

    def vital(self, task: "asyncio.Task[None]") -> None:
        """Notify ``on_broken`` if the task fails: the process cannot continue without it."""
        task.add_done_callback(self._vital_ended)

    def _vital_ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        _log.error("task %s died", task.get_name(), exc_info=error)
        for callback in tuple(self._on_broken):
            callback(f"{task.get_name()} died: {type(error).__name__}: {error}")

    async def start(self) -> None:
        """Open a session and register.

        Raises:
            CoordinationError: The store does not answer, or another live process has this id, or
                this one is too slow to keep a session for as long as it takes to register.
        """
        await self._open_at_start()
        self._task = asyncio.create_task(self._keep(), name=f"member {self._node.node_id}")
        self.vital(self._task)

    async def draining(self, draining: bool) -> None:  # noqa: FBT001 - the word is the method
        """Set or clear the draining mark of this process in the store."""
        self._node = replace(self._node, draining=draining)
        session = self.session
        if session is not None:
            await self._put(session)

    async def close(self) -> None:
        """Leave: revoke the lease, so that others take over at once. Stop your work first."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_and_wait(task)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _keep(self) -> None:
        while True:
            session = self._session
            assert session is not None
            await self._until_lost(session)
            self._session = None
            _log.warning("node %s: session lost; stepping down", self._node.node_id)
            stopping = await self._step_down()
            await session.close()  # best effort: lets the next one in before the lease runs out
            await self._stopped(stopping)
            while self._session is None:
                try:
                    await self._open()
                except (CoordinationError, SessionLostError) as error:
                    if not self.last_error:
                        _log.warning("node %s: not registered: %s", self._node.node_id, error)
                    self.last_error = str(error)
                    await self._clock.sleep_ms(RETRY_MS)

    async def _until_lost(self, session: Session) -> None:
        """Return when the session is lost; keep the registration meanwhile.

        A registration that vanished under a valid session means a revoked lease, or a store
        that was restored from a backup: putting it again finds out which.
        """
        vanished = asyncio.Event()
        unsubscribe = self._view.on_change(
            lambda: vanished.set() if self._registration_vanished() else None
        )
        lost = asyncio.create_task(session.lost())
        try:
            while not lost.done():
                look = asyncio.create_task(vanished.wait())
                try:
                    await asyncio.wait({lost, look}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    look.cancel()
                if vanished.is_set() and not lost.done():
                    vanished.clear()
                    if not await self._put_again(session):
                        return
        finally:
            lost.cancel()
            unsubscribe()

    def _registration_vanished(self) -> bool:
        stored = self._view.tables.members.get(self._node.node_id)
        seen = self._view.generation > self._generation or (
            self._view.tables.revision >= self._revision
        )
        return stored is None and seen

    async def _put_again(self, session: Session) -> bool:
        try:
            await self._put(session)
        except SessionLostError:
            return False
        except CoordinationError as error:
            self.last_error = str(error)
            await self._clock.sleep_ms(RETRY_MS)
        return True

    async def _step_down(self) -> "asyncio.Future[list[BaseException | None]]":
        """Let all work under the lost session stop, but do not wait for it beyond the limit."""
        stopping = asyncio.gather(
            *(callback() for callback in self._on_lost), return_exceptions=True
        )
        limit = asyncio.create_task(self._clock.sleep_ms(STEP_DOWN_LIMIT_MS))
        waits: list[asyncio.Future[Any]] = [stopping, limit]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()
        return stopping

    async def _stopped(self, stopping: "asyncio.Future[list[BaseException | None]]") -> None:
        """Wait for the other tasks: nothing restarts before all of them have ended."""
        for failure in await stopping:
            if failure is not None:
                self.last_error = f"stepping down: {failure!r}"

    async def _open_at_start(self) -> None:
        for _ in range(START_ATTEMPTS):
            try:
                return await self._open()
            except SessionLostError:
                _log.warning("node %s: session lost while it registered", self._node.node_id)
        raise CoordinationError(
            f"node {self._node.node_id} lost {START_ATTEMPTS} sessions while it registered: it is "
            f"too busy to renew a lease of {self._ttl_ms} ms; give it more processor time, or "
            "raise session_ttl_ms"
        )

    async def _open(self) -> None:
        session = await self._coordination.open_session(ttl_ms=self._ttl_ms)
        try:
            for announce in self._on_lease:
                announce(session.lease_id)
            await self._register(session)
        except BaseException:
            await session.close()
            raise
        self._session = session
        self.last_error = ""
        _log.info("node %s: registered under lease %x", self._node.node_id, session.lease_id)
        for callback in self._on_registered:
            callback()

    async def _register(self, session: Session) -> None:
        """Put the registration; wait for that of a predecessor with the same id to run out."""
        key = self._view.keys.member(self._node.node_id)
        deadline_ms = self._clock.now_ms() + self._ttl_ms * 3 // 2
        while True:
            revision = await self._coordination.commit(
                [Guard(key, create_revision=0)], [self._put_operation()], session=session
            )
            if revision is not None:
                self._note(revision)
                return
            found = await self._coordination.get(key)
            if found is not None and found.lease_id == session.lease_id:
                self._note(found.mod_revision)
                return
            if self._clock.now_ms() >= deadline_ms:
                raise CoordinationError(self._taken(found.value if found else b""))
            await self._clock.sleep_ms(RETRY_MS)

    async def _put(self, session: Session) -> None:
        revision = await self._coordination.commit([], [self._put_operation()], session=session)
        if revision is not None:
            self._note(revision)

    def _put_operation(self) -> Put:
        key = self._view.keys.member(self._node.node_id)
        return Put(key, records.encode_member(self._node), leased=True)

    def _note(self, revision: int) -> None:
        self._revision = revision
        self._generation = self._view.generation

    def _taken(self, value: bytes) -> str:
        try:
            other = records.decode_member(self._node.node_id, value)
            who = f"{other.address} (pid {other.pid})"
        except records.RecordFormatError:
            who = "a live process"
        return (
            f"node id {self._node.node_id!r} is taken by {who}, which keeps its lease alive; "
            "stop it or choose another node id"
        )


def node_message(node: NodeInfo) -> Node:
    """Return a node and where clients reach it; several roles are separated by commas."""
    return Node(
        node_id=node.node_id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        role=",".join(str(role) for role in node.roles),
    )
