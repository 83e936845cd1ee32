"""Produce requests that want no answer are done although their client has gone (KLS-7)."""

import contextlib

import pytest

from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka_listener.unanswered import HEAD_SEEN_BYTES, wants_no_answer
from tests.kafka_listener.asked import ALL, LIST_OFFSETS, METADATA, NONE, PRODUCE, orders
from tests.kafka_listener.test_produce_order import Placing, send, turns
from tests.kafka_listener.world import ListeningMesh, request_frame


async def leave(client):
    """Close the connection behind all that was sent, as a producer does that has flushed."""
    client.writer.close()
    with contextlib.suppress(ConnectionError):
        await client.writer.wait_closed()


async def end_offset(mesh):
    async with mesh.connect() as client:
        told = await client.ask(
            LIST_OFFSETS,
            11,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            timeout=milliseconds(1_000),
        )
    return told.topics[0].partitions[0].offset


async def test_what_a_producer_sent_before_it_left_is_appended():
    async with ListeningMesh() as mesh:
        topic_id = await orders(mesh)
        async with mesh.connect() as client:
            for _ in range(50):
                send(client, topic_id, acks=NONE)
            await leave(client)
        await mesh.until(lambda: not mesh.listener.connections)
        assert await end_offset(mesh) == 50
        assert mesh.listener.held.held == 0


async def test_what_wants_an_answer_is_cancelled():
    async with ListeningMesh() as mesh:
        log = Placing(mesh)
        async with mesh.connect() as client:
            for number, acks in enumerate((NONE, ALL, NONE)):
                send(client, acks=acks)
                await mesh.until(lambda number=number: len(log.begun) > number)
                log.place(number)
            await leave(client)
        await mesh.until(lambda: log.cancelled == 1)
        log.answer(2, 0)
        await turns()
        assert mesh.listener.connections == 1
        log.answer(0, -1)
        await mesh.until(lambda: not mesh.listener.connections)
        assert log.cancelled == 1
        assert mesh.listener.held.held == 0


async def test_a_listener_that_stops_does_not_wait_for_it():
    async with ListeningMesh() as mesh:
        log = Placing(mesh)
        async with mesh.connect() as client:
            send(client, acks=NONE)
            await mesh.until(lambda: log.begun)
            await leave(client)
        await turns()
        await mesh.listener.stop()
        assert log.cancelled == 1


@pytest.mark.parametrize("version", range(3, 14))
def test_acknowledgements_are_seen_in_every_version(version):
    for acks, transactional_id in ((0, None), (0, "t" * 1_000), (1, None), (-1, "t")):
        content = {
            "transactional_id": transactional_id,
            "acks": acks,
            "timeout": milliseconds(5),
            "topic_data": [],
        }
        frame = request_frame(PRODUCE, version, 1, content)[4:]
        assert wants_no_answer(frame[:HEAD_SEEN_BYTES]) is (acks == 0)
        assert not wants_no_answer(frame[:12])
    assert not wants_no_answer(request_frame(METADATA, 13, 1, {"topics": None})[4:])
