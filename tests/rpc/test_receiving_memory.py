"""BND-30: what requests take that are being received is bounded by ending the slowest."""

import asyncio
import contextlib

import grpc
import pytest

from sharemesh.methods import API_VERSIONS
from sharemesh.rpc.receiving_memory import FEW_CALLS, ReceivingMemory, TooMuchReceivedError
from sharemesh.rpc.server import GrpcServer
from sharemesh.v1 import admin_pb2

MIB = 1 << 20
ROOM = 100 * MIB
MANY = 3 * FEW_CALLS


class Process:
    """A process whose memory the test decides."""

    def __init__(self):
        self.resident = 50 * MIB
        self.memory = ReceivingMemory(lambda: self.resident, ROOM)

    def received(self, principal="User:alice"):
        """Begin to receive a call that never becomes whole."""
        never = asyncio.get_running_loop().create_future()
        return asyncio.ensure_future(self.memory.bounded(principal, never))


@pytest.fixture
async def process(monkeypatch):
    monkeypatch.setattr("sharemesh.rpc.receiving_memory.LOOK_S", 0.005)
    monkeypatch.setattr("sharemesh.rpc.receiving_memory.GONE_S", 0.005)
    monkeypatch.setattr("sharemesh.rpc.receiving_memory.YOUNG_S", 0.0)
    made = Process()
    yield made
    made.memory.close()


async def ended(calls):
    async with asyncio.timeout(20):
        await asyncio.wait(calls)
    return [call.exception() for call in calls]


async def test_bnd_30_calls_that_take_too_much_together_end_with_words(process):
    calls = [process.received() for _ in range(MANY)]
    await asyncio.sleep(0)
    process.resident += ROOM + 1
    for error in await ended(calls):
        assert isinstance(error, TooMuchReceivedError)
        assert "take more memory than this process has for them" in str(error)


async def test_bnd_30_a_few_calls_may_take_what_they_take(process):
    calls = [process.received() for _ in range(FEW_CALLS)]
    await asyncio.sleep(0)
    process.resident += 10 * ROOM
    (one,) = await ended([process.received()])
    assert isinstance(one, TooMuchReceivedError), "one more is one too many"
    for call in calls:
        call.cancel()


async def test_bnd_30_what_a_process_holds_by_itself_ends_no_call(process):
    process.resident += 10 * ROOM
    calls = [process.received() for _ in range(MANY)]
    await asyncio.sleep(0)
    process.resident += ROOM // 2
    whole = [asyncio.ensure_future(process.memory.bounded("User:bob", asyncio.sleep(0.05)))]
    assert await ended(whole) == [None]
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()


async def test_bnd_30_young_calls_are_not_ended(process, monkeypatch):
    monkeypatch.setattr("sharemesh.rpc.receiving_memory.YOUNG_S", 3_600.0)
    calls = [process.received() for _ in range(MANY)]
    await asyncio.sleep(0)
    process.resident += 10 * ROOM
    whole = [asyncio.ensure_future(process.memory.bounded("User:bob", asyncio.sleep(0.05)))]
    assert await ended(whole) == [None]
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()


async def test_bnd_30_who_receives_little_loses_nothing_for_who_receives_much(process):
    many = [process.received("User:eve") for _ in range(MANY)]
    few = [process.received("User:bob") for _ in range(2)]
    await asyncio.sleep(0)
    process.resident += ROOM + 1
    for error in await ended(many):
        assert isinstance(error, TooMuchReceivedError)
    assert not any(call.done() for call in few)
    for call in few:
        call.cancel()


async def test_bnd_30_a_real_call_ends_with_resource_exhausted_and_what_to_do(process):
    async def versions(_request, _context):
        return admin_pb2.ApiVersionsResponse()

    server = GrpcServer(memory=process.memory)
    server.offer(API_VERSIONS, versions)
    port = await server.start("127.0.0.1", 0)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            silent = [
                channel.stream_unary("/sharemesh.v1.Admin/ApiVersions")(timeout=20)
                for _ in range(MANY)
            ]
            while len(process.memory._calls) < MANY:
                await asyncio.sleep(0.001)
            process.resident += 2 * ROOM
            assert await silent[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "send its first ApiVersionsRequest at once" in await silent[0].details()
            for call in silent:
                with contextlib.suppress(asyncio.CancelledError):
                    call.cancel()
    finally:
        await server.stop(0)
