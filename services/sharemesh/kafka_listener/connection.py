"""One connection of a Kafka client: requests begin one after the other, answered in order."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, cast

from sharemesh.kafka_listener.frames import FrameReader, RefusedFrameError
from sharemesh.kafka_listener.held_bytes import HeldBytes
from sharemesh.kafka_listener.held_sessions import HeldSessions
from sharemesh.kafka_listener.limits import (
    PRODUCING_MAX,
    SMALL_FRAME_BYTES,
    WRITE_BUFFER_BYTES,
    KafkaListenerLimits,
)
from sharemesh.kafka_listener.login.hashing import source_of
from sharemesh.kafka_listener.login.logins import ConnectionLogin
from sharemesh.kafka_listener.reading_pace import READ_BYTES_PER_S_MIN, ReadingPace
from sharemesh.kafka_listener.served_requests import ServedRequest
from sharemesh.kafka_listener.tls import NamelessCertificateError, principal_of
from sharemesh.kafka_listener.unanswered import HEAD_SEEN_BYTES, wants_no_answer
from sharemesh.kafka_listener.unwritten import Unwritten
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext
from sharemesh.tasks import OwnedTasks, cancel_and_wait
from sharemesh.throttling.call_turns import CallTurns

_log = logging.getLogger(__name__)


class ConnectionOwner(Protocol):
    """What a connection needs of its listener."""

    clock: Clock
    limits: KafkaListenerLimits
    held: HeldBytes
    turns: CallTurns
    tasks: OwnedTasks

    def began(self, connection: "ListenerConnection", peer: str) -> bool:
        """Return whether the connection may stay."""
        ...

    def login(self) -> ConnectionLogin:
        """Return what a connection logs in with."""
        ...

    def named(self, connection: "ListenerConnection") -> None:
        """Hear that the connection has a principal of its own.

        Raises:
            RefusedFrameError: That one has too many.
        """
        ...

    def sessions(self, context: CallContext) -> HeldSessions:
        """Return what binds share sessions to a connection."""
        ...

    async def answer(
        self, frame: bytes, connection: "ListenerConnection", placed: Callable[[], None]
    ) -> Sequence[bytes]:
        """Return the answer to a frame, in pieces; none: it wants no answer.

        ``placed`` is called if only the commit of a Produce is waited for any more.

        Raises:
            RefusedFrameError: There is none; the connection is to be closed.
        """
        ...

    def ended(self, connection: "ListenerConnection", refused: RefusedFrameError | None) -> None:
        """Hear that the connection is over, and why if it was closed here."""
        ...


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A request that has begun, and is not answered."""

    room: int
    """What it has of the held bytes."""
    is_placed: bool = False
    """Whether a Produce may begin behind it."""
    answer: Sequence[bytes] | BaseException | None = None
    """What came of it: sent once those before it are."""
    head: bytes = b""
    """The beginning of its frame, which says whether an answer is wanted."""


