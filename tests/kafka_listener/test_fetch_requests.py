"""Fetch through the listener, frame by frame (KLS-18)."""

import uuid

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.kafka.messages import error_code, milliseconds
from sharemesh.kafka_listener.translation import fetch as translator
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.share_leader.service import ShareLeaderService
from sharemesh.v1 import record_log_pb2 as pb
from sharemesh.v1.common_pb2 import CurrentLeader, Node
from tests.decoding import decode_records
from tests.kafka_listener.asked import FETCH, orders, produce
from tests.kafka_listener.test_translation import NODES
from tests.kafka_listener.world import NO_ERROR, ListeningMesh, read_answer

SOME_TOPIC = uuid.UUID(int=5)
SESSION_ID_NOT_FOUND = 70


def asking(topic_id, *offsets, name="orders", epoch=-1, **fields):
    """Return the content of a request, with one entry for each (partition, offset)."""
    parts = [
        {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": 1_000_000,
            "current_leader_epoch": epoch,
        }
        for partition, offset in offsets
    ]
    return {
        "replica_id": -1,
        "max_wait": milliseconds(0),
        "min_bytes": 1,
        "max_bytes": 50_000_000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": name, "topic_id": topic_id, "partitions": parts}],
        "forgotten_topics_data": [],
        **fields,
    }


def values(part):
    records = decode_records(bytes(part.records), [(0, 10_000, 1)]) if part.records else []
    return [each.value for each in records]


@pytest.mark.parametrize("version", [4, 5, 7, 11, 12, 13, 16, 18])
async def test_records_are_fetched_from_an_offset_in_every_version(version):
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh, 2)
        await produce(client, topic_id, b"a")
        await produce(client, topic_id, b"b", b"c")
        told = await client.ask(FETCH, version, **asking(topic_id, (0, 1), (1, 0), (9, 0)))
        [topic] = told.responses
        held, empty, unknown = topic.partitions
        assert (values(held), held.high_watermark, held.last_stable_offset) == ([b"b", b"c"], 3, 3)
        assert (empty.records, empty.high_watermark, empty.error_code) == (b"", 0, NO_ERROR)
        assert unknown.error_code == error_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if version >= 7:
            assert (told.error_code, told.session_id) == (NO_ERROR, 0)
        named = getattr(topic, "topic_id", None) or getattr(topic, "topic", None)
        assert named == (topic_id if version >= 13 else "orders")


@pytest.mark.parametrize(("version", "code"), [(12, 3), (13, 100)])
async def test_a_topic_that_is_none_is_unknown_by_name_or_by_id(version, code):
    async with ListeningMesh() as mesh, mesh.connect() as client:
        told = await client.ask(FETCH, version, **asking(SOME_TOPIC, (0, 0), name="nope"))
        assert int(told.responses[0].partitions[0].error_code) == code


async def test_what_is_asked_of_the_leader_is_what_the_client_said():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        await produce(client, topic_id, b"a")

        async def code(**fields):
            told = await client.ask(FETCH, 18, **asking(topic_id, (0, 0), **fields))
            return int(told.responses[0].partitions[0].error_code)

        assert await code(isolation_level=1) == 0
        assert await code(epoch=1_000) == ErrorCode.UNKNOWN_LEADER_EPOCH
        told = await client.ask(FETCH, 18, **asking(topic_id, (0, 7)))
        assert int(told.responses[0].partitions[0].error_code) == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [7, 12, 18])
async def test_no_session_is_kept_and_who_continues_one_has_to_name_everything(version):
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        for epoch in (0, -1):
            fields = asking(topic_id, (0, 0), session_epoch=epoch, session_id=epoch + 5)
            told = await client.ask(FETCH, version, **fields)
            assert (told.session_id, len(told.responses)) == (0, 1)
        fields = asking(topic_id, session_epoch=1, session_id=77)
        told = await client.ask(FETCH, version, **fields)
        assert (int(told.error_code), told.responses) == (SESSION_ID_NOT_FOUND, ())


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure.UNIMPLEMENTED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Failure.RESOURCE_EXHAUSTED, ErrorCode.KAFKA_STORAGE_ERROR),
        (Failure.DEADLINE_EXCEEDED, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_a_request_that_is_refused_as_a_whole_says_so_of_each_partition(
    failure, code, monkeypatch
):
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)

        async def call(*_):
            raise CallFailedError(failure, "not now", throttle_ms=250)

        monkeypatch.setattr(mesh.answers.handlers, "call", call)
        told = await client.ask(FETCH, 18, **asking(topic_id, (0, 0), (1, 0)))
        assert [each.error_code for each in told.responses[0].partitions] == [error_code(code)] * 2
        assert told.throttle_time == milliseconds(250)


