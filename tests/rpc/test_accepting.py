"""Calls are taken ahead: those of one caller do not hold up the next one's (decision 0012)."""

import asyncio
import logging

import grpc
import pytest

from sharemesh.rpc import accepting
from sharemesh.rpc.accepting import (
    _SERVED_CALL,
    CALLS_AHEAD,
    _CallsAhead,
    _NextCall,
    accepts_ahead,
    grpc_server,
)

METHOD = "/bench.v1.Bench/Call"


async def until(reached):
    async with asyncio.timeout(30):
        while not reached():
            await asyncio.sleep(0)


class Calls(grpc.GenericRpcHandler):
    """Counts calls that began; they end once ``open`` is set."""

    def __init__(self):
        self.began = 0
        self.open = asyncio.Event()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.answer)

    async def answer(self, request, context):
        self.began += 1
        await self.open.wait()
        return b""


async def test_the_core_may_always_hand_over_so_many_calls(monkeypatch):
    assert accepts_ahead(), f"grpcio {grpc.__version__} has other inner parts: see accepting.py"
    asked, real = [], _CallsAhead._request_call

    async def request_call(server):
        asked.append(server)
        try:
            return await real(server)
        finally:
            asked.remove(server)

    monkeypatch.setattr(_CallsAhead, "_request_call", request_call)
    calls = Calls()
    server = grpc_server((), 10_000)
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await until(lambda: len(asked) == CALLS_AHEAD)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        burst = [channel.unary_unary(METHOD)(b"", timeout=30) for _ in range(2 * CALLS_AHEAD)]
        await until(lambda: calls.began == len(burst))
        await until(lambda: len(asked) == CALLS_AHEAD)
        calls.open.set()
        await asyncio.gather(*burst)
    await server.stop(0)
    await until(lambda: not asked)


async def test_calls_that_came_are_taken_in_no_turn_of_the_loop():
    """``asyncio.wait`` takes two turns for each: in a flood that is a queue for everybody."""
    came = _NextCall(loop=asyncio.get_running_loop())
    came.set_result("a call")
    waiting = asyncio.ensure_future(asyncio.wait([came], return_when=asyncio.FIRST_COMPLETED))
    await asyncio.sleep(0)
    assert waiting.done()
    assert waiting.result() == ({came}, set())


async def test_what_is_gathered_when_the_server_ends_ends():
    """The loop of a server that is cancelled before it was told to stop gathers its futures."""

    async def serve():
        left = _NextCall(loop=asyncio.get_running_loop())
        left.set_result("a call")
        try:
            await asyncio.Event().wait()
        finally:
            assert await asyncio.gather(left, return_exceptions=True) == ["a call"]

    serving = asyncio.ensure_future(serve())
    await asyncio.sleep(0)
    serving.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([serving])
    assert serving.cancelled()


async def test_a_call_that_comes_later_wakes_who_waits():
    later = _NextCall(loop=asyncio.get_running_loop())
    waiting = asyncio.ensure_future(asyncio.wait([later], return_when=asyncio.FIRST_COMPLETED))
    await asyncio.sleep(0)
    assert not waiting.done()
    later.set_result("a call")
    done, _ = await waiting
    assert done == {later}


async def test_a_stop_ends_at_once_whatever_was_asked_for_ahead():
    server = grpc_server((), 10_000)
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with asyncio.timeout(10):
        await server.stop(60)


@pytest.mark.parametrize("turns", [1, 10, 40])
async def test_a_stop_under_a_burst_ends_every_call_at_once(turns):
    calls = Calls()
    calls.open.set()
    server = grpc_server((), 10_000)
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await channel.unary_unary(METHOD)(b"", timeout=30)
        burst = [channel.unary_unary(METHOD)(b"", timeout=30) for _ in range(10 * CALLS_AHEAD)]
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            stopping = asyncio.create_task(server.stop(60))
            heard = [await each.code() for each in burst]
            await stopping
    assert set(heard) <= {
        grpc.StatusCode.OK,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNAVAILABLE,
    }


async def test_a_call_that_nobody_serves_does_not_hold_up_a_stop(monkeypatch):
    """The core may take one in the moment in which it stops; here it is one that is still held."""
    held, real = [], _CallsAhead._request_call

    async def request_call(server):
        held.append(await real(server))
        return held[-1]

    monkeypatch.setattr(_CallsAhead, "_request_call", request_call)
    calls = Calls()
    server = grpc_server((), 10_000)
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        served = channel.unary_unary(METHOD)(b"", timeout=30)
        await until(lambda: calls.began)
        assert _SERVED_CALL in {each.get_name() for each in asyncio.all_tasks()}
        unserved = [channel.unary_unary(METHOD)(b"", timeout=30) for _ in range(CALLS_AHEAD)]
        await until(lambda: len(held) > 1)
        async with asyncio.timeout(20):
            stopping = asyncio.create_task(server.stop(60))
            await until(lambda: server._server._stops)
            calls.open.set()
            assert await served == b""
            await stopping
            codes = [await each.code() for each in unserved]
    assert grpc.StatusCode.UNAVAILABLE in codes
    assert codes.count(grpc.StatusCode.OK) == calls.began - 1


async def test_a_call_beyond_the_bound_is_refused_and_the_next_one_is_taken():
    calls = Calls()
    server = grpc_server((), 1)
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        first = channel.unary_unary(METHOD)(b"", timeout=30)
        await until(lambda: calls.began)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(METHOD)(b"", timeout=30)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        calls.open.set()
        await first
        await channel.unary_unary(METHOD)(b"", timeout=30)
    await server.stop(0)


async def test_another_version_of_grpc_is_used_as_it_ships_and_said(monkeypatch, caplog):
    monkeypatch.setattr(accepting, "_NEEDED", ("_gone",))
    caplog.set_level(logging.WARNING)
    server = grpc_server((), 10)
    assert type(server) is type(grpc.aio.server())
    assert "takes one call at a time" in caplog.text
