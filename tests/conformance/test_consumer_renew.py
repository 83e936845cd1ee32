"""Section Q, RENEW."""

import time

import pytest

from sharemesh.client import AcknowledgeType
from sharemesh.client.errors import (
    IllegalStateError,
    InvalidRecordStateError,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]

A = AcknowledgeType


def values(result) -> list:
    return list(result.values())


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
