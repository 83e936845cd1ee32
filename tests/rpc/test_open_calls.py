"""Calls are a common good: silent ones end (BND-1), and each caller has a share (BND-2)."""

import asyncio
import contextlib
import logging

import grpc
import pytest
from grpc_health.v1 import health_pb2

from sharemesh.methods import API_VERSIONS, HOLD_SESSION
from sharemesh.ports.network import CallContext
from sharemesh.rpc.answering import Answering
from sharemesh.rpc.limits import ServerLimits, server_limits
from sharemesh.rpc.open_calls import OpenCalls
from sharemesh.rpc.request_parser import ParserThread, RequestParser
from sharemesh.rpc.server import GrpcServer
from sharemesh.rpc.silent_calls import SilentCalls, TooManySilentError
from sharemesh.rpc.tls import SECRET_HEADER, Principals
from sharemesh.throttling.call_turns import CallTurns
from sharemesh.v1 import admin_pb2
from sharemesh.v1.share_leader_pb2 import HoldSessionRequest

SECRET = "s" * 32
NODE = {SECRET_HEADER: SECRET}
ALICE, BOB, EVE = ({"x-user": name} for name in ("alice", "bob", "eve"))
HOLD = "/sharemesh.v1.ShareLeader/HoldSession"
VERSIONS = "/sharemesh.v1.Admin/ApiVersions"
SAID = HoldSessionRequest(group_id="g").SerializeToString()
LIMITS = ServerLimits(max_concurrent_calls=4, max_principal_calls=2, reserved_calls=2)


async def versions(_request, context):
    return admin_pb2.ApiVersionsResponse(server_version=context.principal)


async def hold(stream, _context):
    async for _ in stream:
        pass


@contextlib.asynccontextmanager
async def serving(limits=LIMITS):
    server = GrpcServer(
        limits=limits, principals=Principals(SECRET, "Node:n", "x-user", ("User:admin",))
    )
    server.offer(API_VERSIONS, versions)
    server.offer_stream(HOLD_SESSION, hold)
    port = await server.start("127.0.0.1", 0)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(0)


async def opened(channel, who=BOB):
    """Open a stream that says one thing, and return it once the server has taken it."""
    call = channel.stream_stream(HOLD)(metadata=tuple(who.items()), timeout=20)
    await call.write(SAID)
    await call.initial_metadata()
    return call


async def asked(channel, who=BOB) -> str:
    request = admin_pb2.ApiVersionsRequest().SerializeToString()
    answer = await channel.unary_unary(VERSIONS)(request, metadata=tuple(who.items()), timeout=20)
    return admin_pb2.ApiVersionsResponse.FromString(answer).server_version


async def refused_of(channel, who) -> grpc.StatusCode:
    try:
        await asked(channel, who)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(
    "method",
    [
        HOLD,
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.health.v1.Health/Watch",
    ],
)
async def test_bnd_1_a_stream_that_says_nothing_ends_with_words(monkeypatch, method):
    monkeypatch.setattr("sharemesh.rpc.answering.FIRST_MESSAGE_MS", 50)
    async with serving() as channel:
        silent = channel.stream_stream(method)(timeout=20)
        assert await silent.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "nothing came for 50 ms after the stream was opened" in await silent.details()
        assert f"{method.rpartition('.')[2]}: " in await silent.details()


@pytest.mark.parametrize("method", [VERSIONS, "/grpc.health.v1.Health/Check"])
async def test_bnd_1_a_call_whose_request_does_not_come_ends_too(monkeypatch, method):
    monkeypatch.setattr("sharemesh.rpc.answering.REQUEST_MS", 50)
    async with serving() as channel:
        silent = channel.stream_unary(method)(timeout=20)
        assert await silent.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "nothing came for 50 ms after the call was opened" in await silent.details()


