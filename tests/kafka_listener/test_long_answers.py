"""Answers of many parts: none of them holds the loop for longer than a slice (BND-20, KLS-28)."""

import threading
from uuid import UUID

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka.served_messages import load_served
from sharemesh.kafka_listener import answers
from sharemesh.kafka_listener.limits import PARTS_MAX
from sharemesh.kafka_listener.long_work import BYTES_OF_A_PART, PARTS_IN_LOOP, has_many_parts
from sharemesh.v1 import admin_pb2, group_coordinator_pb2
from tests.kafka_listener.asked import (
    ALL,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    ack,
)
from tests.kafka_listener.test_listener import Held
from tests.kafka_listener.world import ListeningMesh
from tests.turns import holds_no_turn

FETCH, LIST_GROUPS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_ACLS = 1, 16, 19, 20, 29
DESCRIBE_CONFIGS, ALTER_CONFIGS, DELETE_GROUPS, ALTER_QUOTAS = 32, 44, 42, 49
NAMES = [f"t{at}" for at in range(PARTS_MAX)]
MANY = range(PARTS_MAX - 1)
FEW = 100


def _offsets():
    return [{"partition_index": at, "timestamp": -1, "current_leader_epoch": -1} for at in MANY]


def _fetched():
    return [
        {"partition": at, "fetch_offset": 0, "partition_max_bytes": 1, "current_leader_epoch": -1}
        for at in MANY
    ]


CREATED = {"num_partitions": 1, "replication_factor": -1, "assignments": [], "configs": []}

NAMED = [
    (METADATA, 1, lambda: {"topics": [{"name": each} for each in NAMES]}),
    (FIND_COORDINATOR, 6, lambda: {"key_type": 1, "coordinator_keys": NAMES}),
    (
        LIST_OFFSETS,
        6,
        lambda: {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": "a", "partitions": _offsets()}],
        },
    ),
    (
        FETCH,
        4,
        lambda: {
            "replica_id": -1,
            "max_wait": milliseconds(0),
            "min_bytes": 0,
            "max_bytes": 1,
            "isolation_level": 0,
            "topics": [{"topic": "a", "partitions": _fetched()}],
        },
    ),
    (
        PRODUCE,
        9,
        lambda: {
            "transactional_id": None,
            "acks": ALL,
            "timeout": milliseconds(1_000),
            "topic_data": [
                {"name": "a", "partition_data": [{"index": at, "records": b""} for at in MANY]}
            ],
        },
    ),
    (
        DESCRIBE_CONFIGS,
        4,
        lambda: {
            "resources": [
                {"resource_type": 4, "resource_name": "", "configuration_keys": None} for _ in NAMES
            ],
            "include_synonyms": True,
            "include_documentation": True,
        },
    ),
    (
        ALTER_CONFIGS,
        1,
        lambda: {
            "resources": [
                {"resource_type": 2, "resource_name": each, "configs": []} for each in NAMES
            ],
            "validate_only": True,
        },
    ),
    (DELETE_GROUPS, 2, lambda: {"groups_names": NAMES}),
    (
        CREATE_TOPICS,
        7,
        lambda: {
            "topics": [{**CREATED, "name": each} for each in NAMES],
            "timeout": milliseconds(1_000),
            "validate_only": True,
        },
    ),
    (
        ALTER_QUOTAS,
        1,
        lambda: {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": NAMES[at]} for at in MANY],
                    "ops": [],
                }
            ],
            "validate_only": True,
        },
    ),
]
"""Requests that name as much as a request may."""

MANY_BATCHES = [ack(at, at, 1) for at in MANY]
SHARED = [
    [{"partition_index": at, "acknowledgement_batches": []} for at in MANY],
    [{"partition_index": 0, "acknowledgement_batches": MANY_BATCHES}],
]
"""Partitions of share requests that have as many parts as a request may, or as many batches."""

FETCHES_NOTHING = {
    "max_wait": milliseconds(0),
    "min_bytes": 0,
    "max_bytes": 0,
    "max_records": 0,
    "batch_size": 0,
    "share_acquire_mode": 0,
    "forgotten_topics_data": [],
}

