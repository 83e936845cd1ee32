"""A ShareCluster on a Kafka broker that is a pod beside it; the broker and a leader are killed."""

import time

import pytest

from tests.e2e import disruptions
from tests.e2e.kafka_broker import POD, TOOL, KafkaBroker

CLUSTER = "on-kafka"


@pytest.fixture
def broker(mesh):
    """A broker as a pod."""
    made = KafkaBroker(mesh)
    try:
        made.start()
        yield made
    finally:
        made.remove()


def on_kafka(broker: KafkaBroker) -> dict:
    """Return storage in the broker, of which there is one."""
    kafka = {"bootstrapServers": [broker.address], "singleReplica": True, "manageTopics": True}
    return {"type": "Kafka", "kafka": kafka}


def test_killed_pods_of_the_broker_and_of_a_leader_lose_nothing(mesh, broker, small, timings):
    started = time.monotonic()
    leaders = {"replicas": 2}
    small(CLUSTER, storage=on_kafka(broker), shareLeaders=leaders, kafkaListener={})
    timings.note("ShareCluster on a broker: Ready", time.monotonic() - started)
    for role in ("share-leader", "share-coordinator", "group-coordinator"):
        for pod in mesh.pods(role, CLUSTER):
            sources = [set(volume) - {"name"} for volume in pod["spec"]["volumes"]]
            assert {"hostPath"} not in sources
            assert {"persistentVolumeClaim"} not in sources
    topic, group = mesh.topic_and_group(CLUSTER, cluster=CLUSTER)
    load = mesh.load(topic, group, cluster=CLUSTER)
    load.flows()

    broker.kill()
    load.flows()

    leader = mesh.pods("share-leader", CLUSTER)[0]["metadata"]
    disruptions.kill_pod(mesh.kube, leader["name"])
    disruptions.replaced(mesh.kube, leader["name"], leader["uid"])
    load.flows()

    verdict = load.finish()
    verdict.check()
    timings.note("broker and leader killed: longest silence", verdict.longest_silence_ms / 1000)
    mesh.settled(CLUSTER)

    started = time.monotonic()
    servers = mesh.kube.get("sharecluster", CLUSTER)["status"]["kafkaBootstrap"]
    assert servers == f"{CLUSTER}-bootstrap-kafka.{mesh.namespace}.svc:9092"
    by_kafkas_tools(mesh, servers)
    timings.note("Kafka's tools: a record there and back", time.monotonic() - started)


def by_kafkas_tools(mesh, servers) -> None:
    """Take a record there and back by the first address and the names that pods tell (KLS-50)."""
    topic, group = mesh.topic_and_group("tools", cluster=CLUSTER)
    where = f"--bootstrap-server {servers} --topic {topic}"
    mesh.kube.exec(POD, "sh", "-ec", f"echo by-kafka | {TOOL}.ConsoleProducer {where}")
    read = f"{TOOL}.consumer.ConsoleShareConsumer {where} --group {group} --max-messages 1"
    said = mesh.kube.exec(POD, "sh", "-ec", f"{read} --timeout-ms 30000")
    assert "by-kafka" in said.splitlines()
