"""A call that is over is freed at once: nothing of it waits for a search for cycles."""

import gc

import grpc

from sharemesh.methods import API_VERSIONS, HOLD_SESSION
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.rpc.server import GrpcServer
from sharemesh.v1 import admin_pb2
from sharemesh.v1.share_leader_pb2 import HoldSessionRequest

VERSIONS = "/sharemesh.v1.Admin/ApiVersions"
HOLD = "/sharemesh.v1.ShareLeader/HoldSession"
CALLS = 20
OF_A_CALL = {"RPCState", "_ServicerContext", CallContext.__name__, "AbortError", "Task", "frame"}
"""Types of which each call has one; a crowd of calls kept hundreds of MiB by them (measured)."""


async def versions(request, _context):
    if request.client_name == "refused":
        raise CallFailedError(Failure.INVALID_ARGUMENT, "refused")
    return admin_pb2.ApiVersionsResponse()


async def hold(stream, _context):
    async for _ in stream:
        raise CallFailedError(Failure.INVALID_ARGUMENT, "refused")


async def left_by(ask) -> set[str]:
    """Return the types of a call's objects that only a search for cycles frees."""
    server = GrpcServer()
    server.offer(API_VERSIONS, versions)
    server.offer_stream(HOLD_SESSION, hold)
    port = await server.start("127.0.0.1", 0)
    flags = gc.get_debug()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await ask(channel)
            gc.collect()
            gc.disable()
            for _ in range(CALLS):
                await ask(channel)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found = [type(each).__name__ for each in gc.garbage]
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()
        await server.stop(0)
    return {name for name in OF_A_CALL if found.count(name) >= CALLS}


async def code_of(call) -> grpc.StatusCode:
    return await call.code()


async def test_an_answered_call_leaves_no_cycle():
    request = admin_pb2.ApiVersionsRequest().SerializeToString()

    async def ask(channel):
        assert await code_of(channel.unary_unary(VERSIONS)(request)) is grpc.StatusCode.OK

    assert await left_by(ask) == set()


async def test_a_refused_call_leaves_no_cycle():
    request = admin_pb2.ApiVersionsRequest(client_name="refused").SerializeToString()

    async def ask(channel):
        code = await code_of(channel.unary_unary(VERSIONS)(request))
        assert code is grpc.StatusCode.INVALID_ARGUMENT

    assert await left_by(ask) == set()


async def test_a_refused_stream_leaves_no_cycle():
    async def ask(channel):
        call = channel.stream_stream(HOLD)()
        await call.write(HoldSessionRequest().SerializeToString())
        assert await code_of(call) is grpc.StatusCode.INVALID_ARGUMENT

    assert await left_by(ask) == set()