TOLD = [
    (
        METADATA,
        12,
        {"topics": None},
        methods.METADATA,
        lambda: admin_pb2.MetadataResponse(
            topics=[
                admin_pb2.TopicMetadata(
                    name=each,
                    topic_id=bytes(15) + b"t",
                    partitions=[admin_pb2.PartitionMetadata(leader_id="n", leader_epoch=1)],
                )
                for each in NAMES
            ]
        ),
    ),
    (
        LIST_GROUPS,
        5,
        {},
        methods.LIST_GROUPS,
        lambda: group_coordinator_pb2.ListGroupsResponse(
            groups=[
                group_coordinator_pb2.ListedGroup(
                    group_id=each, group_state="Empty", group_type="share"
                )
                for each in NAMES
            ]
        ),
    ),
    (
        DESCRIBE_ACLS,
        3,
        {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
        methods.DESCRIBE_ACLS,
        lambda: admin_pb2.DescribeAclsResponse(
            rules=[
                admin_pb2.AclRule(
                    resource_type=2,
                    resource_name=each,
                    pattern_type=3,
                    principal="User:a",
                    operation=3,
                    permission=3,
                )
                for each in NAMES
            ]
        ),
    ),
]
"""Requests that name little, whose answers tell much."""


async def answered_beside_the_loop(client, key, version, content):
    """Ask, and return the answer; it was put together in another thread, no turn was long."""
    frames, threads = [], set()
    write = answers.Asked.answered
    load_served([(key, version)])

    def noted(asked, content):
        threads.add(threading.current_thread())
        return write(asked, content)

    async def answered(correlation):
        frames.append(await client.frame())
        assert int.from_bytes(frames[-1][:4], "big") == correlation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers.Asked, "answered", noted)
        await holds_no_turn(lambda: answered(client.send(key, version, **content())))
    assert threading.current_thread() not in threads
    return frames[-1]


@pytest.mark.parametrize(("key", "version", "content"), NAMED)
async def test_a_request_that_names_much_holds_nobody_up(key, version, content):
    async with ListeningMesh() as mesh, mesh.connect() as client:
        frame = await answered_beside_the_loop(client, key, version, content)
        assert len(frame) > 4 * PARTS_MAX
        assert (await client.ask(METADATA, 1, topics=[])).controller_id == 7


@pytest.mark.parametrize(("key", "version", "content", "method", "response"), TOLD)
async def test_an_answer_that_tells_much_holds_nobody_up(key, version, content, method, response):
    async with ListeningMesh() as mesh, mesh.connect() as client:
        Held(mesh, method, response()).go_on.set()
        frame = await answered_beside_the_loop(client, key, version, lambda: content)
        assert len(frame) > 4 * PARTS_MAX


@pytest.mark.parametrize("shared", SHARED, ids=["partitions", "batches"])
@pytest.mark.parametrize("key", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
async def test_a_share_request_that_names_much_holds_nobody_up(key, shared):
    async with ListeningMesh() as mesh, mesh.connect() as client:
        content = {
            "group_id": "g",
            "member_id": "3e7d25ee-6cf1-4b45-a2fb-3d9d9d3e5b7c",
            "share_session_epoch": 1,
            "is_renew_ack": False,
            "topics": [{"topic_id": UUID(int=1), "partitions": shared}],
        }
        if key == SHARE_FETCH:
            content |= FETCHES_NOTHING
        load_served([(key, 2)])

        async def answered(correlation):
            assert int.from_bytes((await client.frame())[:4], "big") == correlation

        await holds_no_turn(lambda: answered(client.send(key, 2, **content)))
        assert (await client.ask(METADATA, 1, topics=[])).controller_id == 7


MANY_SETTINGS = [{"name": f"c{at}", "config_operation": 0, "value": "1"} for at in range(40_000)]


@pytest.mark.parametrize("kind", [2, 4, 32], ids=["topic", "cluster", "group"])
async def test_a_change_of_many_settings_is_refused_before_it_is_built(kind):
    """KLS-42: settings are no parts; also one of whom nothing is permitted."""
    async with ListeningMesh(super_users=["User:root"]) as mesh, mesh.connect() as client:
        name = "" if kind == 4 else "a"  # the default entity: the cluster
        resources = [{"resource_type": kind, "resource_name": name, "configs": MANY_SETTINGS}]
        told = await client.ask(ALTER_CONFIGS, 1, resources=resources, validate_only=True)
        [result] = told.responses
        assert int(result.error_code) == ErrorCode.INVALID_REQUEST
        assert "change at most 100" in result.error_message


@pytest.mark.parametrize("kind", [2, 32], ids=["topics", "groups"])
async def test_changes_of_as_many_settings_as_may_be_hold_nobody_up(kind):
    """KLS-42, KLS-28."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        resources = [
            {"resource_type": kind, "resource_name": each, "configs": MANY_SETTINGS[:100]}
            for each in NAMES[:100]
        ]
        load_served([(ALTER_CONFIGS, 1)])
        content = {"resources": resources, "validate_only": True}

        async def answered(correlation):
            assert int.from_bytes((await client.frame())[:4], "big") == correlation

        await holds_no_turn(lambda: answered(client.send(ALTER_CONFIGS, 1, **content)))


async def test_a_short_answer_waits_for_no_thread():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        mesh.answers.close()
        topics = [{"name": each} for each in NAMES[:FEW]]
        assert len((await client.ask(METADATA, 1, topics=topics)).topics) == FEW


@pytest.mark.parametrize("more", [0, 1])
def test_the_bytes_of_a_response_tell_whether_it_is_long(more):
    whole = admin_pb2.MetadataResponse(cluster_id="c" * BYTES_OF_A_PART * PARTS_IN_LOOP)
    head = whole.ByteSize() - len(whole.cluster_id)
    assert has_many_parts(
        admin_pb2.MetadataResponse(cluster_id=whole.cluster_id[head - more :])
    ) is bool(more)
