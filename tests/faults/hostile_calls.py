"""Streams that are opened and say nothing: they end with words, and others are served (BND-1)."""

import asyncio
import time
from collections import Counter
from typing import Any

import grpc

from sharemesh.methods import API_VERSIONS
from sharemesh.rpc.limits import FIRST_MESSAGE_MS
from sharemesh.v1.admin_pb2 import ApiVersionsRequest
from tests.faults.node import Place
from tests.faults.trials import Outcome

SILENT = 500
LATE_S = 10.0
"""How much later than its bound a stream may end on a machine that is busy."""

SLOW_S = 2.0
ASK_EVERY_S = 0.2
METHODS = ("ShareLeader/HoldSession", "ShareLeader/Consume")


async def silent_streams(number: int, seed: int) -> Outcome:
    """Every silent stream ends by itself; meanwhile another caller is answered soon."""
    async with Place() as place:
        node = await place.node("all")
        began = time.monotonic()
        async with grpc.aio.insecure_channel(node.address) as channel:
            silent: list[Any] = [
                channel.stream_stream(f"/sharemesh.v1.{METHODS[each % len(METHODS)]}")()
                for each in range(SILENT)
            ]
            ends = asyncio.gather(*(call.code() for call in silent))
            slowest = 0.0
            while not ends.done() and time.monotonic() - began < FIRST_MESSAGE_MS / 1e3 + LATE_S:
                asked = time.monotonic()
                await place.caller.call(API_VERSIONS, ApiVersionsRequest(), to=node.address)
                slowest = max(slowest, time.monotonic() - asked)
                await asyncio.sleep(ASK_EVERY_S)
            took_s = time.monotonic() - began
            left = sum(not call.done() for call in silent)
            for call in silent:
                call.cancel()
            codes = Counter(code.name for code in await ends)
        wrong = [f"{left} silent streams are still open after {took_s:.1f} s"] if left else []
        if set(codes) - {"DEADLINE_EXCEEDED", "CANCELLED"}:
            wrong.append(f"silent streams ended with {dict(codes)}")
        if slowest > SLOW_S:
            wrong.append(f"another caller waited {slowest:.2f} s")
        if not node.alive:
            wrong.append("the process ended")
    return Outcome(tuple(wrong), (), f"ended after {took_s:.1f} s, others waited {slowest:.2f} s")
