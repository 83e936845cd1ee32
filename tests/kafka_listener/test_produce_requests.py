"""Produce and InitProducerId through the listener, frame by frame."""

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code, milliseconds
from sharemesh.telemetry import names
from tests.kafka_listener.asked import ALL, INIT_PRODUCER_ID, NONE, PRODUCE, batch, orders, produce
from tests.kafka_listener.world import NO_ERROR, ListeningMesh


@pytest.mark.parametrize("version", range(3, 14))
async def test_records_are_appended_in_every_version(version):
    """KLS-11: topics by name, and by id from version 13 on."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        for offset in (0, 2):
            part = {"index": 0, "records": batch(b"a", b"b")}
            topic = {"topic_id": topic_id, "name": "orders", "partition_data": [part]}
            told = await client.ask(
                PRODUCE,
                version,
                transactional_id=None,
                acks=1,
                timeout=milliseconds(1_000),
                topic_data=[topic],
            )
            [result] = told.responses[0].partition_responses
            assert (result.error_code, result.base_offset) == (NO_ERROR, offset)


@pytest.mark.parametrize(
    ("version", "topic", "code"),
    [
        (12, {"name": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, {"topic_id": None}, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
async def test_a_batch_for_an_unknown_topic_is_refused_alone(version, topic, code):
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        good = {"name": "orders", "topic_id": topic_id}
        part = {"index": 0, "records": batch(b"a")}
        told = await client.ask(
            PRODUCE,
            version,
            transactional_id=None,
            acks=ALL,
            timeout=milliseconds(1_000),
            topic_data=[{**each, "partition_data": [part]} for each in (topic, good)],
        )
        errors = [each.partition_responses[0].error_code for each in told.responses]
        assert errors == [error_code(code), NO_ERROR]


async def test_a_producer_that_wants_no_answer_gets_none_unless_it_failed():
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)

        def send(partition):
            part = {"index": partition, "records": batch(b"a")}
            client.send(
                PRODUCE,
                13,
                transactional_id=None,
                acks=NONE,
                timeout=milliseconds(1_000),
                topic_data=[{"topic_id": topic_id, "partition_data": [part]}],
            )

        send(0)
        assert (await produce(client, topic_id, b"b")).base_offset == 1
        send(5)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("unanswered",): 1}


async def test_another_number_of_acknowledgements_is_refused():
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        result = await produce(client, await orders(mesh), b"a", acks=2)
        assert result.error_code == error_code(21)


@pytest.mark.parametrize("version", range(6))
async def test_idempotent_producers_get_ids(version):
    """KLS-11."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        asked = {
            "transactional_id": None,
            "transaction_timeout": milliseconds(-1),
            "producer_id": -1,
            "producer_epoch": -1,
        }
        first, second = [await client.ask(INIT_PRODUCER_ID, version, **asked) for _ in range(2)]
        assert (first.error_code, first.producer_epoch) == (NO_ERROR, 0)
        assert first.producer_id != second.producer_id
