"""coordinators.state_write and coordinators.load: the share coordinator's figures."""

import asyncio
import os
import random
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sharemesh import methods
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.log_layout import shard_log_path
from sharemesh.codec.record_set import decode_plain_records
from sharemesh.codec.segment import SEGMENT_HEADER_BYTES
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey
from sharemesh.domain.share_state.records import Origin, StateSnapshot, StateUpdate
from sharemesh.domain.state_batch import StateBatch
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.runtime.shard_kind import RuntimeLimits
from sharemesh.runtime.shard_set import ShardSet
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh.share_coordinator.shard_kind import encode, state_shard_kind
from sharemesh.v1 import common_pb2
from sharemesh.v1 import share_coordinator_pb2 as pb
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from tests.bench.figures import Figure, alternate
from tests.bench.mesh import ROOT, Node, by_itself
from tests.bench.mesh_node import GROUP, TOPIC

CALLERS = 64
CALLS = 40  # of each caller in one round
BATCHES = 10
LOAD_KEYS = 10_000
LOAD_UPDATES = 1_000_000


def write_request(partition, start):
    """Return a write of ten batches, as a busy leader sends it."""
    batches = [
        common_pb2.StateBatch(
            first_offset=start + 20 * i,
            last_offset=start + 20 * i + 9,
            delivery_state=2 if i % 2 else 0,
            delivery_count=1 + i % 3,
            cause=1,
        )
        for i in range(BATCHES)
    ]
    item = pb.WritePartitionState(
        partition=partition,
        state_epoch=1,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=50,
        state_batches=batches,
        cause=1,
        member_id="c0ffee00-1234-5678-9abc-def012345678",
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
    )
    return pb.WriteShareGroupStateRequest(
        group_id=GROUP, topics=[pb.WriteTopicState(topic_id=TOPIC, partitions=[item])]
    )


async def initialize(address):
    client = GrpcCaller(SystemClock())
    request = pb.InitializeShareGroupStateRequest(
        group_id=GROUP,
        topics=[
            pb.InitializeTopicState(
                topic_id=TOPIC,
                partitions=[
                    pb.InitializePartitionState(partition=p, state_epoch=1, start_offset=0)
                    for p in range(CALLERS)
                ],
            )
        ],
    )
    await client.call(methods.INITIALIZE_SHARE_GROUP_STATE, request, to=address)
    await client.close()


async def calls_per_second(address, offset, write=methods.WRITE_SHARE_GROUP_STATE):
    """Return the rate of ``CALLERS`` callers, each with a share partition of its own."""
    client = GrpcCaller(SystemClock())
    requests = [[write_request(p, offset + 200 * i) for i in range(CALLS)] for p in range(CALLERS)]
    await client.call(write, requests[0][0], to=address)

    async def one(mine):
        for request in mine:
            response = await client.call(write, request, to=address)
            for topic in response.results:
                assert topic.partitions[0].error_code == 0, response

    began = time.perf_counter()
    await asyncio.gather(*map(one, requests))
    took = time.perf_counter() - began
    await client.close()
    return CALLERS * CALLS / took


def log_shape(directory):
    """Return (record batches, bytes) of the state log so far."""
    batches = size = 0
    for path in sorted((Path(directory) / shard_log_path("state", 0)).glob("*.log")):
        data = path.read_bytes()
        position, offset = SEGMENT_HEADER_BYTES, None
        while True:
            header = data[position : position + 12]
            if len(header) < 12 or not any(header):
                break
            offset = int.from_bytes(header[:8], "big")
            length = int.from_bytes(header[8:], "big") + 12
            batches, size, position = batches + 1, size + length, position + length
        assert offset is not None
    return batches, size


