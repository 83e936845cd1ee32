"""The fillings of the network port, each with a way to lose its connections."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from random import Random
from weakref import WeakKeyDictionary

from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import DRAIN_NODE
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import admin_pb2
from tests.simulation.loop import Process, SimLoop
from tests.simulation.network import SimNetwork


class Relay:
    """A TCP relay in front of a server, whose connections a test can cut."""

    def __init__(self) -> None:
        self.pairs = []
        self.tasks = set()

    async def start(self, port: int) -> int:
        self.target = port
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def _accept(self, reader, writer) -> None:
        self.tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.CancelledError):
            out_reader, out_writer = await asyncio.open_connection("127.0.0.1", self.target)
            self.pairs.append((writer, out_writer))
            await asyncio.gather(self._copy(reader, out_writer), self._copy(out_reader, writer))

    async def _copy(self, reader, writer) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    def cut(self) -> None:
        for pair in self.pairs:
            for writer in pair:
                writer.transport.abort()
        self.pairs.clear()

    async def stop(self) -> None:
        self.cut()
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class GrpcSide:
    nowhere = "127.0.0.1:1"

    def __init__(self) -> None:
        self.listener = GrpcServer()
        self.relay = Relay()
        self.callers = []

    async def start(self) -> str:
        port = await self.listener.start("127.0.0.1", 0)
        return f"127.0.0.1:{await self.relay.start(port)}"

    def caller(self):
        self.callers.append(GrpcCaller(SystemClock()))
        return self.callers[-1]

    async def lose(self) -> None:
        self.relay.cut()

    async def stop(self) -> None:
        for caller in self.callers:
            await caller.close()
        await self.listener.stop(0)
        await self.relay.stop()


class CarryingServer(GrpcServer):
    """All its unary methods are carried."""

    def offer(self, method, handler) -> None:
        super().offer(replace(method, is_carried=True), handler)


class CarriedCaller(GrpcCaller):
    """Makes its calls on a stream, which it waits for."""

    def __init__(self, port: int) -> None:
        super().__init__(SystemClock())
        self.here = f"127.0.0.1:{port}"

    async def call(self, method, request, *, to, timeout_ms=None):
        if to == self.here:
            await self.carried(to)
        return await super().call(
            replace(method, is_carried=True), request, to=to, timeout_ms=timeout_ms
        )

    async def carried(self, to: str) -> None:
        """Return once calls to this address are carried."""
        warm = replace(DRAIN_NODE, is_carried=True)
        while self._peer("", to).carriage.carrier(self._headers) is None:
            await super().call(warm, admin_pb2.DrainNodeRequest(), to=to)


class CarriedSide(GrpcSide):
    """gRPC with all calls as messages of one stream (CAR-1)."""

    def __init__(self) -> None:
        super().__init__()
        self.listener = CarryingServer()

    async def start(self) -> str:
        async def drained(request, context):
            return admin_pb2.DrainNodeResponse()

        self.listener.offer(DRAIN_NODE, drained)
        address = await super().start()
        self.port = int(address.rpartition(":")[2])
        return address

    def caller(self):
        self.callers.append(CarriedCaller(self.port))
        return self.callers[-1]


class LocalSide:
    nowhere = "nowhere:1"

    def __init__(self) -> None:
        self.network = LocalNetwork()
        self.listener = self.network.listener("here:1")
        self.callers = []

    async def start(self) -> str:
        return "here:1"

    def caller(self):
        self.callers.append(self.network.caller())
        return self.callers[-1]

    async def lose(self) -> None:
        await self.network.disconnect("here:1")

    async def stop(self) -> None:
        for caller in self.callers:
            await caller.close()
        await self.listener.stop()


class SimSide:
    """The simulation's network, which runs in virtual time only."""

    nowhere = "nowhere:1"

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self.network = SimNetwork(loop, Random(1), lambda *_: None)
        self.clients = itertools.count(1)
        self.listener = self.network.listener(Process(loop, "here"), "here:1")
        self.callers = []

    async def start(self) -> str:
        return "here:1"

    def caller(self):
        process = Process(asyncio.get_running_loop(), f"client-{next(self.clients)}")
        self.callers.append(self.network.caller(process))
        return self.callers[-1]

    async def lose(self) -> None:
        self.network.reset_some(1.0)

    async def stop(self) -> None:
        for caller in self.callers:
            await caller.close()


Side = GrpcSide | CarriedSide | LocalSide | SimSide
_SIDES: WeakKeyDictionary[asyncio.AbstractEventLoop, type[Side]] = WeakKeyDictionary()


def _factory(
    side: type[Side], new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> Callable[[], asyncio.AbstractEventLoop]:
    def new() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        _SIDES[loop] = side
        return loop

    return new


def side_of(loop: asyncio.AbstractEventLoop) -> Side:
    """Return a new side of the filling that this loop was made for."""
    return _SIDES[loop]()


FACTORIES = {
    "grpc": _factory(GrpcSide, asyncio.new_event_loop),
    "carried": _factory(CarriedSide, asyncio.new_event_loop),
    "local": _factory(LocalSide, asyncio.new_event_loop),
    "simulated": _factory(SimSide, lambda: SimLoop(Random(1))),
}
"""The loop in which each filling runs, by its name."""
