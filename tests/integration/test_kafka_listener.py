"""Clients of librdkafka, as they are, at the listeners of a whole cluster of real processes."""

import contextlib
import json
import time

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 60


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(
        tmp_path_factory.mktemp("listener") / "data", "--kafka-listener", "127.0.0.1:0"
    ) as up:
        yield up


@pytest.fixture
def topic(request, up):
    """Create a topic, and a group of its name that begins at its start."""
    name = request.node.name.replace("[", "-").rstrip("]")
    made = up.sharemesh("topics", "create", name, "--partitions", "6")
    assert made.returncode == 0, made.stderr
    reset = ("configs", "alter", "--group", name, "share.auto.offset.reset=earliest")
    assert up.sharemesh(*reset).returncode == 0
    return name


def producer(up, **more):
    return Producer({"bootstrap.servers": up.kafka_bootstrap, **more})


@contextlib.contextmanager
def consumer(up, topic, **more):
    """Yield a member of the topic's group; it leaves with the block."""
    member = ShareConsumer({"bootstrap.servers": up.kafka_bootstrap, "group.id": topic, **more})
    member.subscribe([topic])
    try:
        yield member
    finally:
        member.close()


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


def test_brokers_are_the_share_leaders_and_group_coordinators(up, topic) -> None:
    """KLS-10, KLS-2."""
    told = AdminClient({"bootstrap.servers": up.kafka_bootstrap}).list_topics(timeout=10)
    run = json.loads((up.directory / "run" / "cluster.json").read_text())
    at = {f"{each.host}:{each.port}" for each in told.brokers.values()}
    assert at == set(run["kafka_bootstrap"]) == set(up.kafka_bootstrap.split(","))
    assert len(at) == 5
    leaders = {each.leader for each in told.topics[topic].partitions.values()}
    assert leaders <= set(told.brokers)


@pytest.mark.parametrize("idempotent", [False, True])
def test_what_one_produces_the_other_consumes_once(up, topic, idempotent) -> None:
    """KLS-11, KLS-13 to KLS-15."""
    errors = []
    writer = producer(up, **{"enable.idempotence": idempotent, "compression.type": "zstd"})
    sent = sorted(f"value-{number}" for number in range(600))
    for each in sent:
        writer.produce(topic, each.encode(), key=each, on_delivery=lambda e, _: errors.append(e))
    assert writer.flush(PATIENCE_S) == 0
    assert errors == [None] * len(sent)
    with consumer(up, topic) as reader:
        found = polled(reader, len(sent))
        reader.commit_sync()
    assert sorted(each.value().decode() for each in found) == sent
    assert {each.delivery_count() for each in found} == {1}
    with consumer(up, topic) as again:
        for _ in range(10):
            assert not list(again.poll(0.2) or ())


def test_released_records_come_again_and_rejected_ones_do_not(up, topic) -> None:
    """KLS-14."""
    writer = producer(up)
    for number in range(9):
        writer.produce(topic, b"%d" % number, partition=0)
    assert writer.flush(PATIENCE_S) == 0
    kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
    with consumer(up, topic, **{"share.acknowledgement.mode": "explicit"}) as reader:
        for each in polled(reader, 9):
            reader.acknowledge(each, kinds[int(each.value()) % 3])
        reader.commit_sync()
        again = polled(reader, 3)
        assert sorted(int(each.value()) for each in again) == [1, 4, 7]
        assert {each.delivery_count() for each in again} == {2}
        for each in again:
            reader.acknowledge(each, AcknowledgeType.ACCEPT)


def test_a_leader_that_is_restarted_keeps_its_number_and_clients_go_on(up, topic) -> None:
    """KLS-8, KLS-10."""
    admin = AdminClient({"bootstrap.servers": up.kafka_bootstrap})
    numbers = set(admin.list_topics(timeout=10).brokers)
    writer = producer(up, **{"enable.idempotence": True})
    sent = set()

    def produce(prefix):
        for number in range(300):
            sent.add(b"%s-%d" % (prefix, number))
            writer.produce(topic, b"%s-%d" % (prefix, number))
        assert writer.flush(PATIENCE_S) == 0

    with consumer(up, topic) as reader:
        produce(b"before")
        restart = ("up", "restart", "share-leader-0", "--data-directory", str(up.directory))
        restarted = up.sharemesh(*restart)
        assert restarted.returncode == 0, restarted.stderr
        produce(b"behind")
        found = set()
        deadline = time.monotonic() + PATIENCE_S
        while found != sent:
            assert time.monotonic() < deadline, f"{len(found)} of {len(sent)} records"
            found |= {each.value() for each in reader.poll(0.5) or () if each.error() is None}
    assert set(admin.list_topics(timeout=10).brokers) == numbers
