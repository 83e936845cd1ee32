"""``sharemesh up --kafka``: a real Apache Kafka, its producers, our consumers, kills of both."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import AsyncAdminClient, AsyncShareConsumer
from sharemesh.ports.cluster import Role
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.local_cluster import LocalCluster
from tests.kafka.jars import KafkaMissingError
from tests.kafka.real_broker import RealBrokers, real_brokers

# The first test of a new machine fetches the jars of a broker.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]

WAIT_S = 60


@pytest.fixture
def kafka(tmp_path):
    running = real_brokers(tmp_path / "kafka")
    try:
        brokers = running.__enter__()
    except KafkaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    yield brokers
    running.__exit__(None, None, None)


def cluster_on(
    directory: Path, bootstrap: str, base_port: int = 0, **serve: object
) -> LocalCluster:
    settings = ServeSettings(
        data_directory=directory,
        storage="kafka",
        kafka_bootstrap_servers=tuple(bootstrap.split(",")),
        group_shards=2,
        state_shards=2,
        **serve,
    )
    up = UpSettings(
        base_port=base_port, share_leaders=2, share_coordinators=1, group_coordinators=1
    )
    return LocalCluster(settings, up, clock=SystemClock())


class Traffic:
    """Records that a plain Kafka producer writes, and what a share group had of them."""

    def __init__(self, kafka: RealBrokers, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "compression.type": "lz4", "linger.ms": 5}
        )
        self._topic = topic
        self.written = 0
        self.seen: dict[bytes, int] = {}

    def write(self, count: int) -> None:
        for number in range(self.written, self.written + count):
            self._producer.produce(self._topic, value=b"record %d" % number)
        assert self._producer.flush(WAIT_S) == 0
        self.written += count

    async def consume(self, consumer: AsyncShareConsumer) -> float:
        """Consume until every record was seen; return how long that took."""
        began = time.monotonic()
        async with asyncio.timeout(WAIT_S):
            while len(self.seen) < self.written:
                for record in await consumer.poll(500):
                    self.seen[record.value] = self.seen.get(record.value, 0) + 1
            await consumer.commit_sync()
        return time.monotonic() - began


async def test_records_of_a_kafka_producer_survive_kills_of_a_leader_the_broker_and_all(
    tmp_path, kafka
) -> None:
    directory = tmp_path / "data"
    cluster = cluster_on(directory, kafka.bootstrap, kafka_single_replica=True)
    await cluster.start()
    traffic = Traffic(kafka, "orders")
    try:
        async with AsyncAdminClient({"bootstrap.servers": ",".join(cluster.bootstrap)}) as admin:
            await admin.alter_group_configs("g", {"share.auto.offset.reset": "earliest"})
        await asyncio.to_thread(make_topic, kafka, "orders", 4)
        traffic.write(500)
        async with consumer_of(cluster) as consumer:
            await traffic.consume(consumer)
            accepted = dict(traffic.seen)

            killed = cluster.kill(str(Role.SHARE_LEADER), 0)
            traffic.write(500)
            await traffic.consume(consumer)
            assert await cluster.wait_for(lambda: is_back(cluster, killed), WAIT_S * 1_000)

            kafka.kill(1)
            kafka.start(1)
            await kafka.started(1)
            traffic.write(500)
            await traffic.consume(consumer)
    finally:
        await cluster.stop()

    again = cluster_on(directory, kafka.bootstrap, kafka_single_replica=True)
    await again.start()
    try:
        traffic.write(500)
        async with consumer_of(again) as consumer:
            await traffic.consume(consumer)
        assert {value: traffic.seen[value] for value in accepted} == accepted, "it is final"
    finally:
        await again.stop(fast=True)


async def test_one_broker_without_being_asked_for_is_one_sentence(tmp_path, kafka) -> None:
    cluster = cluster_on(tmp_path / "data", kafka.bootstrap)
    with pytest.raises(StartError, match="set kafka_single_replica to true") as caught:
        await cluster.start()
    assert caught.value.code is ExitCode.STORAGE_TOO_FEW_REPLICAS


async def test_ktp_20_a_start_that_a_taken_port_ended_is_gone_on_with_and_others_are_refused(
    tmp_path, kafka
) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StartError) as caught:
            await cluster_on(mine, kafka.bootstrap, port, kafka_single_replica=True).start()
    assert caught.value.code is ExitCode.PORT_IN_USE

    with pytest.raises(StartError, match="cluster id 'local', begun on host") as caught:
        await cluster_on(others, kafka.bootstrap, kafka_single_replica=True).start()
    assert caught.value.code is ExitCode.STORAGE_TAKEN
    assert not others.exists(), "the next start may choose another cluster id"

    again = cluster_on(mine, kafka.bootstrap, kafka_single_replica=True)
    await again.start()
    await again.stop(fast=True)


def make_topic(kafka: RealBrokers, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(WAIT_S)


def is_back(cluster: LocalCluster, killed: int) -> bool:
    status = cluster.status(str(Role.SHARE_LEADER), 0)
    return status.state is ProcessState.READY and status.pid != killed


@contextlib.asynccontextmanager
async def consumer_of(cluster: LocalCluster) -> AsyncIterator[AsyncShareConsumer]:
    """Yield a consumer of group g on ``orders``."""
    config = {"bootstrap.servers": ",".join(cluster.bootstrap), "group.id": "g"}
    async with AsyncShareConsumer(config) as consumer:
        await consumer.subscribe(["orders"])
        yield consumer
