"""Large answers over TLS: they count, and end, as those of plain text do."""

import asyncio
import itertools
import socket

import pytest
import uvloop

from sharemesh import methods
from sharemesh.kafka_listener.unwritten import SLICE_BYTES, TURN_BYTES, Unwritten
from sharemesh.telemetry import names
from sharemesh.v1 import admin_pb2
from tests.kafka_listener.test_listener import Held
from tests.kafka_listener.test_tls import Place
from tests.kafka_listener.world import ListeningMesh

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
TOPICS, NAME_CHARS = 300, 30_000
ANSWER_BYTES = TOPICS * NAME_CHARS
UNCOUNTED = 5 * 1024 * 1024
"""What the kernel may have of an answer that nobody reads."""


def in_loop(loop_factory, work):
    """Run a test in a loop of a kind: TLS lies in the loop."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(work)


def read_nothing(client):
    """Keep the kernel from taking much of what comes."""
    transport = client.writer.transport
    transport.pause_reading()
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)


def answers_large(mesh):
    """Have Metadata answered with 9 MB."""
    topics = [admin_pb2.TopicMetadata(name=f"{at:0{NAME_CHARS}}") for at in range(TOPICS)]
    held = Held(mesh, methods.METADATA, admin_pb2.MetadataResponse(topics=topics))
    held.go_on.set()
    return held


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_the_first_large_answer_counts_until_it_is_read(tmp_path, loop_factory):
    """KLS-3, KLS-5, KLS-6: TLS keeps none of it, the transport below all."""
    place = Place(tmp_path)

    async def work():
        async with (
            ListeningMesh(tls=place.certificates()) as mesh,
            mesh.connect(place.client("ann")) as client,
        ):
            held = answers_large(mesh)
            read_nothing(client)
            for _ in range(2):
                client.send(3, 1, topics=None)
            await mesh.until(lambda: mesh.listener.held.held > 0)
            assert mesh.listener.held.held > ANSWER_BYTES - UNCOUNTED
            [connection] = mesh.listener._open
            times_ms = itertools.count(mesh.listener.clock.now_ms(), 32_000)
            await mesh.until(lambda: connection.overdue(next(times_ms)))
            assert connection.overdue(next(times_ms)).reason == "slow_reader"
            assert held.asked == 1
            connection.close()
            await mesh.until(lambda: mesh.listener.connections == 0)
            assert mesh.listener.held.held == 0

    in_loop(loop_factory, work())


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_who_reads_gets_all_of_it_and_the_next_one(tmp_path, loop_factory):
    """KLS-3, KLS-5."""
    place = Place(tmp_path)

    async def work():
        async with (
            ListeningMesh(tls=place.certificates()) as mesh,
            mesh.connect(place.client("ann")) as client,
        ):
            answers_large(mesh)
            sent = [client.send(3, 1, topics=None) for _ in range(2)]
            for each in sent:
                told = await client.answer(3, 1, each)
                assert [int(topic.name[-9:]) for topic in told.topics] == list(range(TOPICS))
            await mesh.until(lambda: mesh.listener.held.held == 0)
            assert (await client.ask(10, 6, key_type=0, coordinator_keys=["g"])).coordinators

    in_loop(loop_factory, work())


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_large_answer_for_which_there_is_no_room_ends_its_connection(tmp_path, loop_factory):
    """KLS-5."""
    place = Place(tmp_path)

    async def work():
        async with (
            ListeningMesh(tls=place.certificates(), max_held_bytes=1) as mesh,
            mesh.connect(place.client("ann")) as client,
        ):
            answers_large(mesh)
            mesh.listener.held.add("User:another", 1)
            read_nothing(client)
            client.send(3, 1, topics=None)
            await mesh.until(lambda: mesh.listener.connections == 0)
            assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("slow_reader",): 1}
            assert mesh.listener.held.held == 1

    in_loop(loop_factory, work())


class Taken:
    """A transport that takes everything, and what it was given at a time."""

    def __init__(self):
        self.given = []

    def writelines(self, pieces):
        self.given.append(b"".join(pieces))


def test_a_turn_takes_slices_of_what_is_unwritten():
    """KLS-3, KLS-5: none is longer than what the transport may keep unseen."""
    transport, unwritten = Taken(), Unwritten()
    whole = bytes(range(256)) * (10 * SLICE_BYTES // 256)
    cuts = [0, 1, 9, SLICE_BYTES, 3 * SLICE_BYTES + 5, len(whole)]
    pieces = [whole[first:end] for first, end in itertools.pairwise(cuts)]
    unwritten.add([b"", *pieces[:2]])
    unwritten.add(pieces[2:])
    assert unwritten.size == len(whole)
    unwritten.write_to(transport, lambda: len(transport.given) < 3)
    assert [len(each) for each in transport.given] == [SLICE_BYTES] * 3
    assert unwritten.size == 7 * SLICE_BYTES
    unwritten.write_to(transport, lambda: True)
    assert b"".join(transport.given) == whole
    assert (unwritten.size, len(transport.given)) == (0, 10)


def test_a_turn_has_an_end():
    """KLS-3, BND-20: a client that reads fast does not keep the loop."""
    transport, unwritten = Taken(), Unwritten()
    unwritten.add([bytes(2 * TURN_BYTES + 7)])
    left = []
    while unwritten.size:
        unwritten.write_to(transport, lambda: True)
        left.append(unwritten.size)
    assert left == [TURN_BYTES + 7, 7, 0]
