"""Requests of Kafka's clients run under their principal: rights, quotas, the audit log (KLS-26)."""

import asyncio
from types import SimpleNamespace

import pytest

from sharemesh.audit.listener import AuditedListener
from sharemesh.client.acls import AclBinding
from sharemesh.client.quotas import EntityType, QuotaEntity, QuotaName
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import milliseconds
from sharemesh.serve.roles.asked_producer_ids import ProducerIdRole
from tests.audit.events import lines, trail
from tests.kafka_listener.asked import (
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    ShareClient,
    batch,
    orders,
    produce,
)
from tests.kafka_listener.logins import add_user, log_in
from tests.kafka_listener.world import EARLIEST, NO_ERROR, ListeningMesh

ROOT = "User:root"
NEW_PRODUCER = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}


def ruled():
    return ListeningMesh(mechanisms=["SCRAM-SHA-256"], super_users=[ROOT])


async def users(mesh, *names):
    await asyncio.gather(*(add_user(mesh, each) for each in names))


async def allow(mesh, principal, operation, kind, name):
    rule = AclBinding(principal, operation, kind, name)
    assert await mesh.admin().create_acls([rule]) == {rule: None}
    node = mesh.mesh.nodes[0]
    assert await node.view.wait_for(
        lambda: any(
            each.principal == principal and each.name == name
            for each in node.view.tables.acls.values()
        ),
        timeout_ms=5_000,
    )


async def init_producer(client, version=4):
    return await client.ask(
        INIT_PRODUCER_ID, version, transaction_timeout=milliseconds(-1), **NEW_PRODUCER
    )


async def test_a_user_may_do_what_access_rules_allow_and_nothing_else():
    """KLS-26: the same rules as over gRPC, refused with Kafka's codes."""
    async with ruled() as mesh, mesh.connect() as client, mesh.connect() as root:
        await users(mesh, "alice", "root")
        await mesh.admin().create_topic("orders", 1)
        await mesh.admin().alter_group_configs("g", EARLIEST)
        await mesh.mesh.leader("orders", 0)
        await log_in(client, "SCRAM-SHA-256", "alice")
        await log_in(root, "SCRAM-SHA-256", "root")
        told = await root.ask(METADATA, 13, topics=[{"name": "orders", "topic_id": None}])
        topic_id = told.topics[0].topic_id

        denied = await client.ask(METADATA, 13, topics=[{"name": "orders", "topic_id": None}])
        assert int(denied.topics[0].error_code) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert int((await produce(client, topic_id, b"x")).error_code) == 29
        assert int((await init_producer(client)).error_code) == 31
        group = ShareClient(client, topic_id)
        assert int((await group.join()).error_code) == ErrorCode.GROUP_AUTHORIZATION_FAILED

        await allow(mesh, "User:alice", "write", "topic", "orders")
        assert (await produce(client, topic_id, b"x")).error_code == NO_ERROR
        assert (await init_producer(client)).error_code == NO_ERROR
        await allow(mesh, "User:alice", "read", "group", "g")
        await allow(mesh, "User:alice", "read", "topic", "orders")
        assert (await group.join()).error_code == NO_ERROR


async def test_a_quota_of_a_user_throttles_the_users_requests():
    """KLS-26: the answer tells for how long."""
    async with ListeningMesh(mechanisms=["SCRAM-SHA-256"]) as mesh:
        await users(mesh, "alice", "bob")
        topic_id = None
        async with mesh.connect() as client:
            await log_in(client, "SCRAM-SHA-256", "bob")
            await mesh.admin().create_topic("orders", 1)
            await mesh.mesh.leader("orders", 0)
            told = await client.ask(METADATA, 13, topics=[{"name": "orders", "topic_id": None}])
            topic_id = told.topics[0].topic_id
        entity = QuotaEntity(EntityType.USER, "User:alice")
        await mesh.admin().alter_client_quotas({entity: {"producer_byte_rate": 1_000}})
        view = mesh.mesh.nodes[0].view
        rate = QuotaName.PRODUCER_BYTE_RATE
        assert await view.wait_for(
            lambda: view.tables.quotas.limit(rate, "User:alice"), timeout_ms=5_000
        )
        throttled = {}
        for name in ("alice", "bob"):
            async with mesh.connect() as client:
                await log_in(client, "SCRAM-SHA-256", name)
                told = await client.ask(
                    PRODUCE,
                    13,
                    transactional_id=None,
                    acks=-1,
                    timeout=milliseconds(5_000),
                    topic_data=[
                        {
                            "topic_id": topic_id,
                            "partition_data": [{"index": 0, "records": batch(b"x" * 5_000)}],
                        }
                    ],
                )
                throttled[name] = told.throttle_time > milliseconds(0)
        assert throttled == {"alice": True, "bob": False}


