"""The group coordinator of a world, asked over gRPC on a real socket."""

from sharemesh.backends.local.clock import SystemClock
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from tests.group_coordinator.world import World


class _Redirected:
    """A caller that goes to one address, whatever it is told."""

    def __init__(self, address):
        self._caller = GrpcCaller(SystemClock())
        self._address = address

    async def call(self, method, request, *, to, **more):
        return await self._caller.call(method, request, to=self._address, **more)

    async def stream(self, method, *, to):
        return await self._caller.stream(method, to=self._address)

    async def close(self):
        await self._caller.close()


class GrpcWorld(World):
    """A world whose tests ask over gRPC; each life of the coordinator has its own server."""

    _server = None

    async def start(self, **how):
        await super().start(**how)
        self._server = GrpcServer(reflection=False)
        self.service.offer(self._server)
        port = await self._server.start("127.0.0.1", 0)
        await self.caller.close()
        self.caller = _Redirected(f"127.0.0.1:{port}")

    async def stop(self):
        await super().stop()
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)
