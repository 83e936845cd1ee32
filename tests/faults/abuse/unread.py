"""Answers of single calls that nobody reads: gRPC holds them, and cannot take them back."""

import asyncio
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from sharemesh import methods as m
from sharemesh.methods import Method
from sharemesh.v1 import admin_pb2, record_log_pb2
from tests.faults.abuse.abused_cluster import MINE, NO_RIGHT, OTHER_RIGHT, Stage
from tests.faults.abuse.kinds import abuse, flood

QUESTIONS, FETCHES, CONNECTIONS = 500, 60, 4
NAMES = 10_000
BATCH = 100_000
HELD_S = 5.0
GROWTH_MAX = 400 << 20
"""64 MiB of answers, which are copied up to four times while they are made (BND-33)."""


async def held(
    stage: Stage, who: str, role: str, method: Method[Any, Any], requests: Iterable[Message]
) -> None:
    """Ask, and read no answer: the process has a bound for them."""
    before = max(size for name, size in stage.memory().items() if name.startswith(role))
    channels = [stage.new_channel(who, role) for _ in range(CONNECTIONS)]
    calls = []
    try:
        for number, request in enumerate(requests):
            channel = channels[number % CONNECTIONS]
            invoke: Any = channel.stream_stream(f"/sharemesh.v1.{method.name}")
            call = invoke()
            await call.write(request.SerializeToString())
            await call.done_writing()
            calls.append(call)
        await asyncio.sleep(HELD_S)
        after = max(size for name, size in stage.memory().items() if name.startswith(role))
        assert after - before < GROWTH_MAX, f"{role}: {(after - before) >> 20} MiB more"
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*(each.close() for each in channels))


@abuse(NO_RIGHT, once=True)
async def answers_that_are_not_read(stage: Stage, who: str) -> None:
    """Questions about 10,000 names each; the answers, 2 MB each, stay where they are."""
    request = admin_pb2.MetadataRequest()
    request.topics.names.extend(f"t{number}" for number in range(NAMES))
    await held(stage, who, "controller", m.METADATA, [request] * QUESTIONS)


@abuse(OTHER_RIGHT, once=True)
async def records_that_are_not_read(stage: Stage, who: str) -> None:
    """Fetches of 16 MB each of one's own topic, of which nothing is taken."""
    produced = record_log_pb2.ProduceRequest()
    part = produced.partitions.add(topic_id=stage.topic_ids[MINE], partition=1)
    for _ in range(8):
        part.decoded_records.add(value=bytes(BATCH))
    await flood(stage, who, "share-leader", m.PRODUCE, [produced] * 24, at_once=2)
    request = record_log_pb2.FetchRequest(max_bytes=16 << 20)
    request.partitions.add(topic_name=MINE, partition=1, max_bytes=16 << 20)
    await held(stage, who, "share-leader", m.FETCH, [request] * FETCHES)