@pytest.mark.parametrize("version", [11, 12, 15, 16, 18])
def test_every_field_of_an_answer_is_packed_as_kafka_reads_it(version):
    asked = type("Asked", (), {"topics": []})
    parts = [None, None, None]
    asked.topics = [type("T", (), {"topic_id": SOME_TOPIC, "topic": "ö", "partitions": parts})]
    ends = {"high_watermark": 2**40, "last_stable_offset": 2**39, "log_start_offset": 7}
    moved = CurrentLeader(leader_id="here", leader_epoch=9)
    response = pb.FetchResponse(
        throttle_time_ms=1_234,
        partitions=[
            pb.FetchPartitionResult(
                partition=1,
                records=b"r" * 300,
                aborted_transactions=[pb.FetchedAbort(producer_id=9, first_offset=2**35)],
                **ends,
            ),
            pb.FetchPartitionResult(partition=2, error_code=6, current_leader=moved, **ends),
            pb.FetchPartitionResult(
                partition=3, error_code=100, current_leader=CurrentLeader(leader_id="grpc-only")
            ),
        ],
        node_endpoints=[Node(node_id="here"), Node(node_id="grpc-only")],
    )
    pieces = translator.to_frame(version, 3, asked, response, NODES)
    assert b"r" * 300 in pieces, "record batches are a piece of their own"
    told = read_answer(FETCH, version, b"".join(pieces)[4:], 3)
    assert told.throttle_time == milliseconds(1_234)
    given, gone, unknown = told.responses[0].partitions
    assert (given.partition_index, bytes(given.records)) == (1, b"r" * 300)
    assert (given.high_watermark, given.last_stable_offset) == (2**40, 2**39)
    assert given.log_start_offset == 7
    [aborted] = given.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (9, 2**35)
    assert int(unknown.error_code) == (100 if version >= 13 else 3)
    if version >= 12:
        assert (gone.current_leader.leader_id, gone.current_leader.leader_epoch) == (3, 9)
        assert unknown.current_leader.leader_id == -1
    if version >= 16:
        [endpoint] = told.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (
            3,
            "kafka-host",
            9092,
            "r",
        )


@pytest.mark.parametrize(("code", "told"), [(1, 1), (74, 74), (7, 56), (15, 56), (30, 56)])
def test_a_partition_has_a_code_that_consumers_expect(code, told):
    """KLS-16: at others their poll raises."""
    asked = type("Asked", (), {"topics": []})
    asked.topics = [type("T", (), {"topic_id": SOME_TOPIC, "partitions": [None]})]
    refused = pb.FetchPartitionResult(partition=1, error_code=code)
    pieces = translator.to_frame(18, 3, asked, pb.FetchResponse(partitions=[refused]), NODES)
    [found] = read_answer(FETCH, 18, b"".join(pieces)[4:], 3).responses[0].partitions
    assert int(found.error_code) == told


async def test_a_consumer_waits_for_records_and_others_are_served_meanwhile():
    async with ListeningMesh() as mesh, mesh.connect() as client, mesh.connect() as producer:
        topic_id = await orders(mesh)
        waiting = client.send(FETCH, 18, **asking(topic_id, (0, 0), max_wait=milliseconds(20_000)))
        partition = TopicPartition(TopicId(topic_id.bytes), 0)
        services = [getattr(each, "_service", None) for each in mesh.mesh.nodes[0].roles._services]
        [leader] = [each for each in services if isinstance(each, ShareLeaderService)]
        led = leader.partitions.required(partition)
        await mesh.until(lambda: led._watching)
        await produce(producer, topic_id, b"a")
        told = await client.answer(FETCH, 18, waiting)
        assert values(told.responses[0].partitions[0]) == [b"a"]
