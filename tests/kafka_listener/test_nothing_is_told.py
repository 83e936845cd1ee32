"""AUT-1, AUT-2 by API key: who lacks a right cannot tell what is there from what is not."""

import pytest

from sharemesh.kafka.messages import milliseconds, to_uuid
from sharemesh.kafka_listener.served_requests import OF_LOGINS, ServedRequest
from tests.kafka_listener.asked import (
    ACCEPT,
    HEARTBEAT,
    ShareClient,
    ack,
    batch,
    orders,
    produce,
)
from tests.kafka_listener.test_principals import allow
from tests.kafka_listener.world import NO_ERROR, ListeningMesh

WHO = "User:ANONYMOUS"
HERE, THERE = "orders", "absent"  # topics: of others, of nobody
GROUP, NO_GROUP, MINE = "g", "n", "mine"
LED, BEYOND = 0, 7
WAIT = milliseconds(1_000)
TOPIC, GROUPS = 2, 32
R = ServedRequest


def named(name):
    return {"name": name, "topic_id": None}


def by_topic_name(name):
    """Requests about a topic by its name."""
    part = {"partition_index": LED, "timestamp": milliseconds(0), "current_leader_epoch": -1}
    told = [{"topic_name": name}]
    start = [{"partition_index": LED, "start_offset": 0}]
    setting = {"name": "retention.ms", "config_operation": 0, "value": "5000"}
    resource = {"resource_type": TOPIC, "resource_name": name}
    produced = [{"index": LED, "records": batch(b"x")}]
    return [
        (
            R.PRODUCE,
            12,
            {
                "transactional_id": None,
                "acks": -1,
                "timeout": WAIT,
                "topic_data": [{"name": name, "partition_data": produced}],
            },
        ),
        (R.FETCH, 12, fetch({"topic": name}, LED)),
        (
            R.LIST_OFFSETS,
            7,
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics": [{"name": name, "partitions": [{**part, "timestamp": -1}]}],
            },
        ),
        (R.METADATA, 12, {"topics": [named(name)]}),
        (R.METADATA, 12, {"topics": None}),
        (R.DELETE_TOPICS, 6, {"topics": [named(name)], "timeout": WAIT}),
        (
            R.CREATE_TOPICS,
            7,
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": 1,
                        "replication_factor": -1,
                        "assignments": [],
                        "configs": [],
                    }
                ],
                "timeout": WAIT,
                "validate_only": False,
            },
        ),
        (
            R.CREATE_PARTITIONS,
            3,
            {
                "topics": [{"name": name, "count": 9, "assignments": None}],
                "timeout": WAIT,
                "validate_only": False,
            },
        ),
        (
            R.DELETE_RECORDS,
            2,
            {
                "topics": [{"name": name, "partitions": [{"partition_index": LED, "offset": 0}]}],
                "timeout": WAIT,
            },
        ),
        (
            R.DESCRIBE_TOPIC_PARTITIONS,
            0,
            {"topics": [{"name": name}], "response_partition_limit": 9, "cursor": None},
        ),
        (
            R.DESCRIBE_CONFIGS,
            4,
            {
                "resources": [{**resource, "configuration_keys": None}],
                "include_synonyms": True,
                "include_documentation": False,
            },
        ),
        (
            R.INCREMENTAL_ALTER_CONFIGS,
            1,
            {"resources": [{**resource, "configs": [setting]}], "validate_only": False},
        ),
        (R.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout": WAIT, "topics": None}),
        (
            R.ALTER_SHARE_GROUP_OFFSETS,
            0,
            {"group_id": MINE, "topics": [{"topic_name": name, "partitions": start}]},
        ),
        (R.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": MINE, "topics": told}),
    ]


def by_group(name):
    """Requests about a group."""
    resource = {"resource_type": GROUPS, "resource_name": name}
    setting = {"name": "share.isolation.level", "config_operation": 0, "value": "read_committed"}
    return [
        (R.FIND_COORDINATOR, 6, {"key_type": 0, "coordinator_keys": (name,)}),
        (R.LIST_GROUPS, 5, {"states_filter": (), "types_filter": ()}),
        (R.DELETE_GROUPS, 2, {"groups_names": (name,)}),
        (
            R.SHARE_GROUP_HEARTBEAT,
            1,
            beat(name, 0, HERE),
        ),
        (
            R.SHARE_GROUP_DESCRIBE,
            1,
            {"group_ids": (name,), "include_authorized_operations": True},
        ),
        (R.DESCRIBE_SHARE_GROUP_OFFSETS, 1, {"groups": [{"group_id": name, "topics": None}]}),
        (
            R.ALTER_SHARE_GROUP_OFFSETS,
            0,
            {"group_id": name, "topics": [{"topic_name": THERE, "partitions": []}]},
        ),
        (R.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": name, "topics": [{"topic_name": THERE}]}),
        (
            R.DESCRIBE_CONFIGS,
            4,
            {
                "resources": [{**resource, "configuration_keys": None}],
                "include_synonyms": True,
                "include_documentation": False,
            },
        ),
        (
            R.INCREMENTAL_ALTER_CONFIGS,
            1,
            {"resources": [{**resource, "configs": [setting]}], "validate_only": False},
        ),
    ]


def by_topic_id(topic_id, number):
    """Requests about a partition by its topic's id: how many there are is not told."""
    part = {"index": number, "records": batch(b"x")}
    shared = {"partition_index": number, "acknowledgement_batches": []}
    taken = {**shared, "acknowledgement_batches": [ack(0, 0, ACCEPT)]}
    topics = [{"topic_id": topic_id, "partitions": [shared]}]
    accepted = [{"topic_id": topic_id, "partitions": [taken]}]
    who = {"group_id": MINE, "member_id": "m", "is_renew_ack": False, "topics": topics}
    return [
        (
            R.PRODUCE,
            13,
            {
                "transactional_id": None,
                "acks": -1,
                "timeout": WAIT,
                "topic_data": [{"topic_id": topic_id, "partition_data": [part]}],
            },
        ),
        (R.FETCH, 13, fetch({"topic_id": topic_id}, number)),
        (
            R.SHARE_FETCH,
            2,
            {
                **who,
                "share_session_epoch": 0,
                "max_wait": milliseconds(0),
                "min_bytes": 1,
                "max_bytes": 1_000,
                "max_records": 5,
                "batch_size": 5,
                "share_acquire_mode": 0,
                "forgotten_topics_data": [],
            },
        ),
        (R.SHARE_ACKNOWLEDGE, 2, {**who, "share_session_epoch": 1, "topics": accepted}),
    ]


def of_cluster(_):
    """What is the cluster's own: one answer, whatever there is."""
    rule = {"resource_type": 2, "resource_name": HERE, "principal": "User:ANONYMOUS", "host": "*"}
    rule |= {"operation": 3, "permission_type": 3, "resource_pattern_type": 3}
    match = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    match |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    entity = {"entity_type": "user", "entity_name": "root"}
    return [
        (
            R.INIT_PRODUCER_ID,
            4,
            {
                "transactional_id": None,
                "producer_id": -1,
                "producer_epoch": -1,
                "transaction_timeout": milliseconds(-1),
            },
        ),
        (R.DESCRIBE_ACLS, 3, match),
        (R.CREATE_ACLS, 3, {"creations": [rule]}),
        (R.DELETE_ACLS, 3, {"filters": [match]}),
        (R.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}),
        (
            R.ALTER_CLIENT_QUOTAS,
            1,
            {
                "entries": [
                    {
                        "entity": [entity],
                        "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
                    }
                ],
                "validate_only": False,
            },
        ),
        (R.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None}),
        (
            R.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            {"deletions": [{"name": "root", "mechanism": 1}], "upsertions": []},
        ),
        (
            R.DESCRIBE_CLUSTER,
            2,
            {
                "include_cluster_authorized_operations": False,
                "endpoint_type": 1,
                "include_fenced_brokers": False,
            },
        ),
        (R.LIST_CONFIG_RESOURCES, 1, {"resource_types": ()}),
    ]


