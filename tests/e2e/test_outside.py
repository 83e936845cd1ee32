"""A client outside of Kubernetes, with TLS everywhere: also between pods and their etcd."""

import asyncio

import pytest
from confluent_kafka import Producer, ShareConsumer

from sharemesh.client import connect
from tests.e2e import environment
from tests.e2e.environment import CHARTS

PORTS = {"shareLeaderPort": 30410, "groupCoordinatorPort": 30420, "bootstrapPort": 30409}
KAFKA_PORTS = {"shareLeaderPort": 30930, "groupCoordinatorPort": 30940, "bootstrapPort": 30929}
RECORDS = 40
PATIENCE_S = 30


@pytest.fixture
def certificates(mesh, tmp_path):
    """The node's address, and a folder with the certificates of the environment."""
    for name, data in mesh.certificates.items():
        (tmp_path / name).write_bytes(data)
    return environment.node_address(mesh.node), tmp_path


@pytest.fixture
def etcd_with_tls(mesh):
    """The URL of an etcd of the chart that asks for certificates, beside the environment's own."""
    values = mesh.operator_values(**{"etcd.tlsSecretName": environment.TLS_SECRET})
    words = ["template", "secure", str(CHARTS / "sharemesh"), *values]
    rendered = mesh.kube.helm(*words, "--show-only", "templates/etcd/etcd.yaml")
    mesh.kube("apply", "-f", "-", text=rendered)
    yield f"https://secure-sharemesh-etcd.{mesh.namespace}.svc:2379"
    mesh.kube("delete", "-f", "-", "--wait=false", text=rendered)


async def test_a_client_outside_reaches_every_leader_with_tls_and_none_without_a_certificate(
    mesh, small, certificates, etcd_with_tls
):
    address, files = certificates
    small(
        environment.OUTSIDE_CLUSTER,
        etcd={"endpoints": [etcd_with_tls], "tlsSecretName": environment.TLS_SECRET},
        shareLeaders={"replicas": 2},
        tls={"secretName": environment.TLS_SECRET, "clientAuth": "Required"},
        external={"host": address, **PORTS},
        kafkaListener={"external": {"host": address, **KAFKA_PORTS}},
    )
    topic, group = mesh.topic_and_group("abroad", cluster="outside")
    settings = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(files / "ca.crt"),
        "ssl.certificate.location": str(files / "tls.crt"),
        "ssl.key.location": str(files / "tls.key"),
    }
    await reach_every_leader(f"{address}:{PORTS['bootstrapPort']}", settings, topic, group)

    pod = mesh.pods("group-coordinator", environment.OUTSIDE_CLUSTER)[0]["metadata"]["name"]
    command = f"sharemesh cluster --bootstrap {mesh.bootstrap('outside')} --timeout 3000"
    ended = mesh.kube.exec(pod, "sh", "-c", f"{command} >/dev/null 2>&1; echo exit $?")
    assert ended.strip() == "exit 1"

    mesh.kube.wait_for_condition(
        "sharecluster", environment.OUTSIDE_CLUSTER, "KafkaListenerReady", timeout_s=PATIENCE_S
    )
    status = mesh.kube.get("sharecluster", environment.OUTSIDE_CLUSTER)["status"]
    assert status["externalKafkaBootstrap"] == f"{address}:{KAFKA_PORTS['bootstrapPort']}"
    topic, group = mesh.topic_and_group("abroad-kafka", cluster="outside")
    servers = {"bootstrap.servers": status["externalKafkaBootstrap"], **settings}
    await asyncio.to_thread(reach_every_leader_by_kafka, address, servers, topic, group)


def reach_every_leader_by_kafka(address, servers, topic, group) -> None:
    """Take records there and back by librdkafka, as it is (KLS-50)."""
    producer = Producer(servers)
    told = producer.list_topics(timeout=PATIENCE_S)
    assert {f"{each.host}:{each.port}" for each in told.brokers.values()} == {
        f"{address}:{port}" for port in (30930, 30931, 30940)
    }
    leaders = {each.leader for each in told.topics[topic].partitions.values()}
    assert {told.brokers[each].port for each in leaders} == {30930, 30931}
    sent = {b"%d" % number for number in range(RECORDS)}
    for each in sent:
        producer.produce(topic, each, partition=int(each) % 4)
    assert producer.flush(PATIENCE_S) == 0
    consumer = ShareConsumer({**servers, "group.id": group})
    consumer.subscribe([topic])
    got: set[bytes] = set()
    for _ in range(2 * PATIENCE_S):
        got |= {each.value() for each in consumer.poll(0.5) or () if each.error() is None}
        if got == sent:
            break
    consumer.close()
    assert got == sent


async def reach_every_leader(bootstrap, settings, topic, group) -> None:
    """Take records there and back, by way of the addresses that leaders advertise."""
    address = bootstrap.partition(":")[0]
    outside = connect(bootstrap, **settings)
    async with outside.async_admin() as admin:
        described = (await admin.describe_topics([topic]))[topic]
        nodes = {node.node_id: node for node in (await admin.describe_cluster()).nodes}
    leaders = {partition.leader_id for partition in described.partitions}
    assert leaders == {"outside-share-leader-0", "outside-share-leader-1"}
    assert {nodes[leader].address for leader in leaders} == {f"{address}:30410", f"{address}:30411"}
    async with outside.async_producer() as producer:
        for number in range(RECORDS):
            await producer.send_and_wait(topic, b"%d" % number, partition=number % 4)
    got: set[bytes] = set()
    async with outside.async_share_consumer(group) as consumer:
        await consumer.subscribe([topic])
        for _ in range(60):
            got.update(record.value for record in await consumer.poll(1_000))
            if len(got) == RECORDS:
                break
    assert got == {b"%d" % number for number in range(RECORDS)}
