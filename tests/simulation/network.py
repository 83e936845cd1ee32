"""The network port in virtual time, with faults: delay, resets, partitions in one or two ways.

A connection is what one caller has to one address. It keeps order, as TCP does; connections do
not wait for each other. What is sent into a partition waits in the sender's kernel, and is lost
with the connection when the keep-alive gives up.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, CallFailedError, Failure, Stream
from tests.simulation.loop import Process, SimLoop

KEEP_ALIVE_S = (3.0, 12.0)
CONNECT_TIMEOUT_S = 5.0
WINDOW_MESSAGES = 16
WINDOW_BYTES = 4 * 1024 * 1024
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
ANONYMOUS = "User:ANONYMOUS"
FAST_MS = (0.05, 1.5)
SLOW_MS = (5.0, 300.0)

Sink = Callable[[float, str, str, str, bytes], None]


class Host:
    """What listens at one address."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.unary: dict[str, Callable[[Any, CallContext], Awaitable[Any]]] = {}
        self.streams: dict[str, Callable[[Any, CallContext], Awaitable[None]]] = {}


class SimNetwork:
    """All addresses and connections.

    Attributes:
        slow_permille: Messages of a thousand that are late.
        principal_of: Who a client's process is for the servers that it calls.
        sent: Called with (time, from, to, method, bytes) of each message.
    """

    def __init__(self, loop: SimLoop, rng: Random, sent: Sink) -> None:
        self.loop = loop
        self.rng = rng
        self.sent = sent
        self.slow_permille = 0
        self.principal_of: Callable[[Process], str] = lambda _: ANONYMOUS
        self.messages = 0
        self._blocked: set[tuple[str, str]] = set()
        self._cut_s: dict[frozenset[str], float] = {}
        self._hosts: dict[str, Host] = {}
        self._connections: dict[int, Connection] = {}
        self._numbers = itertools.count(1)

    # ---- the port's two sides -------------------------------------------------------------------

    def caller(self, process: Process) -> "SimCaller":
        """Return a new client in a process."""
        return SimCaller(self, process)

    def listener(self, process: Process, address: str) -> "SimListener":
        """Return the server side of an address."""
        host = self._hosts[address] = Host(process)
        return SimListener(host)

    # ---- faults ---------------------------------------------------------------------------------

    def block(self, source: str, target: str) -> None:
        """Let nothing through from one process to another."""
        self._blocked.add((source, target))
        self.lost(source, target)
        for connection in list(self._connections.values()):
            if connection.crosses(source, target):
                limit_s = self.rng.uniform(*KEEP_ALIVE_S)
                self.loop.call_later(limit_s, connection.give_up, context=self.loop.world.context())

    def heal(self) -> None:
        """Let everything through again."""
        for source, target in self._blocked:
            self.lost(source, target)
        self._blocked.clear()
        for connection in list(self._connections.values()):
            connection.flush()

    def blocked(self, source: str, target: str) -> bool:
        """Return whether nothing comes through."""
        return (source, target) in self._blocked

    def was_cut(self, one: str, other: str, since_s: float) -> bool:
        """Return whether what one sent to the other since then may have been held up or lost."""
        if self.blocked(one, other) or self.blocked(other, one):
            return True
        return self._cut_s.get(frozenset((one, other)), float("-inf")) >= since_s

    def cuts(self, one: str) -> dict[str, float]:
        """Return when what was under way between a process and each other was lost last."""
        return {
            other: cut_s
            for pair, cut_s in self._cut_s.items()
            if one in pair
            for other in pair - {one}
        }

    def lost(self, one: str, other: str) -> None:
        """Note that what was under way between two processes may be lost."""
        self._cut_s[frozenset((one, other))] = self.loop.time()

    def killed(self, process: Process) -> None:
        """The kernel of a killed process resets its connections."""
        for connection in list(self._connections.values()):
            if process in (connection.client, connection.server):
                connection.reset("the connection was reset")

    def reset_some(self, share: float) -> None:
        """Reset a part of all connections; what was under way may have been carried out."""
        for connection in list(self._connections.values()):
            if self.rng.random() < share:
                connection.reset("the connection was reset")

    # ---- for connections ------------------------------------------------------------------------

    def host(self, address: str) -> Host | None:
        """Return who listens, if it lives."""
        host = self._hosts.get(address)
        return host if host is not None and host.process.alive else None

    def delay_s(self) -> float:
        """Return how long the next message travels."""
        chance = self.rng.random
        low, high = SLOW_MS if chance() * 1_000 < self.slow_permille else FAST_MS
        return (low + (high - low) * chance()) / 1_000

    def opened(self, connection: "Connection") -> int:
        """Register a connection and return its number."""
        number = next(self._numbers)
        self._connections[number] = connection
        return number

    def closed(self, number: int) -> None:
        """Forget a connection."""
        self._connections.pop(number, None)

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Do something as nobody's process."""
        self.loop.call_at(when_s, action, context=self.loop.world.context())


