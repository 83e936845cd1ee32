"""Events of gRPC that come together wake the loop once (decision 0014)."""

import json
import subprocess
import sys

PROGRAM = """
import asyncio, json, sys
import grpc
from sharemesh.rpc import event_wakes

CALLS = 64
read = []

class Counted(event_wakes.EventWakes):
    __slots__ = ()

    def recv(self, size, flags=0, /):
        data = super().recv(size, flags)
        read.append(len(data))
        return data

event_wakes.EventWakes = Counted

async def main():
    if sys.argv[1] == "late":
        grpc.aio.init_grpc_aio()
    in_effect = event_wakes.take_events_together()
    server = grpc.aio.server()

    async def answer(request, context):
        return request

    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test", {"echo": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo = channel.unary_unary("/test/echo")
        answers = await asyncio.gather(*(echo(b"%d" % n) for n in range(CALLS)))
        assert answers == [b"%d" % n for n in range(CALLS)]
        assert await echo(b"one that comes alone") == b"one that comes alone"
    await server.stop(0)
    print(json.dumps([in_effect, len(read), sum(read)]))

asyncio.run(main())
"""


def ran(when):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, when],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_events_that_come_together_wake_the_loop_once():
    in_effect, turns, events = ran("first")
    assert in_effect
    assert events > 64 * 2, "each call is some events, on either side"
    assert turns < events


def test_where_grpc_was_used_before_nothing_changes():
    assert ran("late") == [False, 0, 0]
