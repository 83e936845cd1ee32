"""Requests that are too large for their method are refused before anything is parsed."""

import asyncio
import threading

import grpc
import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import API_VERSIONS, CONSUME, METHODS, PRODUCE, SHARE_FETCH
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc import request_parser
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.limits import ServerLimits, server_limits
from sharemesh.rpc.request_parser import (
    PARTS_IN_LOOP,
    ParserThread,
    RequestParser,
)
from sharemesh.rpc.server import GrpcServer
from sharemesh.v1 import admin_pb2, record_log_pb2, share_leader_pb2
from tests.turns import holds_no_turn

MIB = 1 << 20
BOB, MALLORY, ROOT = "User:bob", "User:mallory", "User:root"
LARGE = b"\x0a\x00" * PARTS_IN_LOOP * 4 + b"\xfa\x07\xff\xff\xff\x07" + bytes(16 * MIB - 1)
"""A Produce of many parts, in a little more than 16 MiB."""

NAMELESS = server_limits(10, callers_have_names=False)


async def nothing(request, context):
    return admin_pb2.ApiVersionsResponse()


async def produced(request, context):
    return record_log_pb2.ProduceResponse()


async def fetched(request, context):
    return share_leader_pb2.ShareFetchResponse()


async def consumed(stream, context):
    async for _ in stream:
        await stream.send(share_leader_pb2.ConsumeResponse())


@pytest.fixture
async def address():
    server = GrpcServer()
    server.offer(API_VERSIONS, nothing)
    server.offer(PRODUCE, produced)
    server.offer(SHARE_FETCH, fetched)
    server.offer_stream(CONSUME, consumed)
    port = await server.start("127.0.0.1", 0)
    yield f"127.0.0.1:{port}"
    await server.stop(0)


@pytest.fixture
async def caller():
    caller = GrpcCaller(SystemClock())
    yield caller
    await caller.close()


def fetch_of(size_bytes: int) -> share_leader_pb2.ShareFetchRequest:
    return share_leader_pb2.ShareFetchRequest(group_id="g" * (size_bytes - 4))


def topics_of(count: int) -> share_leader_pb2.ShareFetchRequest:
    """A request that is cheap to send and expensive to parse: nothing but empty messages."""
    return share_leader_pb2.ShareFetchRequest.FromString(b"\x5a\x00" * count)


def test_every_method_has_a_bound_and_only_records_may_be_large() -> None:
    large = {method.name for method in METHODS if method.request_bytes_max > 4 * MIB}
    assert large == {"RecordLog/Produce"}
    assert all(method.request_bytes_max >= MIB for method in METHODS)


async def test_a_request_above_its_methods_bound_is_refused_with_the_bound(address, caller) -> None:
    with pytest.raises(CallFailedError, match="larger than 2097152: send less") as refused:
        await caller.call(SHARE_FETCH, fetch_of(2 * MIB + 2), to=address)
    assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
    await caller.call(SHARE_FETCH, fetch_of(2 * MIB), to=address)
    names = admin_pb2.ApiVersionsRequest(client_name="x" * (MIB + 1))
    with pytest.raises(CallFailedError, match="larger than 1048576") as refused:
        await caller.call(API_VERSIONS, names, to=address)
    assert refused.value.failure is Failure.RESOURCE_EXHAUSTED


async def test_records_have_room(address, caller) -> None:
    partition = record_log_pb2.ProducePartition(records=bytes(16 * MIB))
    await caller.call(PRODUCE, record_log_pb2.ProduceRequest(partitions=[partition]), to=address)


async def test_what_no_method_takes_is_refused_by_the_transport(address) -> None:
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/sharemesh.v1.RecordLog/Produce")(bytes(20 * MIB + 1))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_message_of_a_stream_above_the_bound_ends_it(address, caller) -> None:
    stream = await caller.stream(CONSUME, to=address)
    message = share_leader_pb2.ConsumeRequest.FromString(b"\x12\x00" * (MIB + 1))
    await stream.send(message)
    with pytest.raises(CallFailedError, match="larger than 2097152") as ended:
        await anext(stream)
    assert ended.value.failure is Failure.RESOURCE_EXHAUSTED
    await stream.close()


