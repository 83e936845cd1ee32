"""Clients of librdkafka, as they are, at the listeners of a whole cluster of real processes."""

import json
import time

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 60
GROUP = "workers"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(
        tmp_path_factory.mktemp("listener") / "data", "--kafka-listener", "127.0.0.1:0"
    ) as up:
        made = up.sharemesh("topics", "create", "orders", "--partitions", "6")
        assert made.returncode == 0, made.stderr
        reset = ("configs", "alter", "--group", GROUP, "share.auto.offset.reset=earliest")
        assert up.sharemesh(*reset).returncode == 0
        yield up


def producer(up, **more):
    return Producer({"bootstrap.servers": up.kafka_bootstrap, **more})


def consumer(up, **more):
    return ShareConsumer({"bootstrap.servers": up.kafka_bootstrap, "group.id": GROUP, **more})


def polled(consumer, wanted):
    """Return the messages of polls until there are so many."""
    found = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < wanted:
        assert time.monotonic() < deadline, f"{len(found)} of {wanted} records"
        for each in consumer.poll(0.5) or ():
            assert each.error() is None, each.error()
            found.append(each)
    return found


def test_brokers_are_the_share_leaders_and_group_coordinators(up) -> None:
    """KLS-10, KLS-2."""
    told = AdminClient({"bootstrap.servers": up.kafka_bootstrap}).list_topics(timeout=10)
    run = json.loads((up.directory / "run" / "cluster.json").read_text())
    at = {f"{each.host}:{each.port}" for each in told.brokers.values()}
    assert at == set(run["kafka_bootstrap"]) == set(up.kafka_bootstrap.split(","))
    assert len(at) == 5
    leaders = {each.leader for each in told.topics["orders"].partitions.values()}
    assert len(leaders) == 3
    assert leaders <= set(told.brokers)


@pytest.mark.parametrize("idempotent", [False, True])
def test_what_one_produces_the_other_consumes_once(up, idempotent) -> None:
    """KLS-11, KLS-13 to KLS-15: over three leaders, accepted by being polled on."""
    errors = []
    writer = producer(up, **{"enable.idempotence": idempotent, "compression.type": "zstd"})
    sent = {f"{idempotent}-{number}" for number in range(600)}
    for each in sorted(sent):
        writer.produce("orders", each.encode(), key=each, on_delivery=lambda e, _: errors.append(e))
    assert writer.flush(PATIENCE_S) == 0
    assert errors == [None] * len(sent)
    reader = consumer(up)
    reader.subscribe(["orders"])
    found = polled(reader, len(sent))
    reader.close()
    assert sorted(each.value().decode() for each in found) == sorted(sent)
    assert {each.delivery_count() for each in found} == {1}
    again = consumer(up)
    again.subscribe(["orders"])
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        assert not list(again.poll(0.2) or ())
    again.close()


def test_released_records_come_again_and_rejected_ones_do_not(up) -> None:
    """KLS-14."""
    writer = producer(up)
    for number in range(9):
        writer.produce("orders", b"%d" % number, partition=0)
    assert writer.flush(PATIENCE_S) == 0
    reader = consumer(up, **{"share.acknowledgement.mode": "explicit"})
    reader.subscribe(["orders"])
    kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
    for each in polled(reader, 9):
        reader.acknowledge(each, kinds[int(each.value()) % 3])
    results = reader.commit_sync()
    assert all(error is None for error in _errors(results)), results
    again = polled(reader, 3)
    assert sorted(int(each.value()) for each in again) == [1, 4, 7]
    assert {each.delivery_count() for each in again} == {2}
    for each in again:
        reader.acknowledge(each, AcknowledgeType.ACCEPT)
    reader.close()


def _errors(results):
    return [getattr(each, "error", None) for each in results or ()]


def test_the_leader_that_is_killed_is_followed(up) -> None:
    """KLS-8, KLS-10: it comes back under its number, and clients go on meanwhile."""
    writer = producer(up, **{"enable.idempotence": True})
    reader = consumer(up)
    reader.subscribe(["orders"])
    before = AdminClient({"bootstrap.servers": up.kafka_bootstrap}).list_topics(timeout=10)
    numbers = set(before.brokers)
    for number in range(300):
        writer.produce("orders", b"before-%d" % number)
    assert writer.flush(PATIENCE_S) == 0
    restarted = up.sharemesh(
        "up", "restart", "share-leader-0", "--data-directory", str(up.directory)
    )
    assert restarted.returncode == 0, restarted.stderr
    for number in range(300):
        writer.produce("orders", b"behind-%d" % number)
    assert writer.flush(PATIENCE_S) == 0
    values = {each.value() for each in polled(reader, 600)}
    assert len(values) == 600
    reader.close()
    after = AdminClient({"bootstrap.servers": up.kafka_bootstrap}).list_topics(timeout=10)
    assert set(after.brokers) == numbers
