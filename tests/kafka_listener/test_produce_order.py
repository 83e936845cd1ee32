"""Produce requests of one connection that are under way together (spec KLS-3)."""

import asyncio
import socket
from dataclasses import replace

import pytest

from sharemesh import methods
from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka_listener.limits import PRODUCING_MAX
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.telemetry import names
from sharemesh.v1 import admin_pb2
from sharemesh.v1 import record_log_pb2 as pb
from tests.kafka_listener.asked import ALL, METADATA, NONE, PRODUCE, batch, orders
from tests.kafka_listener.world import NO_ERROR, ListeningMesh, request_frame


class Placing:
    """A handler of Produce whose requests get their places, and their answers, as a test wants."""

    def __init__(self, mesh):
        self.begun = []
        self.cancelled = 0
        mesh.listener.handlers._unary[methods.PRODUCE.name] = self

    async def __call__(self, request, context):
        answer = asyncio.get_running_loop().create_future()
        self.begun.append((context, answer))
        try:
            offset = await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return pb.ProduceResponse(
            partitions=[pb.ProducePartitionResult(base_offset=offset, error_code=int(offset < 0))]
        )

    def place(self, number):
        self.begun[number][0].placed()

    def answer(self, number, offset):
        self.begun[number][1].set_result(offset)

    def fail(self, number, error):
        self.begun[number][1].set_exception(error)


def send(client, topic_id=None, *values, acks=ALL):
    part = {"index": 0, "records": batch(*(values or (b"a",)))}
    return client.send(
        PRODUCE,
        13,
        transactional_id=None,
        acks=acks,
        timeout=milliseconds(5_000),
        topic_data=[{"topic_id": topic_id, "partition_data": [part]}],
    )


async def offset_of(client, correlation):
    told = await client.answer(PRODUCE, 13, correlation)
    return told.responses[0].partition_responses[0].base_offset


async def turns(count=50):
    """Let the loop, and what it has from the socket, go on."""
    for _ in range(count):
        await asyncio.sleep(0.001)


async def test_the_next_begins_with_the_place_of_the_one_before_and_answers_keep_their_order():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        log = Placing(mesh)
        sent = [send(client) for _ in range(3)]
        for number in range(3):
            await mesh.until(lambda number=number: len(log.begun) == number + 1)
            await turns()
            assert len(log.begun) == number + 1
            log.place(number)
        log.answer(2, 20)
        log.answer(1, 10)
        await turns()
        receiving = asyncio.ensure_future(offset_of(client, sent[0]))
        await turns()
        assert not receiving.done()
        log.answer(0, 0)
        assert [await receiving] + [await offset_of(client, each) for each in sent[1:]] == [
            0,
            10,
            20,
        ]


async def test_so_many_are_under_way_and_no_more():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        log = Placing(mesh)
        sent = [send(client) for _ in range(PRODUCING_MAX + 3)]
        for number in range(PRODUCING_MAX):
            await mesh.until(lambda number=number: len(log.begun) == number + 1)
            log.place(number)
        await turns()
        assert len(log.begun) == PRODUCING_MAX
        [connection] = mesh.listener._open
        assert not connection._transport.is_reading()
        log.answer(1, 1)
        await turns()
        assert len(log.begun) == PRODUCING_MAX  # it is not answered before the first is
        log.answer(0, 0)
        assert await offset_of(client, sent[0]) == 0
        await mesh.until(lambda: len(log.begun) == PRODUCING_MAX + 1)


async def test_nothing_but_produce_is_handled_beside_another_request():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        log = Placing(mesh)
        asked = []

        async def metadata(request, context):
            asked.append(request)
            await asyncio.sleep(0.02)
            return admin_pb2.MetadataResponse(cluster_id="c")

        mesh.listener.handlers._unary[methods.METADATA.name] = metadata
        first = send(client)
        other = client.send(METADATA, 13, topics=None)
        second = send(client)
        await mesh.until(lambda: log.begun)
        log.place(0)
        await turns()
        assert not asked
        log.answer(0, 5)
        assert await offset_of(client, first) == 5
        assert len(log.begun) == 1
        await client.answer(METADATA, 13, other)
        await mesh.until(lambda: len(log.begun) == 2)
        log.answer(1, 6)
        assert await offset_of(client, second) == 6


async def test_what_is_no_request_ends_the_connection_behind_the_answers_before_it():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        log = Placing(mesh)
        first = send(client)
        client.writer.write(b"\0\0\0\x08\0\x08\0\x02\0\0\0\0")
        await mesh.until(lambda: log.begun)
        log.place(0)
        await turns()
        assert mesh.listener.connections == 1
        log.answer(0, 3)
        assert await offset_of(client, first) == 3
        assert await client.is_closed()


