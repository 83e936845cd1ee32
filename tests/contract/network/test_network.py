"""One suite over the fillings of the network port: gRPC on sockets, in-process, simulated."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from sharemesh.methods import API_VERSIONS, CONSUME, HOLD_SESSION, METADATA, PRODUCE
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import admin_pb2, record_log_pb2, share_leader_pb2
from tests.contract.network.sides import Side, side_of

WAIT_S = 10.0


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    """Made by the conftest for each filling, with the loop that it runs in."""
    side = side_of(asyncio.get_running_loop())
    async with asyncio.timeout(60):
        yield side
        await side.stop()


async def begun(caller, address):
    """Open a stream and send its first message, with which a server begins its handler (BND-1)."""
    stream = await caller.stream(HOLD_SESSION, to=address)
    await stream.send(share_leader_pb2.HoldSessionRequest(group_id="first"))
    return stream


async def first_of(stream):
    """Read the first message as a handler, and return the iteration over the others."""
    messages = aiter(stream)
    await anext(messages)
    return messages


async def echo(request, context):
    return admin_pb2.ApiVersionsResponse(server_version=request.client_name)


async def test_unary_call_gets_the_answer(side) -> None:
    side.listener.offer(API_VERSIONS, echo)
    address = await side.start()
    answer = await side.caller().call(
        API_VERSIONS, admin_pb2.ApiVersionsRequest(client_name="jane"), to=address
    )
    assert answer.server_version == "jane"


async def test_messages_are_copies(side) -> None:
    kept = []

    async def keep(request, context):
        kept.append(request)
        request.client_name = "changed there"
        return admin_pb2.ApiVersionsResponse(server_version="x")

    side.listener.offer(API_VERSIONS, keep)
    address = await side.start()
    request = admin_pb2.ApiVersionsRequest(client_name="here")
    await side.caller().call(API_VERSIONS, request, to=address)
    assert request.client_name == "here"
    request.client_name = "changed here"
    assert kept[0].client_name == "changed there"


async def test_nobody_listens_is_unavailable_and_names_the_address(side) -> None:
    await side.start()
    with pytest.raises(CallFailedError, match="Admin/ApiVersions to " + side.nowhere) as caught:
        await side.caller().call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=side.nowhere)
    assert caught.value.failure is Failure.UNAVAILABLE
    with pytest.raises(CallFailedError) as caught:
        await side.caller().stream(CONSUME, to=side.nowhere)
    assert caught.value.failure is Failure.UNAVAILABLE


async def test_method_nobody_offers_is_unimplemented(side) -> None:
    side.listener.offer(API_VERSIONS, echo)
    address = await side.start()
    with pytest.raises(CallFailedError) as caught:
        await side.caller().call(METADATA, admin_pb2.MetadataRequest(), to=address)
    assert caught.value.failure is Failure.UNIMPLEMENTED
    with pytest.raises(CallFailedError) as caught:
        await side.caller().stream(CONSUME, to=address)
    assert caught.value.failure is Failure.UNIMPLEMENTED


async def test_deadline_cancels_the_handler(side) -> None:
    cancelled = asyncio.Event()

    async def slow(request, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    side.listener.offer(API_VERSIONS, slow)
    address = await side.start()
    with pytest.raises(CallFailedError) as caught:
        await side.caller().call(
            API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address, timeout_ms=100
        )
    assert caught.value.failure is Failure.DEADLINE_EXCEEDED
    await asyncio.wait_for(cancelled.wait(), WAIT_S)


async def test_cancelling_a_call_cancels_its_handler(side) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def slow(request, context):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    side.listener.offer(API_VERSIONS, slow)
    address = await side.start()
    call = asyncio.ensure_future(
        side.caller().call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    )
    await asyncio.wait_for(started.wait(), WAIT_S)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(cancelled.wait(), WAIT_S)


@pytest.mark.parametrize("failure", list(Failure))
async def test_failure_raised_by_a_handler_reaches_the_caller(side, failure) -> None:
    async def refuse(request, context):
        raise CallFailedError(failure, "because of the rain")

    side.listener.offer(API_VERSIONS, refuse)
    address = await side.start()
    with pytest.raises(CallFailedError, match="because of the rain") as caught:
        await side.caller().call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    assert caught.value.failure is failure


async def test_bug_in_a_handler_is_internal_and_the_server_lives(side, caplog) -> None:
    async def bug(request, context):
        raise KeyError("secret")

    async def bug_of_a_stream(stream, context):
        await first_of(stream)
        raise KeyError("secret")

    side.listener.offer(API_VERSIONS, bug)
    side.listener.offer_stream(HOLD_SESSION, bug_of_a_stream)
    address = await side.start()
    caller = side.caller()
    for _ in range(2):
        with pytest.raises(CallFailedError, match="KeyError") as caught:
            await caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
        assert caught.value.failure is Failure.INTERNAL
        assert "secret" not in str(caught.value)
    with pytest.raises(CallFailedError) as caught:
        async for _ in await begun(caller, address):
            pass
    assert caught.value.failure is Failure.INTERNAL
    assert "handler of" in caplog.text


async def test_stream_alternates_and_ends_in_good_order(side) -> None:
    async def upper(stream, context):
        async for message in stream:
            await stream.send(share_leader_pb2.HoldSessionResponse(error_message=message.group_id))

    side.listener.offer_stream(HOLD_SESSION, upper)
    address = await side.start()
    stream = await side.caller().stream(HOLD_SESSION, to=address)
    seen = aiter(stream)
    for word in ("one", "two", "three"):
        await stream.send(share_leader_pb2.HoldSessionRequest(group_id=word))
        assert (await anext(seen)).error_message == word
    await stream.close()
    await stream.close()
    with pytest.raises(StopAsyncIteration):
        await anext(seen)
    with pytest.raises(CallFailedError):
        await stream.send(share_leader_pb2.HoldSessionRequest())


async def test_server_may_end_a_stream_after_its_last_message(side) -> None:
    async def three(stream, context):
        await first_of(stream)
        for number in range(3):
            await stream.send(share_leader_pb2.HoldSessionResponse(error_code=number))

    side.listener.offer_stream(HOLD_SESSION, three)
    address = await side.start()
    stream = await begun(side.caller(), address)
    assert [message.error_code async for message in stream] == [0, 1, 2]
    with pytest.raises(CallFailedError):
        await stream.send(share_leader_pb2.HoldSessionRequest())


async def test_server_close_ends_the_handlers_own_iteration(side) -> None:
    streams = []
    ended = asyncio.Event()

    async def wait(stream, context):
        streams.append(stream)
        async for _ in stream:
            pass
        with pytest.raises(CallFailedError):
            await stream.send(share_leader_pb2.HoldSessionResponse())
        ended.set()

    side.listener.offer_stream(HOLD_SESSION, wait)
    address = await side.start()
    stream = await begun(side.caller(), address)
    while not streams:
        await asyncio.sleep(0.01)
    await streams[0].close()
    await asyncio.wait_for(ended.wait(), WAIT_S)
    assert [message async for message in stream] == []


async def test_failure_ends_a_stream_after_what_was_sent(side) -> None:
    async def one_then_fail(stream, context):
        await first_of(stream)
        await stream.send(share_leader_pb2.HoldSessionResponse(error_code=7))
        raise CallFailedError(Failure.RESOURCE_EXHAUSTED, "enough")

    side.listener.offer_stream(HOLD_SESSION, one_then_fail)
    address = await side.start()
    stream = aiter(await begun(side.caller(), address))
    assert (await anext(stream)).error_code == 7
    with pytest.raises(CallFailedError, match="enough") as caught:
        await anext(stream)
    assert caught.value.failure is Failure.RESOURCE_EXHAUSTED


async def test_a_cancelled_read_loses_nothing(side) -> None:
    go = asyncio.Event()
    heard = []

    async def patient(stream, context):
        messages = await first_of(stream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(messages)
        go.set()
        heard.append((await anext(messages)).group_id)
        await stream.send(share_leader_pb2.HoldSessionResponse(error_code=1))

    side.listener.offer_stream(HOLD_SESSION, patient)
    address = await side.start()
    stream = await begun(side.caller(), address)
    messages = aiter(stream)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await anext(messages)
    await asyncio.wait_for(go.wait(), WAIT_S)
    await stream.send(share_leader_pb2.HoldSessionRequest(group_id="late"))
    assert (await anext(messages)).error_code == 1
    assert heard == ["late"]


async def test_lost_connection_fails_both_sides(side) -> None:
    cancelled = asyncio.Event()

    async def hold(stream, context):
        await first_of(stream)
        await stream.send(share_leader_pb2.HoldSessionResponse())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def never(request, context):
        asked.set()
        await asyncio.Event().wait()

    asked = asyncio.Event()
    side.listener.offer_stream(HOLD_SESSION, hold)
    side.listener.offer(API_VERSIONS, never)
    address = await side.start()
    caller = side.caller()
    stream = aiter(await begun(caller, address))
    await anext(stream)
    call = asyncio.ensure_future(
        caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    )
    await asyncio.wait_for(asked.wait(), WAIT_S)
    await side.lose()
    with pytest.raises(CallFailedError) as caught:
        await asyncio.wait_for(anext(stream), WAIT_S)
    assert caught.value.failure is Failure.UNAVAILABLE
    with pytest.raises(CallFailedError) as caught:
        await asyncio.wait_for(call, WAIT_S)
    assert caught.value.failure is Failure.UNAVAILABLE
    await asyncio.wait_for(cancelled.wait(), WAIT_S)


async def test_a_caller_finds_the_way_back_after_a_lost_connection(side) -> None:
    side.listener.offer(API_VERSIONS, echo)
    address = await side.start()
    caller = side.caller()
    request = admin_pb2.ApiVersionsRequest(client_name="again")
    await caller.call(API_VERSIONS, request, to=address)
    await side.lose()
    answer = None
    async with asyncio.timeout(WAIT_S):
        while answer is None:
            with contextlib.suppress(CallFailedError):
                answer = await caller.call(API_VERSIONS, request, to=address)
            await asyncio.sleep(0.02)
    assert answer.server_version == "again"


async def test_large_messages_pass_and_larger_ones_are_refused(side) -> None:
    async def length(request, context):
        assert len(request.partitions[0].records) == largest
        return record_log_pb2.ProduceResponse()

    def produce(size: int) -> record_log_pb2.ProduceRequest:
        request = record_log_pb2.ProduceRequest()
        request.partitions.add(records=bytes(size))
        return request

    largest = PRODUCE.request_bytes_max - 64  # what stands around the records needs a few bytes
    side.listener.offer(PRODUCE, length)
    address = await side.start()
    caller = side.caller()
    await caller.call(PRODUCE, produce(largest), to=address)
    with pytest.raises(CallFailedError) as caught:
        await caller.call(PRODUCE, produce(PRODUCE.request_bytes_max), to=address)
    assert caught.value.failure is Failure.RESOURCE_EXHAUSTED


async def test_send_waits_while_the_reader_is_behind(side) -> None:
    total, size = 400, 256 * 1024
    sent = 0

    async def flood(stream, context):
        nonlocal sent
        await first_of(stream)
        for _ in range(total):
            await stream.send(share_leader_pb2.HoldSessionResponse(error_message="x" * size))
            sent += 1

    side.listener.offer_stream(HOLD_SESSION, flood)
    address = await side.start()
    stream = await begun(side.caller(), address)
    before = -1
    while sent != before or sent == 0:
        before = sent
        await asyncio.sleep(0.3)
    assert sent < total / 2, "nothing held the sender back"
    count = 0
    async for _ in stream:
        count += 1
    assert count == total


async def test_closing_a_caller_fails_its_calls_and_cancels_handlers(side) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def never(request, context):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def hold(stream, context):
        async for _ in stream:
            pass

    side.listener.offer(API_VERSIONS, never)
    side.listener.offer_stream(HOLD_SESSION, hold)
    address = await side.start()
    caller = side.caller()
    stream = await caller.stream(HOLD_SESSION, to=address)
    call = asyncio.ensure_future(
        caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    )
    await asyncio.wait_for(started.wait(), WAIT_S)
    await caller.close()
    with pytest.raises(CallFailedError):
        await call
    with pytest.raises(CallFailedError):
        await anext(aiter(stream))
    await asyncio.wait_for(cancelled.wait(), WAIT_S)
    with pytest.raises(CallFailedError) as caught:
        await caller.call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    assert caught.value.failure is Failure.CANCELLED


async def test_peer_is_equal_for_one_connection_and_differs_between_two(side) -> None:
    async def peer(request, context):
        return admin_pb2.ApiVersionsResponse(server_version=context.peer)

    side.listener.offer(API_VERSIONS, peer)
    address = await side.start()
    one, other = side.caller(), side.caller()
    request = admin_pb2.ApiVersionsRequest()
    peers = [
        (await caller.call(API_VERSIONS, request, to=address)).server_version
        for caller in (one, one, other)
    ]
    assert peers[0] == peers[1] != peers[2]


async def test_anonymous_without_tls(side) -> None:
    async def principal(request, context):
        return admin_pb2.ApiVersionsResponse(server_version=context.principal)

    side.listener.offer(API_VERSIONS, principal)
    address = await side.start()
    answer = await side.caller().call(API_VERSIONS, admin_pb2.ApiVersionsRequest(), to=address)
    assert answer.server_version == "User:ANONYMOUS"