class _Way:
    """One direction of a connection: in order, late, or held back."""

    def __init__(self, network: SimNetwork, source: str, target: str) -> None:
        self._network = network
        self.source, self.target = source, target
        self._last_s = 0.0
        self._held: deque[Callable[[], None]] = deque()

    def deliver(self, action: Callable[[], None]) -> None:
        if self._held or self._network.blocked(self.source, self.target):
            self._held.append(action)
            return
        self._last_s = max(self._last_s, self._network.loop.time() + self._network.delay_s())
        self._network.at(self._last_s, action)

    @property
    def stuck(self) -> bool:
        return self._network.blocked(self.source, self.target)

    def flush(self) -> None:
        held, self._held = self._held, deque()
        for action in held:
            self.deliver(action)

    def drop(self) -> None:
        self._held.clear()


class Connection:
    """One caller to one address, until it is reset or closed."""

    def __init__(self, network: SimNetwork, client: Process, server: Process) -> None:
        self.network = network
        self.client, self.server = client, server
        self.request_way = _Way(network, client.name, server.name)
        self.response_way = _Way(network, server.name, client.name)
        self.open = True
        self.number = network.opened(self)
        self.at_client: dict[int, Callable[[CallFailedError], None]] = {}
        self.at_server: dict[int, Callable[[], None]] = {}
        self.calls = itertools.count(1)

    def context(self) -> CallContext:
        """Return what a handler knows of its caller."""
        return CallContext(f"sim:{self.number}", self.network.principal_of(self.client))

    def crosses(self, source: str, target: str) -> bool:
        return {source, target} == {self.client.name, self.server.name}

    def flush(self) -> None:
        self.request_way.flush()
        self.response_way.flush()

    def give_up(self) -> None:
        """The keep-alive has waited long enough, if the partition is still there."""
        if self.open and (self.request_way.stuck or self.response_way.stuck):
            self.reset("keep-alive got no answer")

    def reset(self, why: str) -> None:
        """Both ends learn of it, each after a moment of its own."""
        if not self.open:
            return
        self.open = False
        self.network.closed(self.number)
        self.network.lost(self.client.name, self.server.name)
        self.request_way.drop()
        self.response_way.drop()
        now_s = self.network.loop.time()
        self.network.at(now_s + self.network.delay_s(), lambda: self._lost_at_client(why))
        self.network.at(now_s + self.network.delay_s(), self._lost_at_server)

    def _lost_at_client(self, why: str) -> None:
        for lose in list(self.at_client.values()):
            lose(CallFailedError(Failure.UNAVAILABLE, f"to {self.server.name}: {why}"))
        self.at_client.clear()

    def _lost_at_server(self) -> None:
        for lose in list(self.at_server.values()):
            lose()
        self.at_server.clear()


