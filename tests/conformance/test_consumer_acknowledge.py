"""Section Q, acknowledging: modes, commits, callback, delivery counts, encoding."""

import threading
import time

import pytest

from sharemesh.client import AcknowledgeType
from sharemesh.client.consumer.deliveries import encode_types
from sharemesh.client.errors import (
    IllegalStateError,
    InvalidRecordStateError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    WakeupError,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]

A = AcknowledgeType


def values(result) -> list:
    return list(result.values())


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


def ranges(text: str) -> list:
    types = {}
    for part in text.split(";"):
        span, name = part.split()
        first, _, last = span.partition("-")
        types.update(dict.fromkeys(range(int(first), int(last or first) + 1), A[name]))
    return [
        (b.first_offset, b.last_offset, [int(t) for t in b.acknowledge_types])
        for b in encode_types(types)
    ]


@pytest.mark.scenario("CL-S34", "CL-S35", "CL-S36")
def test_acknowledgements_are_encoded_as_ranges():
    assert ranges("0-4 ACCEPT") == [(0, 4, [1])]
    assert ranges("0-2 ACCEPT; 3-4 RELEASE") == [(0, 4, [1, 1, 1, 2, 2])]
    assert ranges("0 GAP") == [(0, 0, [0])]
    assert encode_types({}) == []
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
    """CL-10, CL-30."""
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
