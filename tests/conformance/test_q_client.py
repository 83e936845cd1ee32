"""Section Q: the share consumer, over a cluster of real processes."""

import json
import os
import signal
import threading
import time

import pytest

from sharemesh.client import AcknowledgeType, ShareConsumer
from sharemesh.client.acknowledgements import encode
from sharemesh.client.config import REJECTED_BY_SHARE_CONSUMERS
from sharemesh.client.errors import (
    ConcurrentModificationError,
    ConfigError,
    CorruptRecordError,
    GroupMaxSizeReachedError,
    IllegalArgumentError,
    IllegalStateError,
    InterruptError,
    InvalidGroupIdError,
    InvalidRecordStateError,
    InvalidTopicError,
    RecordDeserializationError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    WakeupError,
)
from tests.cli.local_up import local_up
from tests.conformance.client_world import ClientWorld
from tests.conformance.corrupting import corrupting_environment

pytestmark = [pytest.mark.integration, pytest.mark.slow]

A = AcknowledgeType
MINE = "group.share.min.record.lock.duration.ms=1000"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("q") / "data", "--set", MINE) as up:
        world = ClientWorld(up.bootstrap)
        yield world
        world.close()


@pytest.fixture
def world(cluster):
    yield cluster
    cluster.end_test()


def values(result) -> list:
    return list(result.values())


@pytest.mark.scenario("CL-S02")
def test_subscribe_checks_its_argument(world):
    consumer = ShareConsumer({"bootstrap.servers": world.bootstrap, "group.id": "g"})
    for wrong in (None, [None], [""]):
        with pytest.raises(IllegalArgumentError):
            consumer.subscribe(wrong)
    consumer.subscribe(["t"])
    consumer.subscribe([])
    assert consumer.subscription() == frozenset()
    consumer.close()


@pytest.mark.scenario("CL-S03")
def test_configurations_are_checked(world):
    for group_id in (None, "", "   "):
        with pytest.raises(InvalidGroupIdError):
            ShareConsumer({"bootstrap.servers": world.bootstrap, "group.id": group_id})
    for name in REJECTED_BY_SHARE_CONSUMERS:
        with pytest.raises(ConfigError):
            ShareConsumer({"bootstrap.servers": world.bootstrap, "group.id": "g", name: "1"})


@pytest.mark.scenario("CL-S05")
def test_explicit_mode_demands_every_acknowledgement(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 2, batched=True)
    consumer = world.explicit(topic, group)
    first, second = world.poll(consumer, 2)
    consumer.acknowledge(first)
    with pytest.raises(IllegalStateError) as caught:
        consumer.poll(100)
    assert str(caught.value) == "All records must be acknowledged in explicit acknowledgement mode."
    consumer.acknowledge(second)


@pytest.mark.scenario("CL-S06")
def test_implicit_mode_refuses_acknowledge(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.consumer(topic, group)
    (record,) = world.poll(consumer)
    with pytest.raises(IllegalStateError):
        consumer.acknowledge(record)


@pytest.mark.scenario("CL-S08", "CL-S09")
def test_the_last_word_before_sending_counts_and_nothing_after(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.explicit(topic, group)
    told = []
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append(error))
    (record,) = world.poll(consumer)
    consumer.acknowledge(record, A.RELEASE)
    consumer.acknowledge(record, A.ACCEPT)
    assert consumer.poll(500) == []
    with pytest.raises(IllegalStateError) as caught:
        consumer.acknowledge(record)
    assert str(caught.value) == "The record cannot be acknowledged."
    assert told == [None]
    world.until(lambda: world.lag(group, topic) == 0)


@pytest.mark.scenario("CL-S10")
@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_released_and_unacknowledged_records_come_again_after_close(world, mode):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.consumer(topic, group, share_acknowledgement_mode=mode)
    (record,) = world.poll(consumer)
    if mode == "explicit":
        consumer.acknowledge(record, A.RELEASE)
    consumer.close()
    (again,) = world.poll(world.consumer(topic, group))
    assert again.delivery_count == 2


@pytest.mark.scenario("CL-S11")
@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_commit_sync_answers_once(world, mode):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.consumer(topic, group, share_acknowledgement_mode=mode)
    (record,) = world.poll(consumer)
    if mode == "explicit":
        consumer.acknowledge(record)
    result = consumer.commit_sync()
    assert [(p.topic, p.partition, e) for p, e in result.items()] == [(topic, 0, None)]
    assert consumer.commit_sync() == {}
    assert consumer.poll(300) == []


@pytest.mark.scenario("CL-S12")
def test_commit_async_tells_the_callback(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 3, batched=True)
    consumer = world.explicit(topic, group)
    told = []
    consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: told.append((sorted(*offsets.values()), error))
    )
    records = world.poll(consumer, 3)
    for record in records[:2]:
        consumer.acknowledge(record)
    consumer.commit_async()
    assert consumer.commit_sync() == {}
    with pytest.raises(IllegalStateError):
        consumer.poll(0)
    consumer.acknowledge(records[2])
    assert consumer.poll(300) == []
    assert told[0] == ([0, 1], None)