async def test_a_refusal_is_answered_in_its_turn_and_what_began_behind_it_too():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        log = Placing(mesh)
        sent = [send(client), send(client)]
        await mesh.until(lambda: log.begun)
        log.place(0)
        await mesh.until(lambda: len(log.begun) == 2)
        log.answer(1, 7)
        log.fail(0, CallFailedError(Failure.UNAVAILABLE, "away"))
        told = await client.answer(PRODUCE, 13, sent[0])
        assert told.responses[0].partition_responses[0].error_code != NO_ERROR
        assert await offset_of(client, sent[1]) == 7


async def test_without_acknowledgements_a_failure_closes_behind_earlier_answers():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        log = Placing(mesh)
        first = send(client)
        send(client, acks=NONE)
        send(client)
        for number in range(3):
            await mesh.until(lambda number=number: len(log.begun) == number + 1)
            log.place(number)
        log.answer(1, -1)
        await turns()
        assert mesh.listener.connections == 1
        log.answer(0, 4)
        assert await offset_of(client, first) == 4
        assert await client.is_closed()
        await mesh.until(lambda: log.cancelled == 1)
        await mesh.until(lambda: not mesh.listener.connections)
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("unanswered",): 1}


async def test_a_lost_connection_cancels_all_and_gives_their_room_back():
    async with ListeningMesh() as mesh:
        async with mesh.connect() as client:
            log = Placing(mesh)
            for _ in range(3):
                send(client)
            for number in range(3):
                await mesh.until(lambda number=number: len(log.begun) == number + 1)
                log.place(number)
            assert mesh.listener.held.held > 0
        await mesh.until(lambda: log.cancelled == 3)
        await mesh.until(lambda: mesh.listener.connections == 0)
        assert mesh.listener.held.held == 0


@pytest.mark.parametrize("full", ["little_left", "somebody_waits"])
async def test_without_spare_room_the_next_waits_until_it_is_alone(full):
    async with ListeningMesh(max_held_bytes=1_000_000) as mesh, mesh.connect() as client:
        log = Placing(mesh)
        if full == "little_left":
            mesh.listener.held.add("User:another", 500_000)
        else:
            mesh.listener.held.take(object(), "User:another", 300_000, lambda: None)
            mesh.listener.held.take(object(), "User:another", 900_000, lambda: None)
        held = mesh.listener.held.held
        sent = [send(client), send(client)]
        await mesh.until(lambda: log.begun)
        log.place(0)
        await turns()
        assert len(log.begun) == 1
        log.answer(0, 0)
        assert await offset_of(client, sent[0]) == 0
        await mesh.until(lambda: len(log.begun) == 2)
        assert mesh.listener.held.held == held
        log.answer(1, 1)
        assert await offset_of(client, sent[1]) == 1


async def test_who_does_not_read_answers_begins_nothing_more():
    """KLS-5: but for what is under way."""
    async with ListeningMesh() as mesh:
        log = Placing(mesh)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with slow:
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", mesh.port))
            part = {"index": 0, "records": batch(b"a")}
            content = {
                "transactional_id": None,
                "acks": ALL,
                "timeout": milliseconds(5_000),
                "topic_data": [{"topic_id": None, "partition_data": [part]}],
            }
            await loop.sock_sendall(slow, request_frame(PRODUCE, 13, 1, content) * 4)
            await mesh.until(lambda: len(log.begun) == 1)
            [connection] = mesh.listener._open
            connection.pause_writing()
            log.place(0)
            await turns()
            assert len(log.begun) == 1
            connection.resume_writing()
            await mesh.until(lambda: len(log.begun) == 2)


async def test_records_of_requests_that_are_under_way_together_lie_in_their_order():
    """One turn of the disk commits several of them."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        sent = [send(client, topic_id, b"%d" % number) for number in range(40)]
        assert [await offset_of(client, each) for each in sent] == list(range(40))


async def test_a_request_of_which_a_part_is_refused_lets_nothing_begin_before_its_answer():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        produce = mesh.listener.handlers._unary[methods.PRODUCE.name]
        placed = []

        async def watched(request, context):
            told = []

            def tell():
                told.append(True)
                context.placed()

            response = await produce(request, replace(context, placed=tell))
            placed.append(len(told))
            return response

        mesh.listener.handlers._unary[methods.PRODUCE.name] = watched
        good = {"index": 0, "records": batch(b"a")}
        bad = {"index": 0, "records": b"x" * 100}
        for parts in ([good], [good, good], [good, bad], [bad]):
            await client.ask(
                PRODUCE,
                13,
                transactional_id=None,
                acks=ALL,
                timeout=milliseconds(5_000),
                topic_data=[{"topic_id": topic_id, "partition_data": parts}],
            )
        assert placed == [1, 1, 0, 0]
