"""Names that nothing can have, and things named twice: the codes of Apache Kafka 4.4 (KLS-46)."""

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import milliseconds
from tests.kafka_listener.asked import METADATA, orders
from tests.kafka_listener.test_config_requests import GROUP, LOCK, SET, TOPIC, altered, described
from tests.kafka_listener.world import ListeningMesh

CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_GROUPS = 19, 20, 77
INVALID, UNKNOWN = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def deleted(client, *topics):
    """Return (name, id, code) of each topic of the answer."""
    told = await client.ask(
        DELETE_TOPICS,
        6,
        topics=[{"name": name, "topic_id": topic_id} for name, topic_id in topics],
        timeout=milliseconds(5_000),
    )
    return [(each.name, each.topic_id, int(each.error_code)) for each in told.responses]


async def names(client):
    return [each.name for each in (await client.ask(METADATA, 13, topics=None)).topics]


@pytest.mark.parametrize("name", [".", "..", "a b", "a/b", "ü", "x" * 250])
async def test_settings_of_a_topic_that_cannot_be(name):
    """KLS-46."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        impossible = ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await described(client, TOPIC, name) == (impossible, {})
        assert await altered(client, TOPIC, name, ("retention.ms", SET, "90000000")) == impossible


async def test_settings_of_nothing():
    """KLS-46: of a topic or a group with an empty name."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        assert await described(client, TOPIC, "") == (ErrorCode.INVALID_TOPIC_EXCEPTION, {})
        assert await altered(client, TOPIC, "", ("retention.ms", SET, "90000000")) == INVALID
        assert await described(client, GROUP, "") == (INVALID, {})
        assert await altered(client, GROUP, "", (LOCK, SET, "20000")) == INVALID


async def test_a_group_without_a_name_is_not_described():
    """KLS-46."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        told = await client.ask(DESCRIBE_GROUPS, 1, group_ids=("", "none"))
        assert [int(each.error_code) for each in told.groups] == [
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]


async def test_a_topic_with_a_name_and_an_id_is_not_deleted():
    """KLS-46: which of the two was meant is not known; so with neither."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        both, neither = ("orders", topic_id), (None, None)
        assert await deleted(client, both, neither) == [(*both, INVALID), (*neither, INVALID)]
        assert await names(client) == ["orders"]


async def test_a_topic_that_is_named_twice_is_not_deleted():
    """KLS-46: and is told once."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        for each in (("orders", None), (None, topic_id)):
            told = await deleted(client, each, ("nowhere", None), each)
            assert told == [(*each, INVALID), ("nowhere", None, UNKNOWN)]
        old = await client.ask(
            DELETE_TOPICS, 5, topic_names=("orders", "orders"), timeout=milliseconds(5_000)
        )
        assert [int(each.error_code) for each in old.responses] == [INVALID]
        assert await names(client) == ["orders"]
        told = await deleted(client, ("orders", None), (None, topic_id))
        assert told == [("orders", topic_id, 0)] * 2
        assert await names(client) == []


async def test_a_setting_without_a_value_creates_no_topic():
    """KLS-46."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic = {
            "name": "orders",
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": (),
            "configs": [{"name": "retention.ms", "value": None}],
        }
        told = await client.ask(
            CREATE_TOPICS, 7, topics=[topic], timeout=milliseconds(5_000), validate_only=False
        )
        assert int(told.topics[0].error_code) == ErrorCode.INVALID_CONFIG
        assert await names(client) == []