def number(data: bytes) -> int:
    return int(data)


@pytest.mark.scenario("CL-S13", "CL-S14")
def test_an_undeserializable_record_is_released_unless_overridden(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 2)
    world.producer.send(topic, b"bad").result(20)
    consumer = world.explicit(topic, group, value_deserializer=number)
    records = []
    while len(records) < 2:
        records += (batch := consumer.poll(2_000))
        for record in batch:
            consumer.acknowledge(record)
    consumer.commit_sync()
    with pytest.raises(RecordDeserializationError) as caught:
        consumer.poll(5_000)
    assert caught.value.offset == 2
    consumer.commit_sync()
    with pytest.raises(RecordDeserializationError):
        consumer.poll(5_000)
    for wrong in ((topic, 0, 1), ("other", 0, 2), (topic, 1, 2), (topic, 0, 3)):
        with pytest.raises(IllegalStateError):
            consumer.acknowledge_offset(*wrong, A.REJECT)
    consumer.acknowledge_offset(topic, 0, 2, A.REJECT)
    consumer.commit_sync()
    with pytest.raises(IllegalStateError):
        consumer.acknowledge_offset(topic, 0, 2, A.REJECT)
    assert consumer.poll(300) == []


@pytest.mark.scenario("CL-S15")
def test_a_corrupt_batch_is_rejected_unless_overridden(world):
    topic = world.topic()
    world.produce(topic, 1)

    def corrupt_consumer(group: str) -> ShareConsumer:
        config = {
            "bootstrap.servers": world.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
        consumer = ShareConsumer(config, environment=corrupting_environment())
        consumer.subscribe([topic])
        return consumer

    overridden = corrupt_consumer(world.group())
    with pytest.raises(CorruptRecordError):
        overridden.poll(10_000)
    overridden.acknowledge_offset(topic, 0, 0, A.RELEASE)
    with pytest.raises(CorruptRecordError):
        overridden.poll(10_000)
    overridden.close()
    group = world.group()
    rejected = corrupt_consumer(group)
    with pytest.raises(CorruptRecordError):
        rejected.poll(10_000)
    assert values(rejected.commit_sync()) == [None]
    assert rejected.poll(300) == []
    rejected.close()
    assert world.lag(group, topic) == 0


@pytest.mark.scenario("CL-S16")
def test_max_poll_records_is_strict_only_in_record_limit_mode(world):
    topic = world.topic()
    world.produce(topic, 10, batched=True)
    consumer = world.consumer(topic, world.group(), max_poll_records=5)
    assert len(world.poll(consumer)) == 10
    limited = world.consumer(
        topic, world.group(), max_poll_records=5, share_acquire_mode="record_limit"
    )
    assert len(world.poll(limited)) == 5
    assert len(world.poll(limited)) == 5


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


@pytest.mark.scenario("CL-S18", "CL-S19")
def test_a_late_acceptance_fails_and_the_record_comes_once_more(world):
    topic, group = world.topic(), world.group(share_record_lock_duration_ms=1_000)
    world.produce(topic, 1)
    consumer = world.consumer(topic, group)
    told = []
    consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: told.append((sorted(*offsets.values()), error))
    )
    assert [r.delivery_count for r in world.poll(consumer)] == [1]
    time.sleep(2.5)  # the scenario: the consumer is slower than its lock
    assert world.poll(consumer)[0].delivery_count >= 2
    assert consumer.poll(300) == []
    assert told[0][0] == [0]
    assert isinstance(told[0][1], InvalidRecordStateError)


