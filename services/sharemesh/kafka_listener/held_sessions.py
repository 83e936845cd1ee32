"""Share sessions bound to a connection of the listener, as to a HoldSession stream (SES-12)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.tasks import OwnedTasks, first_done
from sharemesh.v1 import share_leader_pb2 as pb

REFUSED_WITHIN_MS = 30_000
"""A session that is refused is refused so late at most."""

_Key = tuple[str, str]


class HeldSessions:
    """The share sessions of one connection, by group and member; they end with it."""

    def __init__(
        self,
        handlers: OfferedHandlers,
        context: CallContext,
        tasks: OwnedTasks,
        clock: Clock,
        limit: int,
    ) -> None:
        self._handlers = handlers
        self._context = context
        self._tasks = tasks
        self._clock = clock
        self._limit = limit
        self._held: dict[_Key, _Hold] = {}

    def __len__(self) -> int:
        return len(self._held)

    async def hold(self, group_id: str, member_id: str) -> None:
        """Bind the member's session, now or as soon as it opens one, to the connection.

        Raises:
            CallFailedError: RESOURCE_EXHAUSTED; the connection, or its principal, has too many.
        """
        key = (group_id, member_id)
        if key in self._held:
            return
        if len(self._held) >= self._limit:
            raise CallFailedError(
                Failure.RESOURCE_EXHAUSTED,
                f"the connection has {self._limit} share sessions, the most that one may have: "
                "use a connection for each consumer",
            )
        hold = _Hold(pb.HoldSessionRequest(group_id=group_id, member_id=member_id))
        serve = self._handlers.stream(methods.HOLD_SESSION)
        self._held[key] = hold
        task = self._tasks.spawn(self._serve(key, hold, serve(hold, self._context)))
        await first_done(hold.taken.wait(), task)
        if hold.error is not None:
            raise hold.error

    async def before_refusal(self, wait_ms: int) -> None:
        """Wait as a fetch would: who hears that there is no room asks again at once (REQ-4)."""
        await self._clock.sleep_ms(min(wait_ms, REFUSED_WITHIN_MS))

    async def end(self, group_id: str, member_id: str) -> None:
        """Bind it no more: it has ended. One that is opened right behind it is bound anew."""
        hold = self._held.pop((group_id, member_id), None)
        if hold is not None:
            await hold.close()

    async def close(self) -> None:
        """End all of them: the connection is lost."""
        for hold in list(self._held.values()):
            await hold.close()

    async def _serve(self, key: _Key, hold: "_Hold", serving: Awaitable[None]) -> None:
        try:
            await serving
        except CallFailedError as error:
            hold.error = error
        finally:
            if self._held.get(key) is hold:
                del self._held[key]


class _Hold:
    """Fills ``ports.network.Stream`` for the server: the client's half is the connection."""

    def __init__(self, first: pb.HoldSessionRequest) -> None:
        self.taken = asyncio.Event()
        self.error: CallFailedError | None = None
        self._first: pb.HoldSessionRequest | None = first
        self._ended = asyncio.Event()

    async def send(self, message: pb.HoldSessionResponse) -> None:
        """The first message says that the session is held; notices mean nothing to the client.

        A refusal is that of the fetch, too, which says it, but for the bound on streams (BND-16).
        """
        if message.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            self.error = CallFailedError(Failure.RESOURCE_EXHAUSTED, message.error_message)
        self.taken.set()

    def __aiter__(self) -> AsyncIterator[pb.HoldSessionRequest]:
        return self

    async def __anext__(self) -> pb.HoldSessionRequest:
        """Return the first message, then end with the connection."""
        first, self._first = self._first, None
        if first is None:
            await self._ended.wait()
            raise StopAsyncIteration
        return first

    async def close(self) -> None:
        """End the stream (see the port)."""
        self._ended.set()