async def test_a_request_of_too_many_parts_is_refused_before_it_is_parsed(address, caller) -> None:
    bound = SHARE_FETCH.request_parts_max
    await caller.call(SHARE_FETCH, topics_of(bound), to=address)
    with pytest.raises(CallFailedError, match=f"more than {bound} messages") as refused:
        await caller.call(SHARE_FETCH, topics_of(bound + 1), to=address)
    assert refused.value.failure is Failure.RESOURCE_EXHAUSTED


async def test_a_message_of_a_stream_with_too_many_parts_ends_it(address, caller) -> None:
    stream = await caller.stream(CONSUME, to=address)
    await stream.send(share_leader_pb2.ConsumeRequest.FromString(b"\x12\x00" * 150_001))
    with pytest.raises(CallFailedError, match="more than 150000 messages") as refused:
        await anext(stream)
    assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
    await stream.close()


async def test_bnd_7_a_request_of_many_parts_is_parsed_beside_the_loop() -> None:
    parser = RequestParser(PRODUCE, thread := ParserThread(ServerLimits()))
    data = b"\x0a\x00" * PRODUCE.request_parts_max
    await holds_no_turn(lambda: parser.parsed(data, BOB))
    assert len((await parser.parsed(data, BOB)).partitions) == PRODUCE.request_parts_max
    thread.close()


async def test_bnd_7_a_request_of_few_parts_needs_no_thread() -> None:
    parser = RequestParser(PRODUCE, thread := ParserThread(ServerLimits()))
    thread.close()
    data = b"\x0a\x00" * PARTS_IN_LOOP
    assert len((await parser.parsed(data, BOB)).partitions) == PARTS_IN_LOOP
    records = record_log_pb2.ProducePartition(records=bytes(16 * MIB))
    whole = record_log_pb2.ProduceRequest(partitions=[records]).SerializeToString()
    assert (await parser.parsed(whole, BOB)).partitions[0] == records


async def test_bnd_7_what_waits_to_be_parsed_is_bounded() -> None:
    parser = RequestParser(PRODUCE, thread := ParserThread(NAMELESS))
    several = [parser.parsed(LARGE, BOB) for _ in range(NAMELESS.parsed_bytes // len(LARGE) + 1)]
    *parsed, refused = await asyncio.gather(*several, return_exceptions=True)
    assert {len(each.partitions) for each in parsed} == {PARTS_IN_LOOP * 4}
    assert refused.failure is Failure.RESOURCE_EXHAUSTED
    assert "try again later" in refused.message
    assert await parser.parsed(LARGE, BOB), "there is room again"
    thread.close()


async def test_bnd_7_one_principal_leaves_room_to_others() -> None:
    parser = RequestParser(PRODUCE, thread := ParserThread(ServerLimits(), [ROOT]))
    several = [parser.parsed(LARGE, who) for who in (MALLORY, MALLORY, BOB, ROOT)]
    first, refused, other, own = await asyncio.gather(*several, return_exceptions=True)
    assert {len(each.partitions) for each in (first, other, own)} == {PARTS_IN_LOOP * 4}
    assert refused.failure is Failure.RESOURCE_EXHAUSTED
    assert f"{len(LARGE)} bytes" in refused.message
    await asyncio.gather(*(parser.parsed(LARGE, ROOT) for _ in range(3)))
    assert await parser.parsed(LARGE, MALLORY), "there is room again"
    thread.close()


async def test_bnd_7_the_request_of_another_principal_is_parsed_next(monkeypatch) -> None:
    parser, parsed, may_end = (
        RequestParser(PRODUCE, thread := ParserThread(ServerLimits())),
        [],
        threading.Event(),
    )
    counted = request_parser._counted

    def noted(method, parts, data):
        may_end.wait()
        parsed.append(len(data))
        return counted(method, parts, data)

    monkeypatch.setattr(request_parser, "_counted", noted)
    theirs, mine = (b"\x0a\x00" * PARTS_IN_LOOP * times for times in (4, 5))
    many = [asyncio.create_task(parser.parsed(theirs, MALLORY)) for _ in range(12)]
    await asyncio.sleep(0)
    one = asyncio.create_task(parser.parsed(mine, BOB))
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(one, *many)
    assert parsed.index(len(mine)) == 1
    thread.close()