@pytest.mark.scenario("CL-S20")
@pytest.mark.parametrize("by", ["poll", "commit_sync", "close"])
def test_the_callback_runs_in_the_calling_thread(world, by):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.explicit(topic, group)
    told = []
    consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: told.append(
            (sorted(*offsets.values()), error, threading.current_thread())
        )
    )
    (record,) = world.poll(consumer)
    consumer.acknowledge(record)
    if by == "poll":
        consumer.poll(500)
    elif by == "commit_sync":
        consumer.commit_sync()
    consumer.close()
    assert told == [([0], None, threading.current_thread())]


@pytest.mark.scenario("CL-S21")
def test_the_callback_may_wake_but_not_use_the_consumer(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.consumer(topic, group)
    refused = []

    def callback(offsets, error):
        try:
            consumer.poll(0)
        except IllegalStateError as inside:
            refused.append(inside)
        consumer.wakeup()
        raise LookupError("mine")

    consumer.set_acknowledgement_commit_callback(callback)
    world.poll(consumer)
    with pytest.raises(LookupError, match="mine"):
        consumer.commit_sync()
    assert refused
    with pytest.raises(WakeupError):
        consumer.poll(5_000)
    consumer.set_acknowledgement_commit_callback(None)


@pytest.mark.scenario("CL-S23")
def test_a_wakeup_loses_nothing(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.consumer(topic, group)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(5_000)
    assert [r.offset for r in world.poll(consumer)] == [0]


@pytest.mark.scenario("CL-S24")
def test_wrong_use_is_refused(world):
    consumer = world.consumer(world.topic(), world.group())
    with pytest.raises(IllegalArgumentError):
        consumer.close(-1)
    polling = threading.Thread(target=lambda: consumer.poll(1_500))
    polling.start()
    refused = 0
    while polling.is_alive():
        try:
            consumer.poll(0)
        except ConcurrentModificationError:
            refused += 1
    assert refused
    consumer.close()
    with pytest.raises(IllegalStateError):
        consumer.poll(0)


@pytest.mark.scenario("CL-S26")
def test_a_full_group_refuses_another_member(world):
    topic, group = world.topic(), world.group()
    world.admin.alter_configs({"group.share.max.size": "3"})
    try:
        members = [world.consumer(topic, group) for _ in range(3)]
        world.until(lambda: _members(world, group) == 3)
        fourth = world.consumer(topic, group)
        with pytest.raises(GroupMaxSizeReachedError):
            fourth.poll(10_000)
        assert len(members) == 3
    finally:
        world.admin.alter_configs({"group.share.max.size": None})


def _members(world, group) -> int:
    return len(getattr(world.admin.describe_groups([group])[group], "members", ()))


@pytest.mark.scenario("CL-S27")
def test_commit_sync_for_a_deleted_topic_returns_the_error(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.explicit(topic, group)
    (record,) = world.poll(consumer)
    consumer.acknowledge(record)
    assert world.admin.delete_topics([topic]) == {topic: None}
    world.until(lambda: topic not in world.admin.list_topics())
    time.sleep(0.5)  # the leader learns of it by its watch
    (error,) = values(consumer.commit_sync(5_000))
    assert isinstance(error, UnknownTopicIdError | UnknownTopicOrPartitionError), error


@pytest.mark.scenario("CL-S28")
def test_an_invalid_topic_and_an_interrupt_surface_from_poll(world):
    consumer = world.consumer("topic abc", world.group())
    with pytest.raises(InvalidTopicError):
        consumer.poll(10_000)
    waiting = world.consumer(world.topic(), world.group())
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(InterruptError):
        waiting.poll(20_000)


@pytest.mark.scenario("CL-S29")
def test_renewed_records_are_returned_again_by_poll(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 10, batched=True)
    consumer = world.explicit(topic, group)
    told = []
    consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: told.extend(*offsets.values())
    )
    for record in world.poll(consumer, 10):
        consumer.acknowledge(record, A.RENEW if record.offset < 5 else A.ACCEPT)
    again = world.poll(consumer)
    assert [(r.offset, r.delivery_count) for r in again] == [(n, 1) for n in range(5)]
    for record in again:
        consumer.acknowledge(record)
    assert values(consumer.commit_sync()) == [None]
    assert len(told) == 15


@pytest.mark.scenario("CL-S31")
def test_the_lock_timeout_follows_renewals_when_they_are_handed_out(world):
    topic, group = world.topic(), world.group(share_record_lock_duration_ms=15_000)
    world.produce(topic, 10, batched=True)
    consumer = world.explicit(topic, group)
    records = world.poll(consumer, 10)
    world.admin.alter_group_configs(group, {"share.record.lock.duration.ms": "25000"})
    time.sleep(0.5)  # the leader learns of it by its watch
    for position, record in enumerate(records):
        consumer.acknowledge(record, A.RENEW if position % 2 else A.ACCEPT)
        consumer.commit_sync()
        assert consumer.acquisition_lock_timeout_ms() == 15_000
    again = consumer.poll(5_000)
    assert len(again) == 5
    assert consumer.acquisition_lock_timeout_ms() == 25_000
    for record in again:
        consumer.acknowledge(record)


@pytest.mark.scenario("CL-S32")
def test_a_finished_record_cannot_be_renewed(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.explicit(topic, group)
    (record,) = world.poll(consumer)
    consumer.acknowledge(record, A.REJECT)
    consumer.commit_sync()
    with pytest.raises(IllegalStateError):
        consumer.acknowledge(record, A.RENEW)


@pytest.mark.scenario("CL-S33")
def test_renewal_can_be_turned_off_for_a_group(world):
    topic, group = world.topic(), world.group(share_renew_acknowledge_enable="false")
    world.produce(topic, 3, batched=True)
    consumer = world.explicit(topic, group)
    for record in world.poll(consumer, 3):
        consumer.acknowledge(record, A.RENEW)
    (error,) = values(consumer.commit_sync())
    assert isinstance(error, InvalidRecordStateError)
    assert consumer.poll(300) == []


def ranges(text: str) -> list:
    types = {}
    for part in text.split(";"):
        span, name = part.split()
        first, _, last = span.partition("-")
        types.update(dict.fromkeys(range(int(first), int(last or first) + 1), A[name]))
    return [
        (b.first_offset, b.last_offset, [int(t) for t in b.acknowledge_types])
        for b in encode(types)
    ]


@pytest.mark.scenario("CL-S34", "CL-S35", "CL-S36")
def test_acknowledgements_are_encoded_as_ranges():
    assert ranges("0-4 ACCEPT") == [(0, 4, [1])]
    assert ranges("0-2 ACCEPT; 3-4 RELEASE") == [(0, 4, [1, 1, 1, 2, 2])]
    assert ranges("0 GAP") == [(0, 0, [0])]
    assert encode({}) == []
    assert ranges("0-11 ACCEPT; 12-22 REJECT") == [(0, 11, [1]), (12, 22, [3])]
    mixed = (
        "0-9 ACCEPT; 10 REJECT; 11 ACCEPT; 12 RELEASE; 13 GAP; 14-24 ACCEPT; 25 REJECT; 26 RELEASE"
    )
    assert ranges(mixed) == [(0, 13, [1] * 10 + [3, 1, 2, 0]), (14, 24, [1]), (25, 26, [3, 2])]
    assert ranges("0-11 GAP") == [(0, 11, [0])]
    assert ranges("0-1 ACCEPT; 3-4 ACCEPT") == [(0, 1, [1]), (3, 4, [1])]


@pytest.mark.scenario("CL-S37")
def test_closing_does_not_lower_the_delivery_count(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 2, batched=True)
    consumer = world.explicit(topic, group)
    first, _ = world.poll(consumer, 2)
    consumer.acknowledge(first, A.RELEASE)
    consumer.commit_sync()
    consumer.close()
    other = world.consumer(topic, group)
    counts = []
    while len(counts) < 2:
        counts += [r.delivery_count for r in world.poll(other)]
    assert counts == [2, 2]


@pytest.mark.scenario("CL-S38")
def test_delivery_counts_rise_with_each_delivery(world):
    topic, group = world.topic(), world.group()
    world.produce(topic, 1)
    consumer = world.explicit(topic, group)
    (record,) = world.poll(consumer)
    assert record.delivery_count == 1
    consumer.acknowledge(record, A.RELEASE)
    consumer.commit_sync()
    (record,) = world.poll(consumer)
    assert record.delivery_count == 2
    consumer.close()
    (record,) = world.poll(world.consumer(topic, group))
    assert record.delivery_count == 3


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
    with local_up(tmp_path_factory.mktemp("q45") / "data", "--set", MINE) as up:
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
