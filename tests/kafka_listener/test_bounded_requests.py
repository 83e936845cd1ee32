"""Requests that name too much, or nothing where something must be."""

import struct

import pytest

from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka_listener.served_requests import BY_KEY
from sharemesh.telemetry import names
from tests.kafka_listener.asked import (
    ALL,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
)
from tests.kafka_listener.world import ListeningMesh

ALTER_CLIENT_QUOTAS, ALTER_USER_SCRAM_CREDENTIALS = 49, 51
LIST_RESOURCES = 74
MANY = 20_000
PART = {"index": 0, "records": b"", "partition_index": 0, "timestamp": -1}
NOBODY = {"entity_type": "", "entity_name": None}


@pytest.mark.parametrize(
    ("key", "version", "content"),
    [
        (FIND_COORDINATOR, 6, {"key_type": 1, "coordinator_keys": ("",) * (MANY + 1)}),
        (METADATA, 1, {"topics": [{"name": ""}] * (MANY + 1)}),
        (
            LIST_OFFSETS,
            1,
            {"replica_id": -1, "topics": [{"name": "a", "partitions": [PART] * MANY}]},
        ),
        (
            PRODUCE,
            3,
            {
                "transactional_id": None,
                "acks": ALL,
                "timeout": milliseconds(1_000),
                "topic_data": [{"name": "a", "partition_data": [PART] * MANY}],
            },
        ),
        (
            ALTER_CLIENT_QUOTAS,
            1,
            {"entries": [{"entity": [NOBODY] * MANY, "ops": []}], "validate_only": False},
        ),
        (
            ALTER_USER_SCRAM_CREDENTIALS,
            0,
            {"deletions": [{"name": "", "mechanism": 1}] * (MANY + 1), "upsertions": []},
        ),
        (LIST_RESOURCES, 1, {"resource_types": (2,) * (MANY + 1)}),
    ],
)
async def test_a_request_that_names_too_much_gets_no_entry_for_each(key, version, content):
    """KLS-4, AUD-3."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        client.send(key, version, **content)
        assert await client.is_closed()
        await mesh.until(lambda: mesh.refused)
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("too_many_parts",): 1}
        [(label, principal, _, status)] = mesh.refused
        assert (principal, status) == ("User:ANONYMOUS", "RESOURCE_EXHAUSTED")
        assert label == BY_KEY[key].label


async def test_a_request_may_name_many_things():
    """KLS-4."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        keys = ("",) * MANY
        told = await client.ask(FIND_COORDINATOR, 6, key_type=1, coordinator_keys=keys)
        assert len(told.coordinators) == MANY


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (FIND_COORDINATOR, 6, b"\0\0\0"),  # type, keys, tags
        (LIST_OFFSETS, 9, b"\xff\xff\xff\xff\0\0\0"),  # replica, isolation, topics, tags
        (LIST_OFFSETS, 9, b"\xff\xff\xff\xff\0\2\2a\0\0\0"),  # partitions of a topic
        (PRODUCE, 9, b"\0\xff\xff\0\0\0\0\0\0"),  # id, acks, timeout, topics, tags
        (SHARE_ACKNOWLEDGE, 1, b"\2g\2m\0\0\0\0\0\0"),  # who, epoch, topics, tags
    ],
)
async def test_null_where_none_may_be_is_no_request(key, version, body):
    """KLS-4."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        frame = struct.pack(">hhihB", key, version, 1, -1, 0) + body
        client.writer.write(struct.pack(">i", len(frame)) + frame)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("malformed",): 1}
