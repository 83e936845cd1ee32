"""Calls and streams that say nothing, or are not read, or are taken back."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import grpc

from sharemesh import methods as m
from sharemesh.v1 import admin_pb2, record_log_pb2, share_leader_pb2
from tests.faults.abuse.abused_cluster import MALLOR, MINE, NO_RIGHT, OTHER_RIGHT, Stage
from tests.faults.abuse.kinds import abuse, flood

SILENT = 11_000
"""More than the open calls that one principal may have (BND-2)."""

FEW_SILENT = 300
UNREAD = 30
TAKEN_BACK = 2_000
BATCH = 100_000
OPENED_AT_ONCE, OPENED_EVERY_S = 100, 0.02
"""How fast streams are opened: 5,000 a second, so that they are all open before the first ends."""

ENDS_S = 20.0
ENDS = {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "CANCELLED"}
"""The last is what gRPC says for a stream that is refused before it was taken."""


@abuse(NO_RIGHT, finding=5, once=True)
async def streams_that_say_nothing(stage: Stage, who: str) -> None:
    """More silent streams than one principal may have open: all end by themselves."""
    channels = [stage.new_channel(who, "share-leader") for _ in range(4)]
    methods = ("ShareLeader/HoldSession", "ShareLeader/Consume")
    calls: list[Any] = []
    try:
        while len(calls) < SILENT:
            for each in range(OPENED_AT_ONCE):
                open_one: Any = channels[each % 4].stream_stream(
                    f"/sharemesh.v1.{methods[each % 2]}"
                )
                calls.append(open_one())
            await asyncio.sleep(OPENED_EVERY_S)
        async with asyncio.timeout(ENDS_S):
            codes = Counter(await asyncio.gather(*(call.code() for call in calls)))
    finally:
        await asyncio.gather(*(each.close() for each in channels))
    assert {code.name for code in codes} <= ENDS, f"silent streams ended with {dict(codes)}"


@abuse(NO_RIGHT, once=True)
async def unary_calls_without_a_request(stage: Stage, who: str) -> None:
    """Calls whose one message never comes; they are taken back in the end."""
    calls: list[Any] = [
        stage.channel(who, "group-coordinator").stream_unary(
            f"/sharemesh.v1.{m.LIST_GROUPS.name}"
        )()
        for _ in range(FEW_SILENT)
    ]
    await asyncio.sleep(2.0)
    for call in calls:
        call.cancel()


@abuse(NO_RIGHT, once=True)
async def reflection_and_health_that_say_nothing(stage: Stage, who: str) -> None:
    """Silent streams of what gRPC's own tools ask."""
    names = (
        "grpc.health.v1.Health/Watch",
        "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    )
    calls: list[Any] = [
        stage.channel(who, "controller").stream_stream(f"/{names[each % 2]}")()
        for each in range(FEW_SILENT)
    ]
    async with asyncio.timeout(ENDS_S):
        await asyncio.gather(*(call.code() for call in calls))


@abuse(NO_RIGHT)
async def streams_that_only_end(stage: Stage, who: str) -> None:
    """Streams that close their half without a word."""

    async def one(method: str) -> None:
        call: Any = stage.channel(who, "share-leader").stream_stream(f"/sharemesh.v1.{method}")()
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await call.done_writing()
            while await call.read() is not grpc.aio.EOF:
                pass
        call.cancel()

    for _ in range(10):
        await asyncio.gather(*(one(each) for each in ("ShareLeader/Consume",) * 5))


@abuse(NO_RIGHT)
async def calls_taken_back(stage: Stage, who: str) -> None:
    """Calls that are cancelled as soon as they are sent, again and again."""
    invoke: Any = stage.channel(who, "share-leader").unary_unary(f"/sharemesh.v1.{m.METADATA.name}")
    for _ in range(TAKEN_BACK // 50):
        calls = [invoke(b"") for _ in range(50)]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.sleep(0.01)


@abuse(OTHER_RIGHT, finding=9, once=True)
async def streams_that_are_not_read(stage: Stage, who: str) -> None:
    """Members with all credit there is, whose streams nobody reads."""
    topic = stage.topic_ids[MINE]
    produced = record_log_pb2.ProduceRequest()
    part = produced.partitions.add(topic_id=topic, partition=0)
    for _ in range(8):
        part.decoded_records.add(value=bytes(BATCH))
    await flood(stage, who, "share-leader", m.PRODUCE, [produced] * 12, at_once=2)
    async with contextlib.AsyncExitStack() as streams:
        for number in range(UNREAD):
            group = f"{MALLOR}-unread-{number % 10}"
            start = share_leader_pb2.ConsumeRequest(credit_records=100_000, credit_bytes=1 << 40)
            start.start.group_id, start.start.member_id = group, f"unread-{number}"
            start.add.add(topic_id=topic, partitions=[0])
            await streams.enter_async_context(stage.stream(who, "share-leader", m.CONSUME, start))
        await asyncio.sleep(2.0)


@abuse(NO_RIGHT)
async def streams_of_what_is_no_request(stage: Stage, who: str) -> None:
    """Streams whose first message is of another type, or not of any."""
    wrong = admin_pb2.MetadataRequest(max_wait_ms=5).SerializeToString()
    for data in (wrong, b"\xff" * 100, b"\x0b" * 1_000):
        for method in (m.CONSUME, m.HOLD_SESSION):
            await stage.heard(who, "share-leader", method, data, for_s=0.3)
        await stage.heard(who, "group-coordinator", m.SHARE_GROUP_HEARTBEAT_STREAM, data, for_s=0.3)
