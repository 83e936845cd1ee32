"""Section Q, using the consumer: configuration, subscription, threads, wakeup, interrupts."""

import os
import signal
import threading

import pytest

from sharemesh.client import ShareConsumer
from sharemesh.client.config import REJECTED_BY_SHARE_CONSUMERS
from sharemesh.client.errors import (
    ConcurrentModificationError,
    ConfigError,
    GroupMaxSizeReachedError,
    IllegalArgumentError,
    IllegalStateError,
    InterruptError,
    InvalidGroupIdError,
    InvalidTopicError,
    WakeupError,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]


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


@pytest.mark.scenario("CL-S28")
def test_an_invalid_topic_and_an_interrupt_surface_from_poll(world):
    consumer = world.consumer("topic abc", world.group())
    with pytest.raises(InvalidTopicError):
        consumer.poll(10_000)
    waiting = world.consumer(world.topic(), world.group())
    # A background job of a shell starts with interrupts ignored, and Python then leaves them so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(InterruptError):
            waiting.poll(20_000)
    finally:
        signal.signal(signal.SIGINT, before)
