"""Batches that unpack to far more than they take, and questions that look for old things."""

import asyncio
import os
from collections import Counter
from typing import Any

from sharemesh import methods as m
from sharemesh.codec.record_set import COMPRESSION, build_batch
from sharemesh.v1 import record_log_pb2, share_leader_pb2
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.faults.abuse.abused_cluster import MALLOR, MINE, OTHER_RIGHT, Stage
from tests.faults.abuse.kinds import abuse, flood
from tests.faults.abuse.writing import LEADER, now_ms, produce

BOMB_BYTES = 15 << 20
"""What a bomb unpacks to: just what is still unpacked (BND-34)."""

BOMBS = 24
GROUPS = 8
SEARCHES = 48
PARTITIONS_OF_A_SEARCH = 16
EXPLAINED = 300
HELD_S = 5.0
GROWTH_MAX = 400 << 20
"""64 MiB of one principal, twice while they are made, and what the allocator keeps (BND-34)."""


def bomb(time_ms: int, *, records: int = 1, codec: str = "zstd") -> bytes:
    """Return a few kilobytes that unpack to ``BOMB_BYTES`` of zeros in good records."""
    made = [(None, bytes(BOMB_BYTES // records), ())] * records
    return bytes(build_batch(made, timestamp_ms=time_ms, compression=COMPRESSION[codec]))


async def with_bombs(stage: Stage) -> None:
    """Have bombs at the end of mallory's topic, and groups of hers that begin there."""
    if "bombs" in stage.said:
        return
    async with stage.client("root").async_admin() as admin:
        for number in range(GROUPS):
            config = {"share.auto.offset.reset": "by_duration:PT10M"}
            await admin.alter_group_configs(f"{MALLOR}-bombs-{number}", config)
    requests = [produce(stage, bomb(now_ms(), records=1 + number % 3)) for number in range(BOMBS)]
    await flood(stage, OTHER_RIGHT, LEADER, m.PRODUCE, requests, at_once=2)
    stage.said["bombs"] = BOMBS


async def _fetches(stage: Stage, who: str, group: str) -> Counter[int]:
    """Fetch in a session of its own until nothing comes; return the error codes."""
    fetch = share_leader_pb2.ShareFetchRequest(
        group_id=group,
        member_id=f"m{os.urandom(4).hex()}",
        max_bytes=1 << 20,
        max_records=50,
        max_wait_ms=500,
        record_format=share_leader_pb2.RECORD_FORMAT_DECODED,
    )
    fetch.topics.add(topic_id=stage.topic_ids[MINE]).partitions.add(partition=1)
    codes: Counter[int] = Counter()
    for epoch in range(6):
        fetch.share_session_epoch = epoch
        answer = await stage.ask(who, LEADER, m.SHARE_FETCH, fetch)
        codes[answer.error_code] += 1
        fetch.ClearField("topics")
    return codes


@abuse(OTHER_RIGHT, once=True, first=with_bombs)
async def decoded_bombs(stage: Stage, who: str) -> None:
    """Members of eight groups, four of each, fetch bombs in the decoded form."""
    groups = [f"{MALLOR}-bombs-{number % GROUPS}" for number in range(4 * GROUPS)]
    await asyncio.gather(*(_fetches(stage, who, group) for group in groups))


@abuse(OTHER_RIGHT, once=True, first=with_bombs)
async def decoded_bombs_that_are_not_read(stage: Stage, who: str) -> None:
    """Streams that ask for bombs in the decoded form, and take nothing of them."""
    before = max(size for name, size in stage.memory().items() if name.startswith(LEADER))
    channels = [stage.new_channel(who, LEADER) for _ in range(GROUPS)]
    calls = []
    try:
        for number, channel in enumerate(channels):
            first = share_leader_pb2.ConsumeRequest(
                start=share_leader_pb2.ConsumeStart(
                    group_id=f"{MALLOR}-bombs-{number}",
                    member_id=f"m{os.urandom(4).hex()}",
                    record_format=share_leader_pb2.RECORD_FORMAT_DECODED,
                ),
                add=[TopicPartitions(topic_id=stage.topic_ids[MINE], partitions=[1])],
                credit_records=10_000,
            )
            invoke: Any = channel.stream_stream(f"/sharemesh.v1.{m.CONSUME.name}")
            call = invoke()
            await call.write(first.SerializeToString())
            calls.append(call)
        await asyncio.sleep(HELD_S)
        after = max(size for name, size in stage.memory().items() if name.startswith(LEADER))
        assert after - before < GROWTH_MAX, f"{(after - before) >> 20} MiB more"
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*(each.close() for each in channels))


@abuse(OTHER_RIGHT, once=True, first=with_bombs)
async def searches_by_time_over_bombs(stage: Stage, who: str) -> None:
    """Offsets by time of partitions, again and again, each of which looks into bombs."""
    request = record_log_pb2.ListOffsetsRequest()
    for number in range(PARTITIONS_OF_A_SEARCH):
        request.partitions.add(
            topic_id=stage.topic_ids[MINE], partition=1, timestamp=now_ms() - 60_000 + number
        )
    await flood(stage, who, LEADER, m.LIST_OFFSETS, [request] * SEARCHES, at_once=SEARCHES)


@abuse(OTHER_RIGHT, once=True)
async def histories_without_pause(stage: Stage, who: str) -> None:
    """Explain of ended records, whose history share coordinators search, fifty at a time."""
    requests = [
        share_leader_pb2.ExplainRequest(
            group_id=MALLOR + "y", topic_name=MINE, partition=1, offset=number % 20
        )
        for number in range(EXPLAINED)
    ]
    await flood(stage, who, LEADER, m.EXPLAIN, requests, at_once=50)
