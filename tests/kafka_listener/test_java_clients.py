"""Kafka's own Java clients, as they are, at the listener of a real process."""

import json
import os
import subprocess
import sys

import pytest

from tests.etcd_server import die_with_parent
from tests.kafka.jars import KafkaMissingError
from tests.kafka_listener.java_clients import JavaClients, java_gateway

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

EXPLICIT = {"share_acknowledgement_mode": "explicit"}
LOCK_MS = 15_000


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    """Yield the addresses of one process of every role: gRPC's and Kafka's."""
    command = [sys.executable, "-m", "sharemesh.serve", "--listen-port", "0"]
    command += ["--kafka-listener-port", "0"]
    command += ["--data-directory", str(tmp_path_factory.mktemp("listener") / "data")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,  # noqa: PLW1509
    ) as process:
        try:
            told = json.loads(process.stdout.readline())
            yield f"{told['host']}:{told['port']}", told["kafka"]
        finally:
            process.terminate()
            process.wait(30)


def sharemesh(address, *words):
    done = subprocess.run(
        [sys.executable, "-m", "sharemesh.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "SHAREMESH_BOOTSTRAP": address},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def clients(listener):
    running = java_gateway()
    try:
        gateway = running.__enter__()
    except KafkaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    yield JavaClients(gateway, listener[1])
    running.__exit__(None, None, None)


@pytest.fixture
def topic(request, listener):
    """Create a topic and a group of the test's name that begins at its first record."""
    name = request.node.name.replace("[", "-").rstrip("]")
    sharemesh(listener[0], "topics", "create", name, "--partitions", "1")
    sharemesh(listener[0], "configs", "alter", "--group", name, "share.auto.offset.reset=earliest")
    return name


@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_implicitly_acknowledged_records_come_once(clients, topic, idempotent):
    """KLS-11, KLS-14, KLS-15."""
    producer = clients.producer(enable_idempotence=idempotent, compression_type="lz4")
    values = [f"value-{number}" for number in range(500)]
    assert clients.send(producer, topic, *values) == list(range(500))
    producer.close()
    consumer = clients.consumer(topic)
    consumer.subscribe([topic])
    assert [each.value() for each in clients.polled(consumer, 500)] == values
    assert clients.committed(consumer) == [False]
    assert clients.poll(consumer) == []
    consumer.close()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_consumer_without_a_group_reads_from_where_it_seeks(clients, topic, isolation):
    """KLS-18, FET-1."""
    producer = clients.producer()
    values = [f"value-{number}" for number in range(500)]
    clients.send(producer, topic, *values)
    reader = clients.reader(isolation_level=isolation)
    partition = clients.jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    partitions = clients.jvm.java.util.List.of(partition)
    reader.assign(partitions)
    assert reader.endOffsets(partitions).get(partition) == 500
    reader.seekToBeginning(partitions)
    found = clients.polled(reader, 500)
    assert [(each.offset(), each.value()) for each in found] == list(enumerate(values))
    assert clients.poll(reader) == []
    clients.send(producer, topic, "later")
    assert [each.value() for each in clients.polled(reader, 1)] == ["later"]
    reader.seek(partition, 250)
    assert [each.offset() for each in clients.polled(reader, 251)] == list(range(250, 501))
    reader.close()
    producer.close()


def test_each_kind_of_acknowledgement(clients, topic):
    """KLS-14: ACCEPT, RELEASE, REJECT and RENEW of one batch, by commitSync and by poll."""
    producer = clients.producer()
    clients.send(producer, topic, *"abcdefgh")
    consumer = clients.consumer(topic, **EXPLICIT)
    consumer.subscribe([topic])
    kinds = {"a": "ACCEPT", "b": "RELEASE", "c": "REJECT", "d": "RENEW"}
    for each in clients.polled(consumer, 8):
        kind = kinds.get(each.value(), "ACCEPT")
        consumer.acknowledge(each, getattr(clients.kind, kind))
    assert clients.committed(consumer) == [False]
    [renewed] = clients.polled(consumer, 1)
    assert (renewed.value(), renewed.deliveryCount().get()) == ("d", 1)
    consumer.acknowledge(renewed, clients.kind.ACCEPT)
    [released] = clients.polled(consumer, 1)
    assert (released.value(), released.deliveryCount().get()) == ("b", 2)
    consumer.acknowledge(released, clients.kind.ACCEPT)
    assert clients.committed(consumer) == [False]
    assert clients.poll(consumer) == []
    consumer.close()
    producer.close()


def test_what_a_member_leaves_unacknowledged_the_next_one_gets(clients, topic):
    """KLS-13: closing does not count a delivery."""
    producer = clients.producer()
    clients.send(producer, topic, "x")
    first = clients.consumer(topic, **EXPLICIT)
    first.subscribe([topic])
    assert [each.value() for each in clients.polled(first, 1)] == ["x"]
    first.close()
    second = clients.consumer(topic, **EXPLICIT)
    second.subscribe([topic])
    [again] = clients.polled(second, 1)
    assert again.value() == "x"
    second.acknowledge(again, clients.kind.ACCEPT)
    assert clients.committed(second) == [False]
    second.close()
    producer.close()


def test_at_most_so_many_records_in_the_mode_of_a_limit(clients, topic):
    """KLS-14."""
    producer = clients.producer()
    clients.send(producer, topic, *(str(number) for number in range(15)))
    consumer = clients.consumer(
        topic, **EXPLICIT, share_acquire_mode="record_limit", max_poll_records="10"
    )
    consumer.subscribe([topic])
    sizes = []
    while sum(sizes) < 15:
        found = clients.polled(consumer, 1)
        sizes.append(len(found))
        for each in found:
            consumer.acknowledge(each, clients.kind.ACCEPT)
    assert sizes == [10, 5]
    consumer.close()
    producer.close()


def test_a_mix_of_kinds_in_the_mode_of_a_limit(clients, topic):
    """KLS-14: each record comes as often as its acknowledgements say, few at a time."""
    producer = clients.producer()
    clients.send(producer, topic, *(str(number) for number in range(12)))
    consumer = clients.consumer(
        topic, **EXPLICIT, share_acquire_mode="record_limit", max_poll_records="4"
    )
    consumer.subscribe([topic])
    first_kinds = ("ACCEPT", "RELEASE", "REJECT", "RENEW")
    times = dict.fromkeys(enumerate(first_kinds * 3), 0)
    wanted = {each: 2 if each[1] in ("RELEASE", "RENEW") else 1 for each in times}
    while times != wanted:
        found = clients.polled(consumer, 1)
        assert len(found) <= 4
        for each in found:
            number = int(each.value())
            kind = first_kinds[number % 4]
            times[number, kind] += 1
            count = 2 if times[number, kind] == 2 and kind == "RELEASE" else 1
            assert each.deliveryCount().get() == count
            again = times[number, kind] > 1
            consumer.acknowledge(each, getattr(clients.kind, "ACCEPT" if again else kind))
        assert all(times[each] <= wanted[each] for each in times)
    assert clients.committed(consumer) == [False]
    assert clients.poll(consumer) == []
    consumer.close()
    producer.close()


def test_members_of_a_group_share_the_records(clients, topic):
    producer = clients.producer()
    consumers = [clients.consumer(topic, max_poll_records="50") for _ in range(2)]
    for each in consumers:
        each.subscribe([topic])
    clients.send(producer, topic, *(str(number) for number in range(1_000)))
    found = []
    for turn in range(200):
        found += [each.value() for each in clients.poll(consumers[turn % 2], 100)]
        if len(found) >= 1_000:
            break
    assert sorted(map(int, found)) == list(range(1_000))
    for each in consumers:
        each.close()
    producer.close()