def syncs_per_second(directory, commits, size):
    """Return calls per second of the same bytes in as many appends, each with fdatasync."""
    path = Path(directory) / "bare"
    part = b"x" * (size // commits)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    began = time.perf_counter()
    for _ in range(commits):
        os.write(descriptor, part)
        os.fdatasync(descriptor)
    took = time.perf_counter() - began
    os.close(descriptor)
    path.unlink()
    return CALLERS * CALLS / took


@contextmanager
def nodes():
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        coordinator, bare = Node("coordinator", f"{directory}/state"), Node("bare")
        assert coordinator.process.pid != bare.process.pid
        try:
            yield coordinator, bare, f"{directory}/state"
        finally:
            coordinator.stop()
            bare.stop()


def state_write():
    with nodes() as (coordinator, bare, directory):
        asyncio.run(initialize(coordinator.address))
        rounds = iter(range(1_000))
        shape = log_shape(directory)

        def measured():
            nonlocal shape
            before = log_shape(directory)
            rate = asyncio.run(calls_per_second(coordinator.address, next(rounds) * 200 * CALLS))
            after = log_shape(directory)
            shape = (after[0] - before[0], after[1] - before[1])
            return rate

        measured()  # warm, and the grouping for the first baseline

        def baseline():
            bare_write = by_itself(methods.WRITE_SHARE_GROUP_STATE)
            unary = asyncio.run(calls_per_second(bare.address, 0, bare_write))
            disk = syncs_per_second(directory, *shape)
            return min(unary, disk)

        medians = alternate(baseline, measured)
    return Figure(
        "coordinators.state_write",
        medians.measured,
        "calls/s",
        medians.baseline,
        medians.ratio,
        0.5,
        goal=0.8,
    )


def made_log(rng):
    """Yield the records of a busy shard: a snapshot of each key, then updates in turn."""
    keys = [
        SharePartitionKey(GroupId(f"group-{i % 100}"), TOPIC, i // 100) for i in range(LOAD_KEYS)
    ]
    origin = Origin(Cause.ACCEPT, MemberId("c0ffee00-1234-5678-9abc-def012345678"))
    for key in keys:
        yield StateSnapshot(key, 0, 1, 0, 0, 0, 0, 1, 1, (), origin)
    starts = dict.fromkeys(keys, 0)
    for _ in range(LOAD_UPDATES // LOAD_KEYS):
        for key in keys:
            start = starts[key]
            batches = tuple(
                StateBatch(
                    start + 20 * i,
                    start + 20 * i + 9,
                    rng.choice((DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED)),
                    1 + rng.randrange(3),
                    Cause.ACCEPT,
                )
                for i in range(rng.randrange(1, 4))
            )
            starts[key] += 20
            yield StateUpdate(key, 0, 1, 0, start, 10, 2, batches, origin)


async def fill(directory, updates):
    """Write the log of ``load`` once, in batches as group commit makes them."""
    logs = EmbeddedShardLogs(SystemDisk(Path(directory)), SystemClock(), LogSettings(fsync=False))
    log = await logs.open("state", 0, 1)
    part = []
    for number, record in enumerate(made_log(random.Random(5))):
        if number >= LOAD_KEYS + updates:
            break
        part.append(encode(record))
        if len(part) == 50:
            log.append(part)
            part = []
            if number % 10_000 < 50:
                await log.committed(log.end_offset)
    if part:
        log.append(part)
    await log.committed(log.end_offset)
    await log.close()


def bare_read(directory):
    """Return records per second of reading the segments and parsing each value."""
    count = 0
    began = time.perf_counter()
    for path in sorted((Path(directory) / shard_log_path("state", 0)).glob("*.log")):
        data = memoryview(path.read_bytes())
        position = SEGMENT_HEADER_BYTES
        while position < len(data):
            offset = int.from_bytes(data[position : position + 8], "big")
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            if size == 12:
                break
            for record in decode_plain_records(data[position : position + size]):
                ShareStateRecord.FromString(record[1])
                count += 1
            position += size
            assert offset >= 0
    return count / (time.perf_counter() - began)


async def loaded(directory, epoch, expected):
    clock = SystemClock()
    logs = EmbeddedShardLogs(SystemDisk(Path(directory)), clock, LogSettings())
    shards = ShardSet(state_shard_kind(ShareCoordinatorSettings()), logs, clock, RuntimeLimits())
    began = time.perf_counter()
    await shards.start_shard(0, epoch)
    took = time.perf_counter() - began
    assert shards.shard(0).committed_end_offset == expected
    await shards.close()
    return expected / took


def load(updates=LOAD_UPDATES):
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        asyncio.run(fill(directory, updates))
        epochs = iter(range(2, 1_000))
        medians = alternate(
            partial(bare_read, directory),
            lambda: asyncio.run(loaded(directory, next(epochs), LOAD_KEYS + updates)),
        )
    return Figure(
        "coordinators.load",
        medians.measured,
        "updates/s",
        medians.baseline,
        medians.ratio,
        0.4,
        goal=0.7,
    )


def figures():
    """Return the figures of the share coordinator."""
    return [state_write(), load()]