class SimCaller:
    """Fills ``ports.network.Caller``."""

    def __init__(self, network: SimNetwork, process: Process) -> None:
        self._network = network
        self._process = process
        self._connections: dict[str, Connection] = {}
        self._closed = False

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        to: str,
        timeout_ms: int | None = None,
    ) -> Response:
        deadline_ms = method.deadline_ms if timeout_ms is None else timeout_ms
        ended: list[Callable[[], None]] = []
        try:
            async with asyncio.timeout(deadline_ms / 1_000):
                connection, host = await self._connect(method.name, to)
                packed = _packed(request, method.request_bytes_max)
                data = await self._ask(connection, host, method, packed, ended)
        except TimeoutError as error:
            raise CallFailedError(
                Failure.DEADLINE_EXCEEDED, f"{method.name} to {to}: no answer for {deadline_ms} ms"
            ) from error
        finally:
            for end in ended:
                end()
        return method.response.FromString(data)

    async def _ask(
        self,
        connection: Connection,
        host: Host,
        method: Method[Any, Any],
        data: bytes,
        ended: list[Callable[[], None]],
    ) -> bytes:
        network, loop = self._network, self._network.loop
        outcome: asyncio.Future[bytes] = loop.create_future()
        number = next(connection.calls)
        context = connection.context()
        tasks: list[asyncio.Task[Any]] = []

        def fail(error: CallFailedError) -> None:
            if not outcome.done():
                outcome.set_exception(error)
                outcome.exception()

        def lost_at_server() -> None:
            connection.at_server.pop(number, None)
            for task in tasks:
                task.cancel()

        def finished(task: "asyncio.Task[Any]") -> None:
            connection.at_server.pop(number, None)
            if task.cancelled() or not connection.open or not host.process.alive:
                return
            answer = _answer(task, method.name)
            if isinstance(answer, CallFailedError):
                connection.response_way.deliver(lambda: fail(answer))
                return
            packed = _packed(answer)
            network.messages += 1
            network.sent(loop.time(), host.process.name, self._process.name, method.name, packed)
            connection.response_way.deliver(
                lambda: None if outcome.done() else outcome.set_result(packed)
            )

        def arrive() -> None:
            if not connection.open:
                return
            if not host.process.alive:
                connection.reset("nobody listens")
                return
            handler = host.unary.get(method.name)
            if handler is None:
                fail(CallFailedError(Failure.UNIMPLEMENTED, method.name))
                return
            connection.at_server[number] = lost_at_server
            task = host.process.start(
                handle(handler, method.request.FromString(data), context), method.name
            )
            tasks.append(task)
            task.add_done_callback(finished, context=host.process.context())

        def left() -> None:
            connection.at_client.pop(number, None)
            if not outcome.done() or outcome.cancelled():
                connection.request_way.deliver(lost_at_server)

        network.messages += 1
        network.sent(loop.time(), self._process.name, host.process.name, method.name, data)
        connection.at_client[number] = fail
        ended.append(left)
        connection.request_way.deliver(arrive)
        return await outcome

    async def stream(
        self, method: Method[Request, Response], *, to: str
    ) -> Stream[Request, Response]:
        connection, host = await self._connect(method.name, to)
        if method.name not in host.streams:
            await asyncio.sleep(self._network.delay_s())
            raise CallFailedError(Failure.UNIMPLEMENTED, method.name)
        return _open_stream(self._network, connection, host, method)

    async def close(self) -> None:
        self._closed = True
        for connection in self._connections.values():
            connection.reset("closed by the client")
        self._connections.clear()

    async def _connect(self, method: str, to: str) -> tuple[Connection, Host]:
        if self._closed:
            raise CallFailedError(Failure.CANCELLED, f"{method} to {to}: this caller is closed")
        network = self._network
        host = network.host(to)
        if host is None:
            await asyncio.sleep(network.delay_s())
            raise CallFailedError(Failure.UNAVAILABLE, f"{method} to {to}: nobody listens")
        found = self._connections.get(to)
        if found is not None and found.open and found.server is host.process:
            return found, host
        here, there = self._process.name, host.process.name
        if network.blocked(here, there) or network.blocked(there, here):
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise CallFailedError(Failure.UNAVAILABLE, f"{method} to {to}: connecting timed out")
        made = self._connections[to] = Connection(network, self._process, host.process)
        return made, host


