"""Topics and their records through the listener: created, grown, described, deleted."""

from uuid import UUID

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code, milliseconds, to_uuid
from tests.kafka_listener.asked import METADATA, orders, produce
from tests.kafka_listener.world import NO_ERROR, ListeningMesh

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, CREATE_PARTITIONS = 19, 20, 21, 37
REASSIGNMENTS, TOPIC_PARTITIONS = 46, 75
ABSENT = UUID(int=7)
MANUAL = ({"partition_index": 0, "broker_ids": (7,)},)


def new(name, partitions=1, copies=-1, assignments=(), **settings):
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": copies,
        "assignments": assignments,
        "configs": [
            {"name": each.replace("_", "."), "value": value} for each, value in settings.items()
        ],
    }


async def create(client, *topics, version=7, only_check=False):
    told = await client.ask(
        CREATE_TOPICS,
        version,
        topics=topics,
        timeout=milliseconds(5_000),
        validate_only=only_check,
    )
    return told.topics


async def names(client):
    return [each.name for each in (await client.ask(METADATA, 13, topics=None)).topics]


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created_in_every_version(version):
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        made, again = (
            await create(client, new("clicks", 3, 1, retention_ms="90000000"), version=version),
            await create(client, new("clicks"), version=version),
        )
        assert [each.error_code for each in (*made, *again)] == [
            NO_ERROR, error_code(ErrorCode.TOPIC_ALREADY_EXISTS),
        ]  # fmt: skip
        topic = mesh.view.topic_named("clicks")
        assert (topic.partitions, dict(topic.configs)) == (3, {"retention.ms": "90000000"})
        assert "exists" in again[0].error_message
        if version >= 5:
            assert (made[0].num_partitions, made[0].replication_factor) == (3, 1)
            told = {each.name: (each.value, each.config_source) for each in made[0].configs}
            assert told["retention.ms"] == ("90000000", 1)
            assert told["cleanup.policy"] == ("delete", 5)
        if version >= 7:
            assert made[0].topic_id == to_uuid(topic.topic_id)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (new("a", -1, 2), 38),
        (new("a", -1, 0), 38),
        (new("a", -1, -1, MANUAL), 39),
        (new("a", 0), 37),
        (new("no such name"), 17),
        (new("a", retention_ms="x"), 40),
        (new("a", unclean_leader="x"), 40),
    ],
)
async def test_a_topic_that_cannot_be_is_refused_alone(topic, code):
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        made = await create(client, new("before"), topic, new("behind"))
        assert [int(each.error_code) for each in made] == [0, code, 0]
        assert made[1].error_message
        assert await names(client) == ["before", "behind"]


async def test_a_topic_is_checked_only():
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        [checked] = await create(client, new("a", -1), only_check=True)
        assert (checked.error_code, checked.num_partitions) == (NO_ERROR, 1)
        assert await names(client) == []


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name_and_by_id(version):
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        await create(client, new("clicks"))
        wait = milliseconds(5_000)
        asked = ["clicks", "nowhere"]
        if version < 6:
            told = await client.ask(DELETE_TOPICS, version, topic_names=asked, timeout=wait)
            left = ["orders"]
            codes = [0, 3]
        else:
            topics = [{"name": each, "topic_id": None} for each in asked]
            topics.append({"name": None, "topic_id": topic_id})
            topics.append({"name": None, "topic_id": to_uuid(b"u" * 16)})
            told = await client.ask(DELETE_TOPICS, version, topics=topics, timeout=wait)
            left = []
            codes = [0, 3, 0, 100]
            assert [each.name for each in told.responses] == [*asked, "orders", None]
            assert told.responses[2].topic_id == topic_id
        assert [int(each.error_code) for each in told.responses] == codes
        assert await names(client) == left


async def test_who_may_not_delete_a_topic_is_not_told_its_name_for_its_id():
    """KLS-41."""
    async with ListeningMesh(super_users=["User:ANONYMOUS"]) as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        mesh.mesh.nodes[0].authorizer._above = frozenset()
        topics = [{"name": None, "topic_id": topic_id}, {"name": "orders", "topic_id": None}]
        told = await client.ask(DELETE_TOPICS, 6, topics=topics, timeout=milliseconds(5_000))
        assert [int(each.error_code) for each in told.responses] == [29, 29]
        assert [each.name for each in told.responses] == [None, "orders"]
        assert "orders" not in (told.responses[0].error_message or "")
        many = [*topics, *({"name": f"t{number}", "topic_id": None} for number in range(100))]
        told = await client.ask(DELETE_TOPICS, 6, topics=many, timeout=milliseconds(5_000))
        assert {int(each.error_code) for each in told.responses} == {ErrorCode.INVALID_REQUEST}
        assert [each.name for each in told.responses[:2]] == [None, "orders"], "nor as a whole"


