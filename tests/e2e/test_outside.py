"""A client outside of Kubernetes, with TLS."""

import pytest

from sharemesh.client import connect
from tests.e2e import stage

PORTS = {"shareLeaderPort": 30410, "groupCoordinatorPort": 30420, "bootstrapPort": 30409}
RECORDS = 40


@pytest.fixture
def certificates(mesh, tmp_path):
    """The node's address, and a folder with the certificates of the stage."""
    for name, data in mesh.certificates.items():
        (tmp_path / name).write_bytes(data)
    return stage.node_address(mesh.node), tmp_path


async def test_a_client_outside_reaches_every_leader_with_tls(mesh, small, certificates):
    address, files = certificates
    small(
        "outside",
        shareLeaders={"replicas": 2},
        tls={"secretName": stage.TLS_SECRET, "clientAuth": "Required"},
        external={"host": address, **PORTS},
    )
    topic, group = mesh.topic_and_group("abroad", cluster="outside")
    settings = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(files / "ca.crt"),
        "ssl.certificate.location": str(files / "tls.crt"),
        "ssl.key.location": str(files / "tls.key"),
    }
    outside = connect(f"{address}:{PORTS['bootstrapPort']}", **settings)
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


@pytest.mark.usefixtures("certificates")
async def test_a_client_without_a_certificate_is_turned_away(mesh, small):
    small("closed", tls={"secretName": stage.TLS_SECRET, "clientAuth": "Required"})
    said = mesh.kube("get", "pods", "-l", "sharemesh.io/cluster=closed", "-o", "name").split()
    assert len(said) == 3
    command = f"sharemesh cluster --bootstrap {mesh.bootstrap('closed')} --timeout 3000"
    pod = said[0].removeprefix("pod/")
    ended = mesh.kube.exec(pod, "sh", "-c", f"{command} >/dev/null 2>&1; echo exit $?")
    assert ended.strip() == "exit 1"
