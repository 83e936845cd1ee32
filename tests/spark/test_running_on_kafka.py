"""`sharemesh-spark` where states are a topic: generations and history in an object store."""

import asyncio
import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import connect
from sharemesh.object_store.stored_objects import StoredObjects
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.local_cluster import LocalCluster
from tests.object_server import CREDENTIALS, object_server
from tests.spark.test_running_cluster import GROUP, RECORDS, REJECTED, TOPIC, consume, spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
UP = UpSettings(base_port=0, share_coordinators=1)
WAIT_S = 60


@pytest.fixture
def place(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with object_server() as server:
        yield server.uri("kept")


def published(place: str) -> list[str]:
    store = StoredObjects(place)
    found = [*store.tree("")]
    store.close()
    return found


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].exception(WAIT_S)  # of the test before, on this broker
    while admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].exception(WAIT_S) is not None:
        pass  # it is still being deleted


def write(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=0)
    assert producer.flush(WAIT_S) == 0


async def killed_and_back(cluster: LocalCluster) -> None:
    before = cluster.status("share-coordinator", 0).pid
    cluster.kill("share-coordinator", 0)
    async with asyncio.timeout(WAIT_S):
        status = cluster.status("share-coordinator", 0)
        while status.state is not ProcessState.READY or status.pid == before:
            await asyncio.sleep(0.1)
            status = cluster.status("share-coordinator", 0)


async def test_rep_13_generations_and_history_without_a_shared_directory(
    tmp_path, place, kafka_broker
):
    name = f"spark-{tmp_path.name}"
    settings = ServeSettings(
        data_directory=tmp_path / "data",
        cluster_id=name,
        storage="kafka",
        kafka_bootstrap_servers=(kafka_broker.bootstrap,),
        kafka_single_replica=True,
        group_shards=1,
        state_shards=2,
        generations=place,
    )
    brokers = tmp_path / "brokers.toml"
    brokers.write_text(
        f'cluster_id = "{name}"\nkafka_bootstrap_servers = ["{kafka_broker.bootstrap}"]\n'
    )
    await asyncio.to_thread(make_topic, kafka_broker.bootstrap)
    cluster = LocalCluster(settings, UP, clock=SystemClock())
    await cluster.start()
    try:
        bootstrap = cluster.bootstrap[0]
        where = connect(",".join(cluster.bootstrap))
        async with where.async_admin() as admin:
            await admin.attach_topics([TOPIC])
            await admin.alter_group_configs(GROUP, {"share.auto.offset.reset": "earliest"})
        await asyncio.to_thread(write, kafka_broker.bootstrap, RECORDS)
        await consume(where, RECORDS)

        async def asked(command, *words):
            figures = tmp_path / f"{command}.json"
            found = await spark(
                command, place, "--kafka", brokers, "--bootstrap", bootstrap, "--json", figures,
                "--cores", 1, "--work", tmp_path / f"work-{command}", *words,
            )  # fmt: skip
            assert found[0] == 0, found
            return json.loads(figures.read_text())

        ran = await asked("run", "--commit")
        told, report = ran["compaction"], ran["report"]
        assert told["committed_shards"]
        assert sum(each["share_partitions"] for each in told["shards"]) == 1
        ended = {line["became"]: line["records"] for line in report["by_cause"]}
        assert ended == {"acknowledged": RECORDS - 1, "archived": 1}

        await killed_and_back(cluster)  # what comes back has loaded the generation
        await asyncio.to_thread(write, kafka_broker.bootstrap, 10)
        await consume(where, 10)

        answers = (await asked("answers"))["answers"]
        (group,) = answers["groups"]
        assert group["group_id"] == GROUP
        assert sum(line["appended"] for line in answers["throughput"]) == RECORDS + 10
        kept = {path.partition("/")[0] for path in published(place)}
        assert kept == {"generations", "history"}

        record = f"{TOPIC}/0@{REJECTED}"
        code, said, complained = await spark(
            "explain", record, "--group", GROUP, "--data", place, "--kafka", brokers,
            "--bootstrap", bootstrap, "--work", tmp_path / "work-explain",
        )  # fmt: skip
        assert code == 0, said + complained
        assert "archived, delivery count 1: reject by " in said
    finally:
        await cluster.stop(fast=True)