async def test_a_user_without_processor_time_is_told_so_in_every_answer():
    """KLS-26: also by those whose translators know of none."""
    async with ListeningMesh(mechanisms=["SCRAM-SHA-256"]) as mesh, mesh.connect() as client:
        await users(mesh, "alice")
        await log_in(client, "SCRAM-SHA-256", "alice")
        entity = QuotaEntity(EntityType.USER, "User:alice")
        await mesh.admin().alter_client_quotas({entity: {"request_percentage": 0.0001}})
        told = await client.ask(METADATA, 13, topics=None)
        async with asyncio.timeout(20):  # until the process has seen the quota
            while told.throttle_time == milliseconds(0):
                told = await client.ask(METADATA, 13, topics=None)


async def test_a_process_that_is_no_share_leader_asks_one_for_a_producer_id():
    """KLS-11, KLS-26: the right is that of who asks; clients ask whom they like."""
    async with ruled() as mesh, mesh.connect() as client:
        await users(mesh, "alice")
        await log_in(client, "SCRAM-SHA-256", "alice")
        node = mesh.mesh.nodes[0]
        asked = []

        class Caller:
            async def call(self, method, request, *, to):
                asked.append(to)
                return await mesh.mesh.network.caller(ROOT).call(method, request, to=to)

        around = SimpleNamespace(
            caller=Caller(), view=node.view, authorizer=node.authorizer, clock=mesh.mesh.clock
        )
        log = trail()
        mesh.listener.handlers._unary = {}
        ProducerIdRole(around).offer(AuditedListener(mesh.listener.handlers, log, bytes.hex))
        assert int((await init_producer(client)).error_code) == 31
        assert asked == []
        [refusal] = lines(log, ending=True)
        assert (refusal["principal"], refusal["rpc"]) == (
            "User:alice",
            "RecordLog/InitProducerId",
        )
        await mesh.admin().create_topic("orders", 1)
        await mesh.mesh.leader("orders", 0)
        await allow(mesh, "User:alice", "write", "topic", "orders")
        first, second = [await init_producer(client) for _ in range(2)]
        assert (first.error_code, first.producer_epoch) == (NO_ERROR, 0)
        assert first.producer_id != second.producer_id
        assert asked == [node.address] * 2


@pytest.mark.parametrize("why", ["nobody", "unreachable", "refused"])
async def test_without_a_share_leader_that_answers_clients_ask_again(why):
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        node = mesh.mesh.nodes[0]
        await orders(mesh)
        view = SimpleNamespace(
            nodes=lambda: () if why == "nobody" else node.view.nodes(),
            topics=node.view.topics,
        )
        caller = mesh.mesh.network.caller("User:nobody")
        if why == "refused":

            async def call(method, request, *, to):
                return method.response(error_code=15, error_message="etcd is away")

            caller = SimpleNamespace(call=call)
        if why == "unreachable":
            view.nodes = lambda: [
                SimpleNamespace(roles=each.roles, draining=False, address="nowhere:1")
                for each in node.view.nodes()
            ]
        around = SimpleNamespace(
            caller=caller, view=view, authorizer=node.authorizer, clock=mesh.mesh.clock
        )
        mesh.listener.handlers._unary = {}
        ProducerIdRole(around).offer(mesh.listener.handlers)
        assert int((await init_producer(client)).error_code) == 14