def beat(group, epoch, topic):
    return {
        "group_id": group,
        "member_id": "m",
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": (topic,),
    }


def fetch(topic, number):
    part = {"partition": number, "current_leader_epoch": -1, "fetch_offset": 0}
    part |= {"last_fetched_epoch": -1, "log_start_offset": -1, "partition_max_bytes": 1_000}
    return {
        "replica_id": -1,
        "max_wait": milliseconds(0),
        "min_bytes": 1,
        "max_bytes": 1_000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{**topic, "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


ANY_ID = to_uuid(b"i" * 16)
TABLE = [*by_topic_name(HERE), *by_group(GROUP), *by_topic_id(ANY_ID, LED), *of_cluster(None)]


def test_every_kind_of_request_that_is_served_stands_in_the_table():
    assert {request for request, _, _ in TABLE} | OF_LOGINS == set(ServedRequest)


@pytest.fixture
async def topic():
    """A running listener, a topic and a group of others; who connects has no right."""
    async with ListeningMesh(super_users=[WHO]) as mesh:
        topic_id = await orders(mesh, 2)
        await allow(mesh, WHO, "all", "group", MINE)
        async with mesh.connect() as client:
            await produce(client, topic_id, b"a secret")
            told = await ShareClient(client, topic_id, "theirs").join()
            assert told.error_code == NO_ERROR
            for epoch in (0, -1):  # so there is such a group, which is empty
                mine = beat(MINE, epoch, THERE)
                assert (await client.ask(HEARTBEAT, 1, **mine)).error_code == NO_ERROR
        mesh.mesh.nodes[0].authorizer._above = frozenset()
        yield mesh, topic_id


async def answers(mesh, requests, *sent):
    """Return what each of the requests is told, without the names that it sent."""
    told = []
    async with mesh.connect() as client:
        for request, version, content in requests:
            words = repr(await client.ask(request.key, version, **content))
            for each in sent:
                words = words.replace(each, "SENT")
            told.append((request.name, words))
    return told


async def test_a_topic_of_others_is_answered_like_none(topic):
    mesh, topic_id = topic
    here = await answers(mesh, by_topic_name(HERE), repr(HERE), HERE)
    assert here == await answers(mesh, by_topic_name(THERE), repr(THERE), THERE)
    assert not [each for each in here if str(topic_id) in each[1]]


async def test_a_group_of_others_is_answered_like_none(topic):
    mesh, topic_id = topic
    here = await answers(mesh, by_group(GROUP), "group 'g'", "--group g", "'g'")
    there = await answers(mesh, by_group(NO_GROUP), "group 'n'", "--group n", "'n'")
    assert here == there
    assert not [each for each in here if str(topic_id) in each[1]]


async def test_how_many_partitions_a_topic_of_others_has_is_not_told(topic):
    mesh, topic_id = topic
    led = await answers(mesh, by_topic_id(topic_id, LED), "index=0", "partition=0")
    beyond = await answers(mesh, by_topic_id(topic_id, BEYOND), "index=7", "partition=7")
    assert led == beyond
    assert not [each for each in led if HERE in each[1]]


async def test_what_is_the_clusters_own_is_refused_or_says_nothing_of_others(topic):
    mesh, topic_id = topic
    for name, words in await answers(mesh, of_cluster(None)):
        assert HERE not in words or name == "CREATE_ACLS", (name, words)
        assert str(topic_id) not in words, (name, words)
        if name != "DESCRIBE_CLUSTER":
            assert "AUTHORIZATION_FAILED" in words.upper(), (name, words)


async def test_the_table_finds_what_an_owner_is_told(topic):
    """Who has the rights is told what the others are not: so the comparison can fail."""
    mesh, _ = topic
    mesh.mesh.nodes[0].authorizer._above = frozenset({WHO})
    here = await answers(mesh, by_topic_name(HERE)[1:5], HERE)
    there = await answers(mesh, by_topic_name(THERE)[1:5], THERE)
    assert [one != other for one, other in zip(here, there, strict=True)] == [True] * 4
