"""The port ShardLog: one suite over files, over the memory disk, and over topics of Kafka.

Offsets are compared with what the log says: a log may use some for itself.
"""

import contextlib
import random

import pytest

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    coordinator_topic_configs,
    create_coordinator_topics,
)
from sharemesh.backends.local.clock import SystemClock
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.shard_log import FencedError, LogFailedError, LogRecord
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.clocks import LoopClock
from tests.contract.broker_fillings import MemoryFilling
from tests.contract.disks import KINDS, make_disk


@contextlib.asynccontextmanager
async def on_brokers(filling):
    """Two topics of four partitions each, as a cluster has them."""
    await filling.start()
    try:
        topics = {}
        for name in ("state", "group"):
            configs = coordinator_topic_configs(1)
            made = await filling.make_topic(partitions=4, configs=configs)
            topics[name] = CoordinatorTopic(made.topic, made.topic_id)
        client = filling.client()
        yield OwnedKafkaLogs(client, topics, LoopClock())
        await client.close()
    finally:
        await filling.stop()


@contextlib.asynccontextmanager
async def on_apache_kafka(bootstrap):
    """The same on a real broker, through the client of the product."""
    client = KafkaBrokers(bootstrap.split(","), Dialing(LoopClock()), random.Random(1))
    name = f"contract-{random.SystemRandom().randrange(1 << 40):x}"
    topics = await create_coordinator_topics(
        client,
        LoopClock(),
        {"state": (f"{name}-state", 4), "group": (f"{name}-group", 4)},
        replication_factor=1,
        min_insync_replicas=1,
        servers=bootstrap,
    )
    yield OwnedKafkaLogs(client, topics, LoopClock())
    await client.close()


ON_APACHE = pytest.param("apache", marks=pytest.mark.kafka)


@pytest.fixture(params=[*KINDS, "kafka-memory", ON_APACHE])
async def logs(request, tmp_path):
    if request.param == "apache":
        async with on_apache_kafka(request.getfixturevalue("kafka_broker").bootstrap) as logs:
            yield logs
        return
    if request.param not in KINDS:
        async with on_brokers(MemoryFilling()) as logs:
            yield logs
        return
    disk = make_disk(request.param, tmp_path)
    yield EmbeddedShardLogs(disk, SystemClock(), LogSettings())
    disk.close()


def records(*keys: str) -> list[LogRecord]:
    return [LogRecord(key.encode(), f"value of {key}".encode()) for key in keys]


async def replayed(log, from_offset=None) -> list[LogRecord]:
    return [record async for chunk in log.replay(from_offset) for record in chunk]


async def keys_of(log, from_offset=None) -> list[bytes]:
    return [record.key for record in await replayed(log, from_offset)]


async def put(log, *keys: str) -> int:
    last = log.append(records(*keys))
    await log.committed(last + 1)
    return last


async def test_a_new_log_is_empty(logs):
    log = await logs.open("state", 3, 1)
    assert (log.epoch, log.start_offset) == (1, 0)
    assert log.end_offset == log.committed_end_offset
    assert await replayed(log) == []
    await log.committed(0)
    await log.close()


async def test_appended_records_get_offsets_at_once_and_are_committed_later(logs):
    log = await logs.open("state", 0, 1)
    first = log.end_offset
    assert log.append(records("a", "b")) == first + 1
    assert log.append(records("c")) == first + 2
    assert log.end_offset == first + 3
    assert log.committed_end_offset == first
    await log.committed(first + 3)
    assert log.committed_end_offset == first + 3
    await log.close()


async def test_replay_gives_back_what_was_committed_with_offsets_and_tombstones(logs):
    log = await logs.open("state", 0, 1)
    first = log.end_offset
    log.append([LogRecord(b"a", b"1"), LogRecord(b"b", None)])
    await put(log, "c")
    found = await replayed(log)
    assert [(r.offset, r.key, r.value) for r in found] == [
        (first, b"a", b"1"),
        (first + 1, b"b", None),
        (first + 2, b"c", b"value of c"),
    ]
    assert all(record.timestamp_ms > 0 for record in found)
    assert [record.offset for record in await replayed(log, first + 1)] == [first + 1, first + 2]
    assert await replayed(log, first + 3) == []
    await log.close()


async def test_a_new_epoch_finds_what_was_committed(logs):
    log = await logs.open("state", 0, 1)
    await put(log, "a", "b")
    end = log.end_offset
    await log.close()
    again = await logs.open("state", 0, 2)
    assert again.committed_end_offset == again.end_offset >= end
    await put(again, "c")
    assert await keys_of(again) == [b"a", b"b", b"c"]
    await again.close()