async def test_who_may_not_see_a_topic_is_not_told_its_name_for_its_id():
    """KLS-4: what is absent and what is forbidden have one answer."""
    async with ListeningMesh(super_users=["User:ANONYMOUS"]) as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        asked = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": ABSENT}]
        seen, _ = (await client.ask(METADATA, 13, topics=asked)).topics
        assert (seen.name, seen.error_code) == ("orders", NO_ERROR)
        mesh.mesh.nodes[0].authorizer._above = frozenset()
        hidden, absent = (await client.ask(METADATA, 13, topics=asked)).topics
        assert [each.name for each in (hidden, absent)] == [None, None]
        unknown = error_code(ErrorCode.UNKNOWN_TOPIC_ID)
        assert [each.error_code for each in (hidden, absent)] == [unknown, unknown]


@pytest.mark.parametrize("version", range(4))
async def test_topics_grow(version):
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)

        async def grown(count, name="orders", assignments=None, only_check=False):
            topic = {"name": name, "count": count, "assignments": assignments}
            told = await client.ask(
                CREATE_PARTITIONS,
                version,
                topics=[topic],
                timeout=milliseconds(5_000),
                validate_only=only_check,
            )
            return int(told.results[0].error_code)

        assert await grown(4) == 0
        assert mesh.view.topic_named("orders").partitions == 4
        assert await grown(2) == ErrorCode.INVALID_PARTITIONS
        assert await grown(2, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await grown(5, assignments=({"broker_ids": (7,)},)) == 39
        assert await grown(5, only_check=True) == 0
        assert await grown(4, only_check=True) == ErrorCode.INVALID_PARTITIONS
        assert mesh.view.topic_named("orders").partitions == 4


async def test_topics_are_described_page_by_page():
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh, 3)
        await create(client, new("clicks", 2))

        async def page(limit, cursor=None, topics=()):
            told = await client.ask(
                TOPIC_PARTITIONS,
                0,
                topics=[{"name": each} for each in topics],
                response_partition_limit=limit,
                cursor=cursor,
            )
            found = [
                (topic.name, [each.partition_index for each in topic.partitions])
                for topic in told.topics
            ]
            after = told.next_cursor
            return found, after and {
                "topic_name": after.topic_name, "partition_index": after.partition_index
            }  # fmt: skip

        everything = [("clicks", [0, 1]), ("orders", [0, 1, 2])]
        assert await page(2_000) == (everything, None)
        first, cursor = await page(3)
        assert first == [("clicks", [0, 1]), ("orders", [0])]
        assert await page(3, cursor) == ([("orders", [1, 2])], None)
        first, cursor = await page(2)
        assert (first, cursor) == (
            [("clicks", [0, 1])], {"topic_name": "orders", "partition_index": 0},
        )  # fmt: skip
        assert await page(0, topics=("orders", "clicks")) == (
            [("clicks", [0])], {"topic_name": "clicks", "partition_index": 1},
        )  # fmt: skip
        told = await client.ask(
            TOPIC_PARTITIONS,
            0,
            topics=[{"name": "orders"}, {"name": "nowhere"}],
            response_partition_limit=2_000,
            cursor=None,
        )
        missing, found = told.topics
        assert missing.error_code == error_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert found.topic_id == topic_id
        assert [
            (e.leader_id, e.isr_nodes, e.eligible_leader_replicas) for e in found.partitions
        ] == [(7, (7,), ())] * 3


async def test_nothing_is_reassigned_by_hand():
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        told = await client.ask(REASSIGNMENTS, 0, timeout=milliseconds(1_000), topics=None)
        assert (told.error_code, told.topics) == (NO_ERROR, ())


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted(version):
    """KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        await produce(client, topic_id, b"a", b"b", b"c")

        async def deleted(offset, name="orders"):
            part = {"partition_index": 0, "offset": offset}
            told = await client.ask(
                DELETE_RECORDS,
                version,
                topics=[{"name": name, "partitions": [part]}],
                timeout=milliseconds(5_000),
            )
            [result] = told.topics[0].partitions
            return int(result.error_code), result.low_watermark

        assert await deleted(2) == (0, 2)
        assert await deleted(-1) == (0, 3)
        assert await deleted(9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await deleted(1, "nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        mesh.listener.handlers._unary = {}
        assert await deleted(1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_process_that_refuses_a_whole_request_refuses_each_topic():
    """KLS-16, KLS-41."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topics = [new(f"t{number}") for number in range(101)]
        made = await create(client, *topics)
        assert {int(each.error_code) for each in made} == {ErrorCode.INVALID_REQUEST}
        assert "at most 100" in made[0].error_message
        wait = milliseconds(5_000)
        asked = [{"name": each["name"], "topic_id": None} for each in topics]
        gone = await client.ask(DELETE_TOPICS, 6, topics=asked, timeout=wait)
        assert {int(each.error_code) for each in gone.responses} == {ErrorCode.INVALID_REQUEST}
        asked = [{"name": each["name"], "count": 2, "assignments": None} for each in topics]
        grown = await client.ask(
            CREATE_PARTITIONS, 3, topics=asked, timeout=wait, validate_only=False
        )
        assert {int(each.error_code) for each in grown.results} == {ErrorCode.INVALID_REQUEST}
        mesh.listener.handlers._unary = {}
        told = await client.ask(
            TOPIC_PARTITIONS, 0, topics=[{"name": "a"}], response_partition_limit=1, cursor=None
        )
        assert told.topics[0].error_code == error_code(ErrorCode.UNKNOWN_SERVER_ERROR)
