"""Where clients find leaders and coordinators: Metadata, FindCoordinator, DescribeCluster."""

import base64
from uuid import UUID

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code, milliseconds
from sharemesh.testing.mesh_node import CLUSTER_ID
from tests.kafka_listener.asked import (
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    orders,
)
from tests.kafka_listener.world import NO_ERROR, ListeningMesh

API_VERSIONS = 18


@pytest.mark.parametrize("version", range(14))
async def test_metadata_names_leaders_by_number_in_every_version(version):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh, 2)
        told = await client.ask(METADATA, version, topics=[{"name": "orders", "topic_id": None}])
        assert [(each.node_id, each.host, each.port) for each in told.brokers] == [
            (7, "127.0.0.1", mesh.port)
        ]
        [topic] = told.topics
        assert (topic.name, topic.error_code) == ("orders", NO_ERROR)
        assert [(e.partition_index, e.leader_id, e.replica_nodes) for e in topic.partitions] == [
            (0, 7, (7,)),
            (1, 7, (7,)),
        ]
        if version >= 2:
            assert told.cluster_id == CLUSTER_ID


@pytest.mark.parametrize("version", range(14))
async def test_all_topics_are_asked_for_by_no_list(version):
    """KLS-10: in version 0 by an empty one."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        everything = await client.ask(METADATA, version, topics=() if version == 0 else None)
        assert [each.name for each in everything.topics] == ["orders"]
        if version > 0:
            assert not (await client.ask(METADATA, version, topics=())).topics


async def test_topics_may_be_asked_for_by_id():
    """KLS-10: librdkafka does."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        unknown = UUID(int=99)
        asked = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": unknown}]
        known, missing = (await client.ask(METADATA, 13, topics=asked)).topics
        assert (known.name, known.topic_id, known.error_code) == ("orders", topic_id, NO_ERROR)
        assert missing.error_code == error_code(ErrorCode.UNKNOWN_TOPIC_ID)
        assert (missing.name, missing.topic_id) == (None, unknown)


@pytest.mark.parametrize("version", [12, 13])
async def test_where_a_topic_has_an_id_names_do_not_count(version):
    """KLS-10: as at Kafka 4.4; each topic is told once."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        wrong = [{"name": "orders", "topic_id": UUID(int=99)}, {"name": "orders", "topic_id": None}]
        [missing] = (await client.ask(METADATA, version, topics=wrong)).topics
        assert missing.error_code == error_code(ErrorCode.UNKNOWN_TOPIC_ID)
        assert (missing.name, missing.topic_id) == (None, UUID(int=99))
        twice = [{"name": None, "topic_id": topic_id}, {"name": "no", "topic_id": topic_id}]
        [known] = (await client.ask(METADATA, version, topics=twice)).topics
        assert (known.name, known.error_code) == ("orders", NO_ERROR)
        named = [{"name": "orders", "topic_id": None}] * 2
        assert len((await client.ask(METADATA, version, topics=named)).topics) == 1


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", [None, "orders"])
async def test_no_topic_is_asked_for_by_id_before_version_12(version, name):
    """KLS-10: refused as a whole, and the connection stays."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        asked = [{"name": name, "topic_id": topic_id}, {"name": "orders", "topic_id": None}]
        told = await client.ask(METADATA, version, topics=asked)
        assert (told.brokers, told.controller_id) == ((), -1)
        assert [each.name for each in told.topics] == [name or "", "orders"]
        assert {each.error_code for each in told.topics} == {error_code(ErrorCode.INVALID_REQUEST)}
        [known] = (await client.ask(METADATA, version, topics=asked[1:])).topics
        assert known.error_code == NO_ERROR


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("topic abc", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_a_topic_that_is_not_there_is_not_created(name, code):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        for _ in range(2):
            told = await client.ask(
                METADATA,
                13,
                topics=[{"name": name, "topic_id": None}],
                allow_auto_topic_creation=True,
            )
            assert told.topics[0].error_code == error_code(code)


async def test_a_leader_without_a_listener_is_none_for_clients_of_kafka():
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        mesh.view.endpoints.clear()
        told = await client.ask(METADATA, 13, topics=[{"name": "orders", "topic_id": None}])
        [partition] = told.topics[0].partitions
        assert partition.error_code == error_code(ErrorCode.LEADER_NOT_AVAILABLE)
        assert (partition.leader_id, told.controller_id, told.brokers) == (-1, -1, ())
        found = await client.ask(FIND_COORDINATOR, 6, key_type=0, coordinator_keys=("g",))
        [coordinator] = found.coordinators
        assert coordinator.error_code == error_code(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert "kafka_listener_port" in coordinator.error_message


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 2])
async def test_coordinators_of_groups_and_share_partitions_are_found(version, key_type):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        if version == 0 and key_type:
            return  # it knows groups only
        text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
        key = f"g:{text}:0" if key_type else "g"
        told = await client.ask(
            FIND_COORDINATOR, version, key=key, key_type=key_type, coordinator_keys=(key,)
        )
        found = told.coordinators[0] if version >= 4 else told
        assert (found.error_code, found.node_id, found.port) == (NO_ERROR, 7, mesh.port)


async def test_a_transaction_has_no_coordinator():
    """KLS-10, KLS-11: said at once, so that producers do not wait for one."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        told = await client.ask(FIND_COORDINATOR, 6, key_type=1, coordinator_keys=("tx",))
        assert told.coordinators[0].error_code == error_code(ErrorCode.INVALID_REQUEST)
        assert "no transaction coordinator" in told.coordinators[0].error_message
        producer = await client.ask(
            INIT_PRODUCER_ID,
            5,
            transactional_id="tx",
            transaction_timeout=milliseconds(1),
            producer_id=-1,
            producer_epoch=-1,
        )
        assert producer.error_code == error_code(ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_cluster_is_described(version):
    """KLS-10."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        told = await client.ask(
            DESCRIBE_CLUSTER,
            version,
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=False,
        )
        assert (told.cluster_id, told.controller_id) == (CLUSTER_ID, 7)
        assert [each.broker_id for each in told.brokers] == [7]


@pytest.mark.parametrize("version", [3, 4])
async def test_a_client_whose_software_has_no_proper_name_may_ask_again(version):
    """KLS-9: as at Kafka 4.4."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        for name, code in (("a b", ErrorCode.INVALID_REQUEST), ("a-b", ErrorCode.NONE)):
            told = await client.ask(
                API_VERSIONS, version, client_software_name=name, client_software_version="1.0"
            )
            assert told.error_code == error_code(code)
            assert bool(told.api_keys) == (code == ErrorCode.NONE)