async def test_the_old_owner_is_fenced_by_a_take_over(logs):
    old = await logs.open("state", 0, 1)
    await put(old, "a")
    new = await logs.open("state", 0, 2)
    with pytest.raises(FencedError):
        await old.committed(1)  # also for an answer that only reads
    with pytest.raises(FencedError):
        old.append(records("b"))
    with pytest.raises(FencedError):
        await old.committed(1)
    await put(new, "c")
    assert await keys_of(new) == [b"a", b"c"]
    await old.close()
    await new.close()


async def test_what_a_fenced_owner_queued_is_not_in_the_log(logs):
    old = await logs.open("state", 0, 1)
    new = await logs.open("state", 0, 2)
    last = old.append(records("lost"))
    with pytest.raises(FencedError):
        await old.committed(last + 1)
    await put(new, "kept")
    await old.close()
    await new.close()
    third = await logs.open("state", 0, 3)
    assert await keys_of(third) == [b"kept"]
    await third.close()


async def test_an_old_or_equal_epoch_cannot_open(logs):
    log = await logs.open("state", 0, 5)
    for epoch in (4, 5):
        with pytest.raises(FencedError) as fenced:
            await logs.open("state", 0, epoch)
        assert fenced.value.fence_epoch == 5
    await put(log, "still mine")
    assert await keys_of(log) == [b"still mine"]
    await log.close()


async def test_shards_and_names_are_logs_of_their_own(logs):
    one, two, group = [
        await logs.open(name, shard, 1)
        for name, shard in (("state", 0), ("state", 1), ("group", 0))
    ]
    await put(one, "a")
    await put(two, "b")
    assert await replayed(group) == []
    assert await keys_of(two) == [b"b"]
    for log in (one, two, group):
        await log.close()


async def test_appends_of_any_size_keep_their_order_and_are_whole(logs):
    log = await logs.open("state", 0, 1)
    made = [LogRecord(b"%d" % n, bytes(500 * n)) for n in range(200)]
    for at in range(0, 200, 5):
        log.append(made[at : at + 5])
    await log.committed(log.end_offset)
    found = await replayed(log)
    assert [(r.key, len(r.value)) for r in found] == [(r.key, len(r.value)) for r in made]
    assert [r.offset for r in found] == list(range(found[0].offset, found[0].offset + 200))
    await log.close()


async def test_delete_before_moves_the_start_for_good(logs):
    log = await logs.open("state", 0, 1)
    first = log.end_offset
    for n in range(60):
        await put(log, f"key {n}")
    start = first + 50
    await log.delete_before(start)
    assert log.start_offset == start
    assert log.end_offset == log.committed_end_offset >= first + 60
    assert [record.offset for record in await replayed(log)] == list(range(start, first + 60))
    await log.delete_before(first + 10)
    assert log.start_offset == start
    await log.close()
    again = await logs.open("state", 0, 2)
    assert again.start_offset == start
    assert [record.offset for record in await replayed(again)] == list(range(start, first + 60))
    await again.close()


async def test_everything_can_be_deleted_and_the_log_goes_on(logs):
    log = await logs.open("state", 0, 1)
    await put(log, "a", "b")
    await log.delete_before(log.committed_end_offset)
    assert await replayed(log) == []
    await put(log, "c")
    await log.close()
    again = await logs.open("state", 0, 2)
    assert await keys_of(again) == [b"c"]
    await again.close()


async def test_delete_before_past_the_committed_end_is_refused(logs):
    log = await logs.open("state", 0, 1)
    with pytest.raises(ValueError, match="past the committed end"):
        await log.delete_before(log.committed_end_offset + 1)
    await log.close()


async def test_waiting_for_an_offset_that_nobody_appended_is_refused(logs):
    log = await logs.open("state", 0, 1)
    with pytest.raises(ValueError, match="past the end"):
        await log.committed(log.end_offset + 1)
    await log.close()


async def test_an_empty_append_is_refused(logs):
    log = await logs.open("state", 0, 1)
    with pytest.raises(ValueError, match="at least one record"):
        log.append([])
    await log.close()


async def test_close_commits_what_was_queued_and_then_refuses(logs):
    log = await logs.open("state", 0, 1)
    log.append(records("a"))
    await log.close()
    with pytest.raises(LogFailedError, match="closed"):
        log.append(records("b"))
    with pytest.raises(LogFailedError, match="closed"):
        await log.committed(1)
    again = await logs.open("state", 0, 2)
    assert await keys_of(again) == [b"a"]
    await again.close()