class SimListener:
    """Fills ``ports.network.Listener``."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def offer(self, method: Method[Any, Any], handler: Callable[..., Awaitable[Any]]) -> None:
        self._host.unary[method.name] = handler

    def offer_stream(
        self, method: Method[Any, Any], handler: Callable[..., Awaitable[None]]
    ) -> None:
        self._host.streams[method.name] = handler


class _End:
    """One end of a stream: sends one way, receives from the other."""

    def __init__(self, stream: "_StreamPair", *, server: bool) -> None:
        self._stream = stream
        self._server = server
        self._other: _End = self
        self._items: deque[Any] = deque()
        self._waiters: list[asyncio.Future[None]] = []
        self._unread = 0
        self._unread_bytes = 0
        self._closed = False
        self._ended = False
        self._error: CallFailedError | None = None

    def pair_with(self, other: "_End") -> None:
        self._other = other

    async def send(self, message: Any) -> None:
        data = _packed(message)
        while not self._shut and self._full:
            await self._change()
        if self._error is not None:
            raise self._error
        if self._shut:
            raise CallFailedError(Failure.CANCELLED, "the stream is closed")
        self._unread += 1
        self._unread_bytes += len(data)
        self._stream.transfer(self._server, data)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        while not self._items:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            await self._change()
        message, size = self._items.popleft()
        self._other.read(size)
        return message

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._stream.close(self._server)

    # ---- from the other side --------------------------------------------------------------------

    def read(self, size: int) -> None:
        self._unread -= 1
        self._unread_bytes -= size
        self.wake()

    def arrive(self, message: Any, size: int) -> None:
        if self._error is None and not self._ended:
            self._items.append((message, size))
            self.wake()

    def end(self, error: CallFailedError | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        self._closed = self._closed or error is not None
        self._error = self._error or error
        self.wake()

    def lose(self, error: CallFailedError) -> None:
        if self._ended and self._error is None and not self._items:
            return
        self._items.clear()
        self._error = self._error or error
        self._ended = self._closed = True
        self.wake()

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def _shut(self) -> bool:
        return self._closed or self._error is not None or (not self._server and self._ended)

    @property
    def _full(self) -> bool:
        return self._unread >= WINDOW_MESSAGES or self._unread_bytes >= WINDOW_BYTES

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter


class _StreamPair:
    """Both ends of one stream and its handler."""

    def __init__(
        self, network: SimNetwork, connection: Connection, host: Host, method: Method[Any, Any]
    ) -> None:
        self._network, self._connection = network, connection
        self._host, self._method = host, method
        self._number = next(connection.calls)
        self.client = _End(self, server=False)
        self._at_server = _End(self, server=True)
        self.client.pair_with(self._at_server)
        self._at_server.pair_with(self.client)
        self._task: asyncio.Task[Any] | None = None
        connection.at_client[self._number] = self.client.lose
        connection.at_server[self._number] = self._lost_at_server
        connection.request_way.deliver(self._begin)

    def transfer(self, from_server: bool, data: bytes) -> None:
        network, names = self._network, (self._connection.client.name, self._host.process.name)
        network.messages += 1
        source, target = names[::-1] if from_server else names
        network.sent(network.loop.time(), source, target, self._method.name, data)
        way = self._connection.response_way if from_server else self._connection.request_way
        kind = self._method.response if from_server else self._method.request
        end = self.client if from_server else self._at_server
        way.deliver(lambda: end.arrive(kind.FromString(data), len(data)))

    def close(self, by_server: bool) -> None:
        if by_server:
            self._connection.response_way.deliver(self.client.end)
            self._at_server.end()
        else:
            self._connection.request_way.deliver(self._at_server.end)

    def _begin(self) -> None:
        if not self._connection.open:
            return
        if not self._host.process.alive:
            self._connection.reset("nobody listens")
            return
        handler = self._host.streams[self._method.name]
        context = self._connection.context()
        self._task = self._host.process.start(
            handle(handler, self._at_server, context), self._method.name
        )
        self._task.add_done_callback(self._finished, context=self._host.process.context())

    def _finished(self, task: "asyncio.Task[Any]") -> None:
        self._connection.at_server.pop(self._number, None)
        if task.cancelled() or not self._connection.open or not self._host.process.alive:
            return
        answer = _answer(task, self._method.name)
        error = answer if isinstance(answer, CallFailedError) else None
        self._at_server.end(CallFailedError(Failure.CANCELLED, "the server ended the stream"))
        self._connection.response_way.deliver(lambda: self._end_client(error))

    def _end_client(self, error: CallFailedError | None) -> None:
        self._connection.at_client.pop(self._number, None)
        self.client.end(error)

    def _lost_at_server(self) -> None:
        self._at_server.lose(CallFailedError(Failure.UNAVAILABLE, "the connection was lost"))
        if self._task is not None:
            self._task.cancel()


def _open_stream(
    network: SimNetwork, connection: Connection, host: Host, method: Method[Any, Any]
) -> Any:
    return _StreamPair(network, connection, host, method).client


async def handle(handler: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Run a handler as a coroutine of its own."""
    return await handler(*arguments)


def _answer(task: "asyncio.Task[Any]", method: str) -> Any:
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, CallFailedError):
        return error
    task.get_loop().call_exception_handler(
        {"message": f"handler of {method} failed", "exception": error, "task": task}
    )
    return CallFailedError(Failure.INTERNAL, f"{type(error).__name__} in the server")


def _packed(message: Any, bytes_max: int = MESSAGE_BYTES_MAX) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    if len(data) > bytes_max:
        raise CallFailedError(Failure.RESOURCE_EXHAUSTED, f"a message of {len(data)} bytes")
    return data
