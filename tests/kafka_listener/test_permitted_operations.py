"""What a client may do, told as bit fields of Kafka's numbers to who asks for it (KLS-45)."""

import pytest

from sharemesh.client.acls import AclBinding
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code
from tests.kafka_listener.asked import DESCRIBE_CLUSTER, METADATA, orders
from tests.kafka_listener.world import NO_ERROR, ListeningMesh

NOT_ASKED = -2_147_483_648
ALL_OF_A_TOPIC, ALL_OF_THE_CLUSTER, ALL_OF_A_GROUP = 3_576, 8_096, 3_400
"""As Kafka 4.4 without an authorizer answers."""

READ, DESCRIBE = 1 << 3, 1 << 8
DESCRIBE_PARTITIONS, DESCRIBE_GROUPS = 75, 77


async def topics_told(client, version, *names, **content):
    asked = [{"name": each, "topic_id": None} for each in names]
    told = await client.ask(METADATA, version, topics=asked, **content)
    return {each.name: each.topic_authorized_operations for each in told.topics}, told


@pytest.mark.parametrize("version", [8, 10, 13])
async def test_metadata_tells_operations_to_who_asks(version):
    """KLS-45: of a topic that is not there too."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        both = {"include_topic_authorized_operations": True}
        if version <= 10:
            both["include_cluster_authorized_operations"] = True
        found, told = await topics_told(client, version, "orders", "nowhere", **both)
        assert found == {"orders": ALL_OF_A_TOPIC, "nowhere": ALL_OF_A_TOPIC}
        if version <= 10:
            assert told.cluster_authorized_operations == ALL_OF_THE_CLUSTER
        found, told = await topics_told(client, version, "orders")
        assert found == {"orders": NOT_ASKED}
        if version <= 10:
            assert told.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_describe_cluster_tells_operations_to_who_asks(version):
    """KLS-45."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        for asks, operations in ((True, ALL_OF_THE_CLUSTER), (False, NOT_ASKED)):
            told = await client.ask(
                DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=asks
            )
            assert told.cluster_authorized_operations == operations


async def test_describe_topic_partitions_always_tells_operations():
    """KLS-45: its requests cannot ask for them."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        told = await client.ask(
            DESCRIBE_PARTITIONS,
            0,
            topics=[{"name": "orders"}],
            response_partition_limit=10,
            cursor=None,
        )
        assert told.topics[0].topic_authorized_operations == ALL_OF_A_TOPIC


async def test_only_what_is_allowed_is_told():
    """KLS-45: READ brings DESCRIBE with it; of what may not be described nothing is told."""
    who = "User:ANONYMOUS"
    async with ListeningMesh(super_users=[who]) as mesh, mesh.connect() as client:
        await orders(mesh)
        rule = AclBinding(who, "read", "topic", "orders")
        assert set((await mesh.admin().create_acls([rule])).values()) == {None}
        mesh.mesh.nodes[0].authorizer._above = frozenset()
        content = {"include_topic_authorized_operations": True}
        found, told = await topics_told(client, 13, "orders", "secret", **content)
        assert found == {"orders": READ | DESCRIBE, "secret": NOT_ASKED}
        assert {each.name: int(each.error_code) for each in told.topics} == {
            "orders": 0,
            "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        cluster = await client.ask(
            DESCRIBE_CLUSTER, 2, include_cluster_authorized_operations=True, endpoint_type=1
        )
        assert (cluster.error_code, cluster.cluster_authorized_operations) == (NO_ERROR, 0)


async def test_a_group_that_is_not_described_has_no_operations():
    """KLS-45."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        for asks in (True, False):
            told = await client.ask(
                DESCRIBE_GROUPS, 1, group_ids=("none",), include_authorized_operations=asks
            )
            [group] = told.groups
            assert group.error_code == error_code(ErrorCode.GROUP_ID_NOT_FOUND)
            assert (group.authorized_operations, group.group_state) == (NOT_ASKED, "")


@pytest.mark.parametrize(("kind", "code"), [(2, 114), (3, 115)])
async def test_who_looks_for_controllers_is_told_that_this_is_none(kind, code):
    """KLS-10: MISMATCHED_ENDPOINT_TYPE, and UNSUPPORTED_ENDPOINT_TYPE."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        told = await client.ask(DESCRIBE_CLUSTER, 2, endpoint_type=kind)
        assert (int(told.error_code), told.brokers, told.controller_id) == (code, (), -1)
        assert told.error_message
