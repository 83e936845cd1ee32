"""A cluster whose pods, operator and clients are known by ServiceAccount tokens (IDN-1, IDN-2)."""

import asyncio
import time

import pytest
import trustme

from sharemesh.client.connect import connect
from tests.operator.sample_objects import addresses
from tests.rpc.certificates import issue, replace
from tests.tokens.issuer import ISSUER, key_set, token

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

WEB = "system:serviceaccount:shop:web"
OPERATOR = "system:serviceaccount:sharemesh:operator"


def show(path, subject: str) -> None:
    now = int(time.time())
    replace(path, token(sub=subject, nbf=now - 1, exp=now + 3_600).encode())


async def test_pods_operator_and_clients_are_who_their_accounts_are(land) -> None:
    secrets, tokens = land.directory / "secrets" / "mesh-tls", land.directory / "tokens"
    secrets.mkdir(parents=True)
    tokens.mkdir()
    authority = trustme.CA()
    replace(secrets / "ca.crt", authority.cert_pem.bytes())
    issue(authority, secrets, "tls", "mesh")
    replace(tokens / "keys.json", key_set("rs1"))
    for name, subject in (
        ("mesh-token", "system:serviceaccount:queues:pods"),
        ("operator", OPERATOR),
        ("web", WEB),
    ):
        show(tokens / name, subject)

    await land.start_operator(token_file=tokens / "operator")
    await land.cluster(
        tls={"secretName": "mesh-tls"},
        tokens={"issuer": ISSUER, "serviceAccountName": "pods"},
        authorization={"mode": "Acl", "superUsers": [f"User:{OPERATOR}"]},
    )
    await land.topic()
    await land.group(autoOffsetReset="Earliest")
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    await land.condition("ShareTopic", "orders", "True", "InSync")
    await land.condition("ShareGroup", "billing", "True", "InSync")

    cluster = connect(
        addresses(land),
        security_protocol="ssl",
        ssl_ca_location=str(secrets / "ca.crt"),
        sasl_token_location=str(tokens / "web"),
    )
    async with cluster.async_admin() as admin:
        assert await admin.list_topics() == [], "known, and without any right"
    rules = [
        {"resourceType": "Topic", "name": "orders", "operations": ["Read", "Write"]},
        {"resourceType": "Group", "name": "billing", "operations": ["Read"]},
    ]
    ref = {"clusterRef": {"name": "main"}}
    await land.apply("ShareUser", "web", {**ref, "principal": f"User:{WEB}", "acls": rules})
    await land.condition("ShareUser", "web", "True", "InSync")
    async with cluster.async_producer() as producer:
        await producer.send_and_wait("orders", b"one")
    async with cluster.async_share_consumer("billing") as consumer:
        await consumer.subscribe(["orders"])
        async with asyncio.timeout(60):
            while not (records := await consumer.poll(timeout_ms=500)):
                pass
        assert [record.value for record in records] == [b"one"]
