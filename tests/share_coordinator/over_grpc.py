"""A share coordinator of the world, asked over gRPC on a real socket."""

from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer


class AskedOverGrpc:
    """The handlers of a share coordinator, by way of a connection; ``shards`` are its own."""

    def __init__(self, service, caller, address):
        self.shards = service.shards
        self._caller = caller
        self._address = address

    async def initialize(self, request, _):
        return await self._call(methods.INITIALIZE_SHARE_GROUP_STATE, request)

    async def read(self, request, _):
        return await self._call(methods.READ_SHARE_GROUP_STATE, request)

    async def write(self, request, _):
        return await self._call(methods.WRITE_SHARE_GROUP_STATE, request)

    async def delete(self, request, _):
        return await self._call(methods.DELETE_SHARE_GROUP_STATE, request)

    async def read_summary(self, request, _):
        return await self._call(methods.READ_SHARE_GROUP_STATE_SUMMARY, request)

    async def _call(self, method, request):
        return await self._caller.call(method, request, to=self._address)


@asynccontextmanager
async def coordinator(world, **settings):
    """Start another life of the share coordinator, as ``World.coordinator``."""
    async with world.coordinator(**settings) as service:
        server = GrpcServer(reflection=False)
        service.offer(server)
        port = await server.start("127.0.0.1", 0)
        caller = GrpcCaller(SystemClock())
        try:
            yield AskedOverGrpc(service, caller, f"127.0.0.1:{port}")
        finally:
            await caller.close()
            await server.stop(0)