async def test_bnd_28_a_stream_waits_for_its_turn_too(monkeypatch):
    begun, may_begin = [], asyncio.Event()

    async def turn(_turns, principal, request_bytes):
        begun.append((principal, request_bytes))
        await may_begin.wait()

    monkeypatch.setattr(CallTurns, "turn", turn)
    async with serving() as channel, asyncio.timeout(20):
        stream = channel.stream_stream(HOLD)(metadata=tuple(BOB.items()), timeout=20)
        await stream.write(SAID)
        while not begun:
            await asyncio.sleep(0.001)
        taken = asyncio.ensure_future(stream.initial_metadata())
        assert await asyncio.wait([taken], timeout=0.05) == (set(), {taken})
        may_begin.set()
        await taken
        assert begun == [("User:bob", 0)]


async def test_bnd_1_a_stream_that_has_spoken_may_be_silent(monkeypatch):
    monkeypatch.setattr("sharemesh.rpc.answering.FIRST_MESSAGE_MS", 500)
    async with serving() as channel:
        spoken = await opened(channel)
        silent = channel.stream_stream(HOLD)(timeout=20)
        assert await silent.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # it was opened later
        assert not spoken.done()


class Stalled:
    """A call whose message came while its process stood still: the timer is due already."""

    def __init__(self, turns):
        self._turns = turns  # of the loop, until the message that is there is read
        self._messages = [SAID]

    async def send_initial_metadata(self, _metadata):
        pass

    async def read(self):
        for _ in range(self._turns):
            await asyncio.sleep(0)
        return self._messages.pop() if self._messages else grpc.aio.EOF


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_bnd_1_a_message_that_is_there_counts_after_a_stall_of_the_process(
    monkeypatch, turns
):
    monkeypatch.setattr("sharemesh.rpc.answering.FIRST_MESSAGE_MS", 0)
    heard = []

    async def listen(stream, _context):
        heard.extend([message.group_id async for message in stream])

    parser = RequestParser(HOLD_SESSION, ParserThread(ServerLimits()))
    caller = CallContext("ipv4:1", "User:bob", ())
    answering = Answering(Principals(), OpenCalls(LIMITS))
    assert await answering._served(HOLD_SESSION, parser, listen, Stalled(turns), caller) is None
    assert heard == ["g"]


async def test_bnd_1_a_call_that_ends_without_a_request_is_refused():
    async with serving() as channel:
        empty = channel.stream_unary(VERSIONS)(timeout=20)
        await empty.done_writing()
        assert await empty.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "send one ApiVersionsRequest" in await empty.details()


async def test_bnd_1_silent_streams_keep_nobody_out_nor_their_own_principal_for_long(monkeypatch):
    monkeypatch.setattr("sharemesh.rpc.answering.FIRST_MESSAGE_MS", 50)
    metadata = tuple(ALICE.items())
    async with serving() as channel:
        for _ in range(3):
            silent = [channel.stream_stream(HOLD)(metadata=metadata, timeout=20) for _ in range(4)]
            codes = {await each.code() for each in silent}
            assert grpc.StatusCode.DEADLINE_EXCEEDED in codes
            assert codes <= {
                grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
            }
            assert await asked(channel, BOB) == "User:bob"
            # What timed out is given back to the principal whose it was.
            async with asyncio.timeout(20):
                while await refused_of(channel, ALICE) is grpc.StatusCode.RESOURCE_EXHAUSTED:
                    pass  # the server has not heard yet that a stream ended
        assert await asked(channel, ALICE) == "User:alice"


async def test_bnd_2_a_principal_has_at_most_its_share_and_others_theirs():
    async with serving() as channel:
        first, second = await opened(channel, ALICE), await opened(channel, ALICE)
        with pytest.raises(grpc.aio.AioRpcError, match="User:alice has 2 calls open") as refused:
            await asked(channel, ALICE)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        third = channel.stream_stream(HOLD)(metadata=tuple(ALICE.items()), timeout=20)
        assert await third.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await asked(channel, BOB) == "User:bob"
        first.cancel()
        async with asyncio.timeout(20):
            while await refused_of(channel, ALICE) is grpc.StatusCode.RESOURCE_EXHAUSTED:
                pass  # the server has not heard yet that a stream ended
        assert await asked(channel, ALICE) == "User:alice"
        assert not second.done()


