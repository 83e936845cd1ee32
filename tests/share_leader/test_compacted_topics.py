"""Groups over compacted topics of a Kafka cluster: holes of any width are passed (KRL-6, ACQ-3)."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from sharemesh.domain.group_config import InFlightLimitType
from sharemesh.domain.share_partition.events import AcquireMode
from tests.backends.kafka.record_log_world import QUICK, batch, kafka_world, until
from tests.share_leader.world import ack, acquired, parts, world

ACCEPT = 1
HOLE = 2_000
EACH_MODE = pytest.mark.parametrize("mode", list(AcquireMode))
EACH_TYPE = pytest.mark.parametrize("limit_type", list(InFlightLimitType))
EACH_LIMIT = pytest.mark.parametrize("max_records", [1, 500])


@asynccontextmanager
async def compacted_world():
    """A leader that keeps nothing of what it read, and a compacted topic of memory brokers."""
    bounds, configs = replace(QUICK, cache_bytes_max=0), {"cleanup.policy": "compact"}
    async with (
        kafka_world(bounds, **configs) as kafka,
        world(manual=False, record_logs=kafka.logs) as w,
    ):
        await w.create_topic(kafka.topic_id, "orders", 2)
        await w.configure("g", auto_offset_reset="earliest", partition_max_record_locks=4_000)
        yield kafka, w


async def write_records(kafka, *, behind):
    """Write three records, those that compaction will remove, and some behind them."""
    await kafka.write(batch(3))
    for _ in range(HOLE // 500):
        await kafka.write(batch(500))
    if behind:
        await kafka.write(batch(behind))


def compact(kafka):
    kafka.cluster.compact("orders", 0, range(3, HOLE + 3), keeps_last=False)


async def consume(client, partition, count, max_records, mode, *, acknowledge=ACCEPT):
    """Fetch until so many records came, each acknowledged with the next fetch; return offsets."""
    found, acks, empty = [], (), 0
    while len(found) < count or acks:
        response = await client.fetch(
            partition,
            acks=acks,
            max_records=max_records if len(found) < count else 0,
            share_acquire_mode=mode,
            max_wait_ms=2_000,
        )
        assert response.error_code == 0, response
        entry = parts(response).get(partition)
        assert entry is None or (entry.error_code, entry.acknowledge_error_code) == (0, 0), entry
        runs = acquired(response, partition)
        acks = [ack(partition, first, last, acknowledge) for first, last, _ in runs]
        empty = 0 if runs else empty + 1
        assert empty < 10, f"nothing came behind {found}"
        for first, last, _ in runs:
            found += range(first, last + 1)
    return found


async def hold_all(client, partition, count=HOLE + 6):
    """Acquire so many records, all by default, and keep them."""
    held = 0
    for _ in range(10):
        response = await client.fetch(partition, max_records=count, max_wait_ms=100)
        held += sum(last - first + 1 for first, last, _ in acquired(response, partition))
        if held == count:
            return
    raise AssertionError(f"only {held} records came")


@EACH_MODE
@EACH_LIMIT
async def test_a_group_passes_a_hole_however_few_records_it_wants(max_records, mode):
    async with compacted_world() as (kafka, w):
        await write_records(kafka, behind=3)
        compact(kafka)
        await w.lead(kafka.partition)
        client = w.client()
        await client.join(kafka.partition)
        found = await consume(client, kafka.partition, 6, max_records, mode)
        assert found == [0, 1, 2, HOLE + 3, HOLE + 4, HOLE + 5]
        await until(lambda: w.runner(kafka.partition).machine.start_offset == HOLE + 6)


@EACH_MODE
@EACH_LIMIT
async def test_a_hole_at_the_end_is_passed_once_a_batch_comes_behind_it(max_records, mode):
    async with compacted_world() as (kafka, w):
        await write_records(kafka, behind=0)
        compact(kafka)
        await w.lead(kafka.partition)
        client = w.client()
        await client.join(kafka.partition)
        assert await consume(client, kafka.partition, 3, max_records, mode) == [0, 1, 2]
        response = await client.fetch(kafka.partition, max_records=max_records, max_wait_ms=10)
        assert not acquired(response, kafka.partition)
        await kafka.write(batch(2))
        found = await consume(client, kafka.partition, 2, max_records, mode)
        assert found == [HOLE + 3, HOLE + 4]


@EACH_MODE
@EACH_LIMIT
async def test_what_compaction_took_while_a_member_held_it_is_passed(max_records, mode):
    """ACQ-3: it was released, so the next fetch begins in the hole."""
    async with compacted_world() as (kafka, w):
        await write_records(kafka, behind=3)
        await w.lead(kafka.partition)
        first, second = w.client(), w.client("m2")
        await first.join(kafka.partition)
        await hold_all(first, kafka.partition)
        compact(kafka)
        await first.fetch(epoch=-1, max_records=0)
        await second.join(kafka.partition)
        found = await consume(second, kafka.partition, 6, max_records, mode)
        assert found == [0, 1, 2, HOLE + 3, HOLE + 4, HOLE + 5]
        await until(lambda: w.runner(kafka.partition).machine.start_offset == HOLE + 6)


@EACH_MODE
@EACH_LIMIT
async def test_what_compaction_took_before_another_leader_came_is_passed(max_records, mode):
    """Nothing tells the new leader whether what lies before the acknowledged records was held."""
    async with compacted_world() as (kafka, w):
        await write_records(kafka, behind=3)
        await w.lead(kafka.partition)
        first, second = w.client(), w.client("m2")
        await first.join(kafka.partition)
        await hold_all(first, kafka.partition)
        await first.acknowledge(ack(kafka.partition, HOLE + 3, HOLE + 4, ACCEPT))
        compact(kafka)
        await w.service.stop_partition(kafka.partition)
        await w.lead(kafka.partition)
        await second.join(kafka.partition)
        found = await consume(second, kafka.partition, 4, max_records, mode)
        assert found == [0, 1, 2, HOLE + 5]


@EACH_TYPE
async def test_a_hole_that_another_leader_finds_stops_no_start_offset(limit_type):
    """OFF-23, OFF-24: the lag is stored too, though nobody acknowledges anything any more."""
    async with compacted_world() as (kafka, w):
        await w.configure(
            "g",
            auto_offset_reset="earliest",
            partition_max_record_locks=HOLE + 3,
            in_flight_limit_type=limit_type,
        )
        await write_records(kafka, behind=3)
        await w.lead(kafka.partition)
        first, second = w.client(), w.client("m2")
        await first.join(kafka.partition)
        await hold_all(first, kafka.partition, HOLE + 3)
        await first.acknowledge(ack(kafka.partition, 0, 2, ACCEPT))
        await hold_all(first, kafka.partition, 3)
        await first.acknowledge(ack(kafka.partition, HOLE + 3, HOLE + 5, ACCEPT))
        compact(kafka)
        await w.service.stop_partition(kafka.partition)
        await w.lead(kafka.partition)
        await second.join(kafka.partition)
        response = await second.fetch(kafka.partition, max_records=1, max_wait_ms=100)
        assert not acquired(response, kafka.partition)
        machine = w.runner(kafka.partition).machine
        assert machine.start_offset == HOLE + 6
        await until(lambda: not machine.pending_write_count)
        await w.service.stop_partition(kafka.partition)
        await w.lead(kafka.partition)
        await second.fetch(kafka.partition, epoch=0, max_records=1, max_wait_ms=100)
        assert w.runner(kafka.partition).machine.start_offset == HOLE + 6
        await kafka.write(batch(2))
