"""Section Q, fetching: limits, throttling, added partitions, a restarted leader, many consumers."""

import json
import os
import signal
import threading
import time

import pytest

from sharemesh.client import AcknowledgeType
from tests.cli.local_up import local_up
from tests.conformance.client_world import SHORT_LOCKS, ClientWorld

pytestmark = [pytest.mark.integration, pytest.mark.slow]

A = AcknowledgeType


def values(result) -> list:
    return list(result.values())


@pytest.mark.scenario("CL-S16")
@pytest.mark.parametrize("mode", ["batch_optimized", "record_limit"])
def test_max_poll_records_is_strict_in_both_modes(world, mode):
    """Kafka returns all 10 in batch_optimized mode; here the limit is one of each poll (HBK-21)."""
    topic = world.topic()
    world.produce(topic, 10, batched=True)
    consumer = world.consumer(topic, world.group(), max_poll_records=5, share_acquire_mode=mode)
    assert len(world.poll(consumer)) == 5
    assert len(world.poll(consumer)) == 5


@pytest.mark.scenario("CL-S17")
def test_released_records_come_again_in_record_limit_mode(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 20, batched=True)
    consumer = world.explicit(topic, group, max_poll_records=10, share_acquire_mode="record_limit")
    records = world.poll(consumer)
    assert len(records) == 10
    for position, record in enumerate(records):
        consumer.acknowledge(record, A.RELEASE if position % 2 else A.ACCEPT)
        assert values(consumer.commit_sync()) == [None]
    counts = []
    while sum(counts) < 15:
        again = world.poll(consumer)
        counts.append(len(again))
        for record in again:
            consumer.acknowledge(record)
    assert counts == [10, 5]


def lots(first: int, size: int, failures: int):
    """Yield (first offset, records) of each delivery of records that failed so often (THR)."""
    lot = 1 if failures == 9 else 512 >> failures - 4
    for start in range(first, first + size, lot):
        yield start, lot
        if failures < 9:
            yield from lots(start, lot, failures + 1)


@pytest.mark.scenario("CL-S40")
@pytest.mark.timeout(180)
def test_records_that_nobody_can_process_come_in_ever_smaller_lots(world):
    topic, group = world.topic(), world.group(share_delivery_count_limit=10)
    world.produce(topic, 512, batched=True)
    consumer = world.explicit(topic, group, max_poll_records=512)
    polls = []
    for _ in range(5 + 2 + 4 + 8 + 16 + 512):
        records = world.poll(consumer)
        offsets = [record.offset for record in records]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        polls.append((offsets[0], len(offsets)))
        for record in records:
            consumer.acknowledge(record, A.RELEASE)
        assert values(consumer.commit_sync()) == [None]
    assert [size for _, size in polls[:10]] == [512] * 5 + [256, 128, 64, 32, 1]
    assert polls == [(0, 512)] * 5 + list(lots(0, 512, 5))
    assert consumer.poll(1_000) == []


@pytest.mark.scenario("CL-S43")
def test_added_partitions_of_a_known_topic_start_at_zero(world):
    topic, group = world.topic(), world.group(share_auto_offset_reset="latest")
    consumer = world.consumer(topic, group)
    world.until(lambda: consumer.poll(100) == [] and _assigned(world, group) == 1)
    world.admin.add_partitions(topic, 2)
    for number in range(10):
        world.producer.send(topic, str(number), partition=1).result(20)
    got = []
    world.until(lambda: got.extend(consumer.poll(500)) or len(got) >= 10)
    assert [r.offset for r in got if r.partition == 1] == list(range(10))


def _assigned(world, group) -> int:
    members = getattr(world.admin.describe_groups([group])[group], "members", ())
    return sum(len(parts) for each in members for parts in each.assignment.values())


@pytest.mark.scenario("CL-S45")
@pytest.mark.timeout(120)
def test_a_restarted_leader_loses_nothing(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("q45") / "data", *SHORT_LOCKS) as up:
        own = ClientWorld(up.bootstrap)
        topic, group = own.topic(), own.group(share_record_lock_duration_ms=1_000)
        own.produce(topic, 10, batched=True)
        consumer = own.explicit(topic, group)
        records = own.poll(consumer, 10)
        leader = own.admin.describe_topics([topic])[topic].partitions[0].leader_id
        running = json.loads((up.directory / "run" / "cluster.json").read_text())
        (pid,) = [each["pid"] for each in running["processes"] if each["node_id"] == leader]
        os.kill(pid, signal.SIGKILL)
        for record in records:
            consumer.acknowledge(record)
        ((where, error),) = consumer.commit_sync(10_000).items()
        assert where.topic == topic
        seen = set() if error is not None else set(range(10))
        deadline = time.monotonic() + 60
        while len(seen) < 10:
            assert time.monotonic() < deadline, seen
            for record in consumer.poll(500):
                seen.add(record.offset)
                consumer.acknowledge(record)
        consumer.commit_sync(10_000)
        own.until(lambda: own.lag(group, topic) == 0)
        own.close()


@pytest.mark.scenario("CL-S46")
@pytest.mark.timeout(180)
def test_consumers_of_a_group_share_and_groups_do_not(world):
    topic = world.topic(2)
    groups = [world.group() for _ in range(3)]
    total = 5_000
    for number in range(total):
        world.producer.send(topic, str(number), key=str(number))
    world.producer.flush()
    seen: dict[str, list] = {group: [] for group in groups}

    def consume(group: str) -> None:
        consumer = world.cluster.share_consumer(group, [topic], max_poll_records=100)
        while len(seen[group]) < total:
            seen[group] += [(r.partition, r.offset) for r in consumer.poll(200)]
        consumer.commit_sync()
        consumer.close()

    threads = [
        threading.Thread(target=consume, args=(group,)) for group in groups for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for group in groups:
        assert len(seen[group]) == total
        assert len(set(seen[group])) == total


@pytest.mark.scenario("CL-S47")
def test_a_record_larger_than_fetch_max_bytes_is_returned(world):
    topic, group = world.topic(), world.group()
    for _ in range(2):
        world.producer.send(topic, b"x" * 20_000).result(20)
    consumer = world.consumer(topic, group, fetch_max_bytes=1_000)
    got = []
    world.until(lambda: got.extend(consumer.poll(500)) or len(got) >= 2)
    assert [len(r.value) for r in got] == [20_000, 20_000]
