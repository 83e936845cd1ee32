"""A client outside of Kubernetes, with TLS."""

import base64

import pytest
import trustme

from sharemesh.client import connect
from tests.e2e.kube import Kube

PORTS = {"shareLeaderPort": 30410, "groupCoordinatorPort": 30420, "bootstrapPort": 30409}
RECORDS = 40


@pytest.fixture
def certificates(mesh, tmp_path):
    """A Secret whose certificate holds for every name inside and for the node outside."""
    node = Kube("default").get("node", mesh.node)
    address = next(
        each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"
    )
    authority = trustme.CA()
    names = [f"*.{mesh.namespace}.svc", f"outside-bootstrap.{mesh.namespace}.svc", address]
    certificate = authority.issue_cert(*names)
    files = {
        "tls.crt": b"".join(blob.bytes() for blob in certificate.cert_chain_pems),
        "tls.key": certificate.private_key_pem.bytes(),
        "ca.crt": authority.cert_pem.bytes(),
    }
    mesh.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "outside-tls"},
            "type": "kubernetes.io/tls",
            "data": {name: base64.b64encode(data).decode() for name, data in files.items()},
        }
    )
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return address, tmp_path


async def test_a_client_outside_reaches_every_leader_with_tls(mesh, small, certificates):
    address, files = certificates
    small(
        "outside",
        shareLeaders={"replicas": 2},
        tls={"secretName": "outside-tls", "clientAuth": "Required"},
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
    small("closed", tls={"secretName": "outside-tls", "clientAuth": "Required"})
    said = mesh.kube("get", "pods", "-l", "sharemesh.io/cluster=closed", "-o", "name").split()
    assert len(said) == 3
    command = f"sharemesh cluster --bootstrap {mesh.bootstrap('closed')} --timeout 3000"
    pod = said[0].removeprefix("pod/")
    ended = mesh.kube.exec(pod, "sh", "-c", f"{command} >/dev/null 2>&1; echo exit $?")
    assert ended.strip() == "exit 1"
