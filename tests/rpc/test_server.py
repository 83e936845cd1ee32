"""What the gRPC filling adds to the port: health, reflection, ports, malformed bytes, TLS."""

import asyncio
import gc
import weakref

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import API_VERSIONS, CONSUME, HOLD_SESSION
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.limits import ServerLimits
from sharemesh.rpc.request_parser import ParserThread, RequestParser
from sharemesh.rpc.server import GrpcServer, ListenError
from sharemesh.rpc.standard_services import LIVENESS, READINESS
from sharemesh.rpc.streams import GrpcServerStream
from sharemesh.v1 import admin_pb2, share_leader_pb2


async def who(request, context):
    return admin_pb2.ApiVersionsResponse(server_version=context.principal)


async def echo(stream, context):
    async for _ in stream:
        await stream.send(share_leader_pb2.ConsumeResponse())


@pytest.fixture
async def server():
    server = GrpcServer()
    server.offer(API_VERSIONS, who)
    server.bound = await server.start("127.0.0.1", 0)
    yield server
    await server.stop(0)


async def check(channel, service: str) -> int:
    call = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    return (await call(health_pb2.HealthCheckRequest(service=service), timeout=5)).status


async def test_health_tells_services_liveness_and_readiness_apart(server) -> None:
    serving = health_pb2.HealthCheckResponse.SERVING
    not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.bound}") as channel:
        assert await check(channel, "sharemesh.v1.Admin") == serving
        assert await check(channel, "") == serving
        assert await check(channel, LIVENESS) == serving
        assert await check(channel, READINESS) == not_serving
        await server.health.set_serving(READINESS, serving=True)
        assert await check(channel, READINESS) == serving
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(channel, "sharemesh.v1.Nothing")
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        await server.health.enter_graceful_shutdown()
        assert await check(channel, READINESS) == not_serving


async def test_health_port_answers_probes_and_nothing_else(server) -> None:
    port = await server.start_health("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert await check(channel, "") == health_pb2.HealthCheckResponse.SERVING
    caller = GrpcCaller(SystemClock())
    with pytest.raises(CallFailedError) as caught:
        await caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=f"127.0.0.1:{port}")
    assert caught.value.failure is Failure.UNIMPLEMENTED
    await caller.close()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_services_and_shows_their_protos(server, version) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.bound}") as channel:
        call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )(timeout=5)
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        names = {service.name for service in (await call.read()).list_services_response.service}
        assert {"sharemesh.v1.Admin", "grpc.health.v1.Health"} <= names
        await call.write(
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="sharemesh.v1.Admin")
        )
        assert (await call.read()).file_descriptor_response.file_descriptor_proto
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


async def test_port_in_use_is_one_clear_sentence(server) -> None:
    other = GrpcServer()
    with pytest.raises(ListenError, match=rf"127.0.0.1:{server.bound}: address already in use"):
        await other.start("127.0.0.1", server.bound)
    await other.stop(0)


async def test_offering_a_method_twice_is_a_bug(server) -> None:
    with pytest.raises(ValueError, match="offered twice"):
        server.offer(API_VERSIONS, who)


async def test_bytes_that_are_no_message_are_an_invalid_argument(server) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.bound}") as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="ApiVersionsRequest") as caught:
            await channel.unary_unary("/sharemesh.v1.Admin/ApiVersions")(b"\xff\xff", timeout=5)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_bytes_that_are_no_message_end_a_stream_as_invalid_argument() -> None:
    async def hold(stream, context):
        async for _ in stream:
            pass

    server = GrpcServer()
    server.offer_stream(HOLD_SESSION, hold)
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream("/sharemesh.v1.ShareLeader/HoldSession")(timeout=5)
        await call.write(b"\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    await server.stop(0)


async def test_calls_beyond_the_limit_are_refused_not_queued() -> None:
    waiting = asyncio.Event()

    async def never(request, context):
        waiting.set()
        await asyncio.Event().wait()

    server = GrpcServer(limits=ServerLimits(max_concurrent_calls=1))
    server.offer(API_VERSIONS, never)
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    caller = GrpcCaller(SystemClock())
    first = asyncio.ensure_future(
        caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    )
    await asyncio.wait_for(waiting.wait(), 5)
    with pytest.raises(CallFailedError) as caught:
        await caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    assert caught.value.failure is Failure.RESOURCE_EXHAUSTED
    await caller.close()
    await asyncio.wait([first])
    assert isinstance(first.exception(), CallFailedError)
    await server.stop(0)


async def test_stop_lets_open_calls_end_within_the_grace() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def slow(request, context):
        started.set()
        await go.wait()
        return admin_pb2.ApiVersionsResponse(server_version="done")

    server = GrpcServer()
    server.offer(API_VERSIONS, slow)
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    caller = GrpcCaller(SystemClock())
    call = asyncio.ensure_future(
        caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    )
    await asyncio.wait_for(started.wait(), 5)
    stopping = asyncio.ensure_future(server.stop(5_000))
    refused = False
    while not refused:  # the server has begun to stop
        other = GrpcCaller(SystemClock())
        try:
            await other.call(
                API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address, timeout_ms=50
            )
        except CallFailedError as error:
            refused = error.failure is Failure.UNAVAILABLE
        await other.close()
    go.set()
    assert (await call).server_version == "done"
    await asyncio.wait_for(stopping, 5)
    await caller.close()


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 10, 50])
async def test_a_stop_that_was_interrupted_goes_on_with_the_next_one(turns) -> None:
    server = GrpcServer()
    server.offer_stream(CONSUME, lambda _stream, _context: asyncio.Event().wait())
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    caller = GrpcCaller(SystemClock())
    stream = await caller.stream(CONSUME, to=address)
    stopping = asyncio.create_task(server.stop(60_000))
    for _ in range(turns):
        await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping])
    async with asyncio.timeout(10):
        await server.stop(0)
        with pytest.raises(CallFailedError):
            await anext(stream)
    await caller.close()