@pytest.mark.parametrize(("own", "name"), [(NODE, "Node:n"), ({"x-user": "admin"}, "User:admin")])
async def test_bnd_2_the_clusters_own_calls_have_a_reserve_that_clients_never_take(own, name):
    async with serving() as channel:
        held = [await opened(channel, who) for who in (ALICE, ALICE, BOB, BOB)]
        with pytest.raises(grpc.aio.AioRpcError, match="4 calls of clients are open") as refused:
            await asked(channel, EVE)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await asked(channel, own) == name
        assert not any(each.done() for each in held)


async def test_bnd_2_that_a_principal_is_refused_is_said_once(caplog):
    caplog.set_level(logging.WARNING)
    async with serving() as channel:
        held = [await opened(channel, ALICE) for _ in range(2)]
        for _ in range(5):
            with pytest.raises(grpc.aio.AioRpcError, match="User:alice has 2 calls"):
                await asked(channel, ALICE)
        assert caplog.text.count("calls are refused: User:alice has 2 calls open") == 1
        assert not any(each.done() for each in held)


def test_bnd_2_every_call_that_began_is_given_back():
    calls = OpenCalls(LIMITS, own=["Node:n"])
    for _ in range(3):
        assert [calls.began(who) for who in ("a", "a", "b", "b", "Node:n")] == [""] * 5
        assert calls.of_clients == 4
        assert "a has 2 calls" in calls.began("a")
        assert "4 calls of clients" in calls.began("c")
        for who in ("a", "a", "b", "b", "Node:n"):
            calls.ended(who)
        assert calls.of_clients == 0


def test_bnd_2_a_refusal_is_said_again_once_there_was_room():
    calls = OpenCalls(LIMITS)
    for _ in range(2):
        assert [calls.began("a"), calls.began("a")] == ["", ""]
        assert [calls.first_refusal("a") for _ in range(3)] == [True, False, False]
        calls.ended("a")
        calls.ended("a")


def test_bnd_2_clients_without_names_are_one_principal_and_may_have_all():
    assert server_limits(10, callers_have_names=False).max_principal_calls == 20_000
    named = server_limits(10, callers_have_names=True)
    assert named.max_principal_calls == named.max_concurrent_calls // 2
    assert named.reserved_calls == named.max_concurrent_calls // 4


async def test_health_does_not_take_requests_that_are_large():
    large = health_pb2.HealthCheckRequest(service="x" * (65 << 10)).SerializeToString()
    async with serving() as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="larger than 65536") as refused:
            await channel.unary_unary("/grpc.health.v1.Health/Check")(large, timeout=20)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_bnd_29_the_longest_silent_calls_of_a_principal_end_for_newer_ones(monkeypatch):
    monkeypatch.setattr("sharemesh.rpc.silent_calls.SILENT_CALLS_MAX", 2)
    limits = ServerLimits(max_concurrent_calls=20, max_principal_calls=10, reserved_calls=2)
    async with serving(limits) as channel:
        others = channel.stream_stream(HOLD)(metadata=tuple(BOB.items()), timeout=20)
        await others.initial_metadata()
        calls = []
        for _ in range(3):
            call = channel.stream_stream(HOLD)(metadata=tuple(ALICE.items()), timeout=20)
            await call.initial_metadata()
            calls.append(call)
        assert await calls[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "has 2 calls open here that have said nothing" in await calls[0].details()
        assert "send its first HoldSessionRequest at once" in await calls[0].details()
        # Who speaks is heard, although the principal has as many silent calls as it may.
        assert await asked(channel, ALICE) == "User:alice"
        assert not calls[2].done()
        assert not others.done()


async def test_bnd_29_a_call_whose_time_is_just_over_makes_room_and_no_failure(monkeypatch):
    monkeypatch.setattr("sharemesh.rpc.silent_calls.SILENT_CALLS_MAX", 1)
    loop, silent, heard = asyncio.get_running_loop(), SilentCalls(()), []

    async def said():
        return "said"

    def begin():
        heard.append(loop.create_task(silent.spoken("User:alice", 1_000, said())))

    # The new call runs between the end of the old one's time and the turn of its task.
    loop.call_soon(lambda: loop.call_soon(begin))
    over = loop.create_task(silent.spoken("User:alice", 0, loop.create_future()))
    with pytest.raises(TooManySilentError):
        await over
    assert await heard[0] == "said"
