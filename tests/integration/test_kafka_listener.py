"""Clients of librdkafka, as they are, at the listeners of a whole cluster of real processes."""

import contextlib
import json
import time

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    AcknowledgeType,
    Consumer,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 60


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    place = tmp_path_factory.mktemp("listener")
    listening = ("--kafka-listener", "127.0.0.1:0", "--trace-directory", str(place / "spans"))
    with local_up(place / "data", *listening) as up:
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


def test_a_consumer_reads_what_it_assigns_to_itself_over_a_restart(up, topic) -> None:
    """KLS-18, FET-1, FET-4."""
    settings = {
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    reader = Consumer({"bootstrap.servers": up.kafka_bootstrap, **settings})
    reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(6)])
    writer = producer(up)
    sent, found = [], []

    def exchange(prefix):
        for number in range(600):
            sent.append(b"%s-%d" % (prefix, number))
            writer.produce(topic, sent[-1], partition=number % 6)
        assert writer.flush(PATIENCE_S) == 0
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < len(sent):
            assert time.monotonic() < deadline, f"{len(found)} of {len(sent)} records"
            found.extend(e.value() for e in reader.consume(1_000, 0.5) if e.error() is None)

    exchange(b"before")
    restart = ("up", "restart", "share-leader-0", "--data-directory", str(up.directory))
    restarted = up.sharemesh(*restart)
    assert restarted.returncode == 0, restarted.stderr
    exchange(b"behind")
    assert sorted(found) == sorted(sent)
    reader.seek(TopicPartition(topic, 0, 150))
    again = reader.consume(1, PATIENCE_S)
    assert [(each.offset(), each.value()) for each in again] == [(150, b"behind-300")]
    reader.close()


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


def test_topics_settings_and_groups_are_administered(up, topic) -> None:
    """KLS-40 to KLS-42: librdkafka asks old versions."""
    admin = AdminClient({"bootstrap.servers": up.kafka_bootstrap})

    def done(futures):
        [future] = futures.values()
        return future.result(PATIENCE_S)

    name = f"{topic}-2"
    done(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "90000000"})]))
    done(admin.create_partitions([NewPartitions(name, 2)]))
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 2
    writer = producer(up)
    writer.produce(name, b"x", partition=1)
    assert writer.flush(PATIENCE_S) == 0
    latest = done(admin.list_offsets({TopicPartition(name, 1): OffsetSpec.latest()}))
    assert latest.offset == 1
    found = done(admin.describe_configs([ConfigResource("topic", name)]))
    assert found["retention.ms"].value == "90000000"
    change = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    group = ConfigResource("group", name, incremental_configs=[change])
    done(admin.incremental_alter_configs([group]))
    found = done(admin.describe_configs([ConfigResource("group", name)]))
    assert found["share.auto.offset.reset"].value == "earliest"
    with consumer(up, name) as reader:
        assert [each.value() for each in polled(reader, 1)] == [b"x"]
        listed = admin.list_consumer_groups(request_timeout=PATIENCE_S).result()
        assert (listed.valid, listed.errors) == ([], [])  # share groups are none of consumers
    done(admin.delete_topics([name]))
    deadline = time.monotonic() + PATIENCE_S
    while name in admin.list_topics(timeout=10).topics:  # a process that was asked may be behind
        assert time.monotonic() < deadline, "the topic is still there"


def test_each_request_has_a_span_that_names_api_and_version(up, topic) -> None:
    """KLS-26: and no call of it stands for one of gRPC."""
    writer = producer(up)
    writer.produce(topic, b"traced", partition=0)
    assert writer.flush(PATIENCE_S) == 0

    def produced():
        files = sorted((up.directory.parent / "spans").rglob("*.jsonl"))
        lines = [line for each in files for line in each.read_text().splitlines()]
        spans = [json.loads(e) for e in lines if '"kafka.Produce"' in e and e.endswith("}")]
        return [each["attributes"] for each in spans]

    deadline = time.monotonic() + PATIENCE_S
    while not produced():
        assert time.monotonic() < deadline, "no span of a Produce request"
        writer.poll(0.1)
    told = produced()[-1]
    assert (told["rpc.system.name"], told["rpc.method"]) == ("kafka", "Produce")
    assert told["rpc.response.status_code"] == "OK"
    assert told["share.kafka.api.version"] > 0
