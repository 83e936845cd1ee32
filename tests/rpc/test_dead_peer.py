"""A peer that stopped answering without closing its sockets is noticed in seconds."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import HOLD_SESSION
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.server import GrpcServer
from sharemesh.v1 import share_leader_pb2

SERVER = """
import asyncio
from sharemesh.methods import HOLD_SESSION
from sharemesh.rpc.server import GrpcServer
async def hold(stream, context):
    async for _ in stream: pass
async def main():
    server = GrpcServer()
    server.offer_stream(HOLD_SESSION, hold)
    print(await server.start("127.0.0.1", 0), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""

CLIENT = """
import asyncio, sys
from sharemesh.backends.local.clock import SystemClock
from sharemesh.methods import HOLD_SESSION
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.v1.share_leader_pb2 import HoldSessionRequest
async def main():
    stream = await GrpcCaller(SystemClock()).stream(HOLD_SESSION, to=sys.argv[1])
    await stream.send(HoldSessionRequest(group_id="g"))
    print("open", flush=True)
    async for _ in stream: pass
asyncio.run(main())
"""


@pytest.mark.slow
async def test_frozen_server_fails_the_stream_within_ten_seconds() -> None:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        address = f"127.0.0.1:{process.stdout.readline().strip()}"
        caller = GrpcCaller(SystemClock())
        stream = await caller.stream(HOLD_SESSION, to=address)
        await stream.send(share_leader_pb2.HoldSessionRequest())
        os.kill(process.pid, signal.SIGSTOP)
        frozen = time.monotonic()
        with pytest.raises(CallFailedError) as caught:
            await asyncio.wait_for(anext(aiter(stream)), 20)
        assert caught.value.failure is Failure.UNAVAILABLE
        assert time.monotonic() - frozen < 10
        await caller.close()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
async def test_frozen_client_cancels_the_handler_within_ten_seconds() -> None:
    ended = asyncio.Event()

    async def hold(stream, context):
        try:
            async for _ in stream:
                pass
        finally:
            ended.set()

    server = GrpcServer()
    server.offer_stream(HOLD_SESSION, hold)
    port = await server.start("127.0.0.1", 0)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, f"127.0.0.1:{port}", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 10) == b"open\n"
        os.kill(process.pid, signal.SIGSTOP)
        await asyncio.wait_for(ended.wait(), 10)
    finally:
        process.kill()
        await process.communicate()
        await server.stop(0)