class ListenerConnection(asyncio.Protocol):
    """Reads ahead of a request that is handled by one more, no further (spec KLS-3)."""

    context: CallContext
    sessions: HeldSessions

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._limits = owner.limits
        self.login = owner.login()
        self._reader = FrameReader(is_open=self.login.is_open)
        self._around = copy_context()  # what begins next knows nothing of what began before
        self._room = 0  # taken for the frame that is being received
        self._asks_for_room = False
        self._under_way: dict[_UnderWay, asyncio.Task[Sequence[bytes]]] = {}  # the oldest first
        self._heard = False
        self._since_ms = self._opened_ms = owner.clock.now_ms()
        self._takes_more = True  # the transport
        self._unwritten: Unwritten | None = None  # of TLS, whose transport hides what is not sent
        self._unsent_bytes = 0
        self._pace: ReadingPace | None = None
        self._refused: RefusedFrameError | None = None
        self._closed = False
        self._closed_ms = 0
        self._goes_on = False  # the client has gone: what wants no answer is still done

    @property
    def principal(self) -> str:
        """Who is at the other end."""
        return self.context.principal

    # ---- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (asyncio)."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if transport.get_extra_info("sslcontext") is not None:
            self._unwritten = Unwritten()
        peername = transport.get_extra_info("peername")
        peer = peer_name(peername)
        self.login.source = source_of(peername)
        self.context = CallContext(peer, in_span=True)
        self.sessions = self._owner.sessions(self.context)
        if not self._owner.began(self, peer):
            self._closed = True
            self._transport.abort()
            return
        self._look_at(transport.get_extra_info("peercert"))

    def data_received(self, data: bytes) -> None:
        """Take what came (asyncio)."""
        if self._closed:
            return
        if not self._reader.has_begun:
            self._since_ms = self._owner.clock.now_ms() if self._heard else self._since_ms
        self._reader.feed(data)
        self._go_on()

    def pause_writing(self) -> None:
        """The client reads slower than it asks (asyncio)."""
        self._takes_more = False
        self._hold_unsent()

    def resume_writing(self) -> None:
        """What was sent has gone (asyncio)."""
        self._takes_more = True
        self._write_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio asks
        """End: sessions are over, what is handled for an answer is cancelled (asyncio)."""
        self._goes_on = not self._closed
        self._closed = True
        self._owner.tasks.spawn(self._end())

    # ---- the listener's side --------------------------------------------------------------------

    def close(self, refused: RefusedFrameError | None = None) -> None:
        """Close it at once, or behind the last answer; what is handled is cancelled."""
        if self._closed:
            return
        self._closed = True
        self._closed_ms = self._owner.clock.now_ms()
        self._refused = refused
        if refused is not None and refused.last:
            self._transport.write(refused.last)
            self._transport.close()
            return
        self._transport.abort()

    def give_way(self, refused: RefusedFrameError) -> None:
        """Close it at once, also one that waits for its client to take the last answer."""
        self.close(refused)
        self._transport.abort()

    def overdue(self, now_ms: int) -> RefusedFrameError | None:
        """Return why the connection has to be closed, if it waited too long for its client."""
        limits = self._limits
        if not self.login.is_open and now_ms - self._opened_ms >= limits.login_ms:
            return RefusedFrameError(
                "no_login", f"it had not logged in {limits.login_ms} ms after it was opened"
            )
        if self.login.lasts_too_long(limits.login_ms):
            return RefusedFrameError(
                "no_login", f"a login was not done {limits.login_ms} ms after it was begun"
            )
        if self._pace is not None:
            if not self._pace.is_too_slow(self._unsent(), now_ms, limits.frame_ms):
                return None
            return RefusedFrameError(
                "slow_reader",
                f"it did not read its answer within {limits.frame_ms} ms, nor at "
                f"{READ_BYTES_PER_S_MIN} bytes a second",
            )
        if self._under_way or self._asks_for_room:
            return None  # it is we who keep the client waiting
        return self._unasked(now_ms - self._since_ms)

    def drop(self, now_ms: int) -> None:
        """End a connection whose client does not read the last answer."""
        if self._closed and now_ms - self._closed_ms >= self._limits.frame_ms:
            self._transport.abort()

    def _unasked(self, waited_ms: int) -> RefusedFrameError | None:
        """Return why the connection has to be closed, if it asked for nothing for so long."""
        limits = self._limits
        if not self._heard:
            if waited_ms >= limits.first_request_ms:
                return RefusedFrameError(
                    "silent", f"no whole request came within {limits.first_request_ms} ms"
                )
        elif self._reader.has_begun:
            if waited_ms >= limits.frame_ms:
                return RefusedFrameError(
                    "slow_request", f"a request was not whole after {limits.frame_ms} ms"
                )
        elif waited_ms >= limits.idle_ms:
            return RefusedFrameError("idle", f"nothing was asked for {limits.idle_ms} ms")
        return None

    # ---- inside ---------------------------------------------------------------------------------

    def _look_at(self, certificate: Mapping[str, object] | None) -> None:
        """Go on as whom a certificate names, if there is one; or close the connection."""
        try:
            principal = principal_of(certificate)
            if principal != self.principal:
                self._name(principal)
        except NamelessCertificateError as error:
            self.close(RefusedFrameError("tls_failed", str(error)))
        except RefusedFrameError as refused:
            self.close(refused)

    def _name(self, principal: str) -> None:
        """Go on as whom the client has proved to be.

        Raises:
            RefusedFrameError: That principal has too many connections.
        """
        self.context = replace(self.context, principal=principal)
        self.sessions = self._owner.sessions(self.context)
        self._owner.named(self)

    def _has_logged_in(self) -> None:
        """Take every request from now on, as those of whom the login has proved."""
        principal = self.login.principal
        if principal is not None and not self._reader.is_open:
            self._name(principal)
            self._reader.is_open = True

    def _go_on(self) -> None:
        """Begin what came, if it is a whole request and its turn."""
        if self._may_begin():
            frame = self._next()
            if frame is not None:
                self._begin(frame)
        self._read_on()

    def _may_begin(self) -> bool:
        """Return whether the next request may begin; only Produce does beside others (KLS-3)."""
        if self._closed or self._pace is not None:
            return False
        if not self._under_way:
            return True
        if len(self._under_way) >= PRODUCING_MAX or not next(reversed(self._under_way)).is_placed:
            return False
        return self._reader.is_next(ServedRequest.PRODUCE) and self._has_spare_room()

    def _has_spare_room(self) -> bool:
        """Return whether there is room for a whole frame beside those that are under way."""
        if not self._room and self._owner.held.spare(self.principal, self._reader.announced_bytes):
            self._room = self._reader.announced_bytes
        return self._room > 0

    def _next(self) -> bytes | None:
        """Return the next frame, if it is whole; close the connection if it cannot be one."""
        try:
            frame = self._reader.take()
        except RefusedFrameError as refused:
            self.close(refused)
            return None
        self._heard = self._heard or frame is not None
        return frame

    def _read_on(self) -> None:
        """Read unless a whole request waits already, or there is no room for the next one."""
        if self._closed:
            return
        try:
            one_waits = self._reader.is_whole()
        except RefusedFrameError:
            one_waits = True  # it is refused in its turn
        if one_waits or not self._takes_room():
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _takes_room(self) -> bool:
        """Return whether there is room for the frame that is being received."""
        size = self._reader.announced_bytes
        if size <= SMALL_FRAME_BYTES or self._room:
            return True
        if self._asks_for_room:
            return False
        if self._owner.held.take(self, self.principal, size, self._has_room):
            self._room = size
            return True
        self._asks_for_room = True
        return False

    def _has_room(self) -> None:
        self._asks_for_room = False
        self._room = self._reader.announced_bytes
        self._since_ms = self._owner.clock.now_ms()
        if not self._closed:
            self._go_on()

    def _begin(self, frame: bytes) -> None:
        request = _UnderWay(self._room, head=frame[:HEAD_SEEN_BYTES])
        self._room = 0
        self._under_way[request] = self._owner.tasks.spawn_heard(
            self._answer(frame, request), partial(self._ended, request)
        )

    async def _answer(self, frame: bytes, request: _UnderWay) -> Sequence[bytes]:
        await self._owner.turns.turn(self.principal, len(frame))
        if self._closed and not self._is_finished(request):
            return ()
        return await self._owner.answer(frame, self, partial(self._placed, request))

    def _placed(self, request: _UnderWay) -> None:
        """Let the next Produce begin, in another turn of the loop."""
        request.is_placed = True
        asyncio.get_running_loop().call_soon(self._go_on, context=self._around)

    def _ended(self, request: _UnderWay, answer: Sequence[bytes] | BaseException) -> None:
        """Send what is answered, as far as all before it is."""
        request.answer = answer
        while self._under_way:
            oldest = next(iter(self._under_way))
            if oldest.answer is None:
                break
            del self._under_way[oldest]
            self._send(oldest.answer)
            self._owner.held.give_back(self.principal, oldest.room)
        if not self._under_way:
            self._since_ms = self._owner.clock.now_ms()
        self._go_on()

    def _send(self, answer: Sequence[bytes] | BaseException) -> None:
        """Send an answer, or close the connection for want of one."""
        try:
            if isinstance(answer, BaseException):
                raise answer
            self._has_logged_in()
            if answer and not self._closed:
                self._write(answer)
        except RefusedFrameError as refused:
            self.close(refused)
        except asyncio.CancelledError:
            self.close()
        except Exception as error:
            _log.exception("a request of a Kafka client failed")
            self.close(RefusedFrameError("internal", f"{type(error).__name__} here"))

    def _write(self, answer: Sequence[bytes]) -> None:
        if self._unwritten is None:
            self._transport.writelines(answer)
            return
        self._unwritten.add(answer)
        if self._pace is None:
            self._write_on()

    def _write_on(self) -> None:
        """Give the transport what it takes in this turn; once all is sent, go on."""
        if self._closed:
            return
        if self._unwritten is not None:
            self._unwritten.write_to(self._transport, lambda: self._takes_more)
            if self._unwritten.size:
                self._hold_unsent()
                if self._takes_more:
                    asyncio.get_running_loop().call_soon(self._write_on, context=self._around)
                return
        if self._takes_more and self._pace is not None:
            self._has_sent()

    def _unsent(self) -> int:
        """Return how many bytes of answers wait for the client."""
        unwritten = 0 if self._unwritten is None else self._unwritten.size
        return unwritten + self._transport.get_write_buffer_size()

    def _hold_unsent(self) -> None:
        """Count what waits to be sent, until it is."""
        if self._pace is not None:
            return
        size = self._unsent()
        self._pace = ReadingPace(size, self._owner.clock.now_ms())
        if not self._owner.held.add(self.principal, size):
            self.close(RefusedFrameError("slow_reader", "too much waits to be sent to clients"))
            return
        self._unsent_bytes = size

    def _has_sent(self) -> None:
        unsent, self._unsent_bytes = self._unsent_bytes, 0
        self._owner.held.give_back(self.principal, unsent)
        self._pace = None
        if not self._under_way:
            self._since_ms = self._owner.clock.now_ms()
        self._go_on()

    def _is_finished(self, request: _UnderWay) -> bool:
        """Return whether a request is done although the connection has ended (KLS-7)."""
        return self._goes_on and wants_no_answer(request.head)

    async def _end(self) -> None:
        await self.sessions.close()
        finished = {each for each in self._under_way if self._is_finished(each)}
        left = [task for each, task in self._under_way.items() if each in finished]
        await cancel_and_wait(*(t for each, t in self._under_way.items() if each not in finished))
        if left:
            await asyncio.wait(left)  # each ends at the deadline of its method
        self._owner.held.forget(self)
        room = self._room + self._unsent_bytes
        self._room = self._unsent_bytes = 0
        self._owner.held.give_back(self.principal, room)
        self._owner.ended(self, self._refused)


def peer_name(peername: tuple[object, ...] | None) -> str:
    """Return a peer as gRPC names it; unique for each connection."""
    if not peername:
        return "unknown"
    host, port = str(peername[0]), peername[1]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