def running_servers() -> set[int]:
    found = [each for each in gc.get_objects() if type(each) is grpc.aio.Server]
    return {id(each) for each in found if each._server.is_running()}


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5])
async def test_a_start_that_was_interrupted_leaves_no_server_behind(turns) -> None:
    before = running_servers()
    server = GrpcServer()
    starting = asyncio.create_task(server.start("127.0.0.1", 0))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    async with asyncio.timeout(10):
        await server.stop(0)
    assert running_servers() <= before


async def test_half_closed_stream_that_the_server_keeps_is_ended(monkeypatch) -> None:
    cancelled = asyncio.Event()

    async def stubborn(stream, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    monkeypatch.setattr("sharemesh.rpc.streams.LINGER_MS", 50)
    server = GrpcServer()
    server.offer_stream(HOLD_SESSION, stubborn)
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    caller = GrpcCaller(SystemClock())
    stream = await caller.stream(HOLD_SESSION, to=address)
    await stream.send(share_leader_pb2.HoldSessionRequest(group_id="g"))
    await stream.close()
    await asyncio.wait_for(cancelled.wait(), 5)
    await caller.close()
    await server.stop(0)


async def test_channels_are_bounded_and_busy_ones_stay(server, monkeypatch) -> None:
    async def hold(stream, context):
        async for _ in stream:
            pass

    monkeypatch.setattr("sharemesh.rpc.channels.MAX_CHANNELS", 2)
    other = GrpcServer()
    other.offer_stream(HOLD_SESSION, hold)
    other.offer(API_VERSIONS, who)
    port = await other.start("127.0.0.1", 0)
    caller = GrpcCaller(SystemClock())
    request = admin_pb2.ApiVersionsRequest()
    busy = await caller.stream(HOLD_SESSION, to=f"127.0.0.1:{port}")
    for host in ("127.0.0.1", "localhost", "127.0.0.1", "localhost"):
        await caller.call(API_VERSIONS, request, to=f"{host}:{server.bound}")
    await busy.send(share_leader_pb2.HoldSessionRequest(group_id="still here"))
    second = await caller.stream(HOLD_SESSION, to=f"localhost:{port}")
    with pytest.raises(CallFailedError, match="2 connections are open and busy"):
        await caller.call(API_VERSIONS, request, to=f"127.0.0.1:{server.bound}")
    for stream in (busy, second):
        await stream.close()
        assert [message async for message in stream] == []
    await caller.call(API_VERSIONS, request, to=f"127.0.0.1:{server.bound}")
    await caller.close()
    await other.stop(0)


class Held:
    """Stands for what a request brought along."""


async def test_a_refused_call_lets_its_request_go_without_a_search_for_cycles() -> None:
    held: list[weakref.ref[Held]] = []

    async def refuses(_request, _context):
        of_this_call = Held()
        held.append(weakref.ref(of_this_call))
        raise CallFailedError(Failure.RESOURCE_EXHAUSTED, "too much")

    server = GrpcServer(reflection=False)
    server.offer(API_VERSIONS, refuses)
    port = await server.start("127.0.0.1", 0)
    caller = GrpcCaller(SystemClock())
    gc.disable()
    try:
        for _ in range(5):
            with pytest.raises(CallFailedError, match="too much"):
                await caller.call(
                    API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=f"127.0.0.1:{port}"
                )
        async with asyncio.timeout(10):
            while any(each() is not None for each in held):
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
        await caller.close()
        await server.stop(0)


async def test_a_stream_that_cannot_be_read_ends_for_its_handler_with_why():
    class Broken:
        async def read(self):
            raise ZeroDivisionError

    parser = RequestParser(HOLD_SESSION, ParserThread(ServerLimits()))
    stream = GrpcServerStream(Broken(), HOLD_SESSION, parser)
    await stream.read_ahead("User:bob")
    with pytest.raises(CallFailedError) as failed:
        await anext(stream)
    assert failed.value.failure is Failure.INTERNAL
    assert "ZeroDivisionError" in str(failed.value)
