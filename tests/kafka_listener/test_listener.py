"""A real listener before a mesh in memory: connections, their bounds, their times."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections import Counter

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import error_code, milliseconds
from sharemesh.kafka_listener.limits import SMALL_FRAME_BYTES
from sharemesh.kafka_listener.reading_pace import READ_BYTES_PER_S_MIN, ReadingPace
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.telemetry import names
from sharemesh.throttling.call_turns import UNITS_OF_A_TURN
from sharemesh.v1 import admin_pb2
from tests.kafka_listener.world import ListeningMesh, request_frame

METADATA = request_frame(3, 1, 5, {"topics": None})
API_VERSIONS = request_frame(18, 0, 5, {})
WITH_CLUSTER_ID = request_frame(3, 2, 5, {"topics": None})


class Held:
    """A handler that answers only when a test lets it."""

    def __init__(self, mesh, method, response):
        self.asked = 0
        self.cancelled = 0
        self.go_on = asyncio.Event()
        self._response = response
        mesh.listener.handlers._unary[method.name] = self

    async def __call__(self, request, context):
        self.asked += 1
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self._response


async def test_answers_come_in_the_order_of_requests():
    """KLS-3: the second request is not begun before the first is answered."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        held = Held(mesh, methods.METADATA, admin_pb2.MetadataResponse(cluster_id="c"))
        first = client.send(3, 13, topics=None)
        second = client.send(10, 6, key_type=0, coordinator_keys=["g"])
        third = client.send(3, 13, topics=None)
        await mesh.until(lambda: held.asked == 1)
        held.go_on.set()
        assert (await client.answer(3, 13, first)).cluster_id == "c"
        assert (await client.answer(10, 6, second)).coordinators[0].key == "g"
        assert (await client.answer(3, 13, third)).cluster_id == "c"


async def test_requests_that_are_sent_together_leave_turns_to_others():
    """KLS-3: thousands of them in one packet would hold the loop for seconds."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        turn, begun = 0, Counter()
        answer = mesh.answers.answer

        async def counted(*asked):
            begun[turn] += 1
            return await answer(*asked)

        mesh.answers.answer = counted
        client.writer.write(API_VERSIONS * 200)
        while begun.total() < 200:
            await asyncio.sleep(0)
            turn += 1
        assert set(begun.values()) == {1}


async def test_bnd_28_requests_of_many_connections_of_a_principal_begin_over_many_turns():
    async with ListeningMesh() as mesh, contextlib.AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(mesh.connect()) for _ in range(40)]
        await mesh.until(lambda: mesh.listener.connections == 40)
        turn, begun = 0, Counter()
        answer = mesh.answers.answer

        async def counted(*asked):
            begun[turn] += 1
            return await answer(*asked)

        mesh.answers.answer = counted
        for client in clients:
            client.writer.write(API_VERSIONS)
        while begun.total() < 40:
            await asyncio.sleep(0)
            turn += 1
        assert max(begun.values()) == UNITS_OF_A_TURN


async def test_bnd_28_who_is_closed_while_it_waits_for_its_turn_begins_nothing():
    async with ListeningMesh() as mesh, mesh.connect() as client:
        waits, may_begin = asyncio.Event(), asyncio.Event()

        async def turn(principal, request_bytes):
            waits.set()
            await may_begin.wait()

        mesh.listener.turns.turn = turn
        client.writer.write(API_VERSIONS)
        await waits.wait()
        [connection] = mesh.listener._open
        connection.close()
        may_begin.set()
        assert await client.is_closed()
        await mesh.until(lambda: not mesh.listener.connections)
        assert not mesh.counted(names.KAFKA_LISTENER_REQUESTS)


async def test_no_more_is_read_while_a_whole_request_waits():
    """KLS-3."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        held = Held(mesh, methods.METADATA, admin_pb2.MetadataResponse())
        for _ in range(2):
            client.send(3, 1, topics=None)
        await mesh.until(lambda: held.asked == 1)
        [connection] = mesh.listener._open
        await mesh.until(lambda: not connection._transport.is_reading())
        held.go_on.set()
        for correlation in (1, 2):
            await client.answer(3, 1, correlation)
        await mesh.until(connection._transport.is_reading)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">i", -5), "malformed"),
        (struct.pack(">ihhi", 100, 8, 2, 1), "unknown_request"),
        (struct.pack(">ihhi", 100, 78, 3, 1), "unknown_version"),
        (struct.pack(">ihhi", 2**31 - 1, 0, 13, 1), "too_large"),
        (struct.pack(">ihhih", 10, 3, 1, 1, 50), "malformed"),
        (struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1), "malformed"),
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "unknown_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls"),
    ],
)
async def test_what_is_no_request_closes_its_connection_and_no_other(sent, reason, caplog):
    """KLS-4."""
    async with ListeningMesh() as mesh, mesh.connect() as other, mesh.connect() as client:
        client.writer.write(sent)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {(reason,): 1}
        assert (await other.ask(3, 13, topics=None)).error_code == error_code(0)
    assert sum("connection of a Kafka client closed" in each for each in caplog.messages) == 1


async def test_a_reason_is_said_once_and_counted_each_time(caplog):
    """KLS-4."""
    async with ListeningMesh() as mesh:
        for _ in range(3):
            async with mesh.connect() as client:
                client.writer.write(struct.pack(">ihh", 100, 999, 0))
                assert await client.is_closed()
        await mesh.until(
            lambda: mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("unknown_request",): 3}
        )
    assert sum("API key 999" in each for each in caplog.messages) == 1


async def test_bytes_behind_a_request_mean_nothing():
    """KLS-4: librdkafka sends some."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        frame = METADATA[4:] + b"\0\0\0"
        client.writer.write(struct.pack(">i", len(frame)) + frame)
        assert (await client.answer(3, 1, 5)).controller_id == 7


@pytest.mark.parametrize("version", [6, 9, 32_767, -1])
async def test_an_unknown_version_of_api_versions_is_answered_in_version_zero(version):
    """KLS-4."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        client.writer.write(struct.pack(">ihhih", 14, 18, version, 3, -1) + b"junk")
        told = await client.answer(18, 0, 3)
        assert told.error_code == error_code(ErrorCode.UNSUPPORTED_VERSION)
        assert [(e.api_key, e.min_version, e.max_version) for e in told.api_keys] == [(18, 0, 5)]


async def test_a_connection_that_says_nothing_is_closed():
    """KLS-6: also one whose first request never becomes whole."""
    async with ListeningMesh(first_request_ms=30_000) as mesh:
        async with mesh.connect() as silent, mesh.connect() as slow:
            slow.writer.write(METADATA[:-1])
            await mesh.until(lambda: mesh.listener.connections == 2)
            await mesh.mesh.clock.advance(32)
            assert await silent.is_closed()
            assert await slow.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("silent",): 2}


async def test_a_request_that_stops_in_the_middle_ends_its_connection():
    """KLS-6: bytes that go on trickling in do not keep it open."""
    async with ListeningMesh(frame_ms=2_000) as mesh, mesh.connect() as client:
        await client.ask(3, 1, topics=None)
        for byte in METADATA[:3]:
            client.writer.write(bytes([byte]))
            await mesh.mesh.clock.advance(0.8)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("slow_request",): 1}


async def test_an_idle_connection_is_closed_without_a_word(caplog):
    """KLS-6."""
    async with ListeningMesh(idle_ms=60_000) as mesh, mesh.connect() as client:
        await client.ask(3, 1, topics=None)
        await mesh.mesh.clock.advance(50)
        await client.ask(3, 1, topics=None)
        await mesh.mesh.clock.advance(50)
        assert mesh.listener.connections == 1
        await mesh.mesh.clock.advance(15)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("idle",): 1}
    assert "connection of a Kafka client" not in caplog.text


async def test_a_request_may_take_longer_than_a_connection_may_be_idle():
    """KLS-6."""
    async with ListeningMesh(idle_ms=1_000, frame_ms=1_000) as mesh, mesh.connect() as client:
        held = Held(mesh, methods.METADATA, admin_pb2.MetadataResponse())
        correlation = client.send(3, 1, topics=None)
        await mesh.until(lambda: held.asked == 1)
        await mesh.mesh.clock.advance(3)
        held.go_on.set()
        await client.answer(3, 1, correlation)


async def test_a_client_that_reads_no_answers_is_cut_off():
    """KLS-5, KLS-6: what waits for it counts, and ends."""
    big = admin_pb2.MetadataResponse(cluster_id="c" * 30_000)
    async with ListeningMesh(frame_ms=30_000) as mesh:
        held = Held(mesh, methods.METADATA, big)
        held.go_on.set()
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with slow:
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", mesh.port))
            sending = asyncio.ensure_future(loop.sock_sendall(slow, WITH_CLUSTER_ID * 1_000))
            await mesh.until(lambda: mesh.listener.held.held > 0)
            await mesh.mesh.clock.advance(32)
            await mesh.until(lambda: mesh.listener.connections == 0)
            sending.cancel()
        assert held.asked < 1_000
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("slow_reader",): 1}
        assert mesh.listener.held.held == 0


async def test_a_client_that_goes_on_reading_has_time_for_a_large_answer():
    """KLS-6: what a fetch brought on a slow line must not come back as delivered in vain."""
    topics = [admin_pb2.TopicMetadata(name=f"{number:030000}") for number in range(1_000)]
    async with ListeningMesh(frame_ms=30_000) as mesh:
        Held(mesh, methods.METADATA, admin_pb2.MetadataResponse(topics=topics)).go_on.set()
        loop, received = asyncio.get_running_loop(), bytearray()
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
            slow.setblocking(False)
            await loop.sock_connect(slow, ("127.0.0.1", mesh.port))
            await loop.sock_sendall(slow, METADATA)
            await mesh.until(lambda: mesh.listener.held.held > 0)
            [connection] = mesh.listener._open
            unread = connection._transport.get_write_buffer_size
            for _ in range(2):
                before = unread()
                while before - unread() < 21 * READ_BYTES_PER_S_MIN:
                    received += await loop.sock_recv(slow, 1 << 20)
                await mesh.mesh.clock.advance(20)
                assert mesh.listener.connections == 1
            assert unread() > 0
            while len(received) < 1_000 * 30_000:
                received += await loop.sock_recv(slow, 1 << 20)
            await mesh.until(lambda: mesh.listener.held.held == 0)
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {}


@pytest.mark.parametrize(
    ("bytes_a_second", "closed_s"), [(0, 30), (1_000, 31), (READ_BYTES_PER_S_MIN, None)]
)
def test_a_client_that_reads_too_slowly_has_no_more_time(bytes_a_second, closed_s):
    """KLS-6: a byte now and then keeps no answer here."""
    pace = ReadingPace(10_000_000, 5_000)
    too_slow = (
        second
        for second in range(100)
        if pace.is_too_slow(10_000_000 - bytes_a_second * second, 5_000 + second * 1_000, 30_000)
    )
    assert next(too_slow, None) == closed_s


def test_a_client_that_stops_reading_has_no_more_time():
    """KLS-6: however much it read before."""
    pace = ReadingPace(100_000_000, 0)
    assert not pace.is_too_slow(1_000_000, 10_000, 30_000)
    assert not pace.is_too_slow(1_000_000, 39_999, 30_000)
    assert pace.is_too_slow(1_000_000, 40_000, 30_000)


async def test_an_answer_for_which_there_is_no_room_ends_its_connection():
    """KLS-5."""
    big = admin_pb2.MetadataResponse(cluster_id="c" * 32_000)
    async with ListeningMesh(max_held_bytes=1) as mesh, mesh.connect() as client:
        Held(mesh, methods.METADATA, big).go_on.set()
        mesh.listener.held.add("User:another", 1)
        client.writer.write(WITH_CLUSTER_ID * 1_000)
        await mesh.until(lambda: mesh.listener.connections == 0)
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("slow_reader",): 1}


async def test_large_requests_wait_for_room_and_are_received_then():
    """KLS-5."""
    size = SMALL_FRAME_BYTES + 1_000
    names_ = [{"name": "n" * 200} for _ in range(size // 200)]
    async with (
        ListeningMesh(max_held_bytes=size, first_request_ms=60_000) as mesh,
        mesh.connect() as first,
        mesh.connect() as second,
    ):
        frame = request_frame(3, 1, 1, {"topics": names_})
        assert len(frame) > SMALL_FRAME_BYTES
        first.writer.write(frame[:-1])
        await mesh.until(lambda: mesh.listener.held.held == len(frame) - 4)
        second.writer.write(frame[:-1])
        await mesh.until(lambda: len(mesh.listener.held._waiting) == 1)
        first.writer.write(frame[-1:])
        await first.answer(3, 1, 1)
        await mesh.until(lambda: mesh.listener.held.held == len(frame) - 4)
        second.writer.write(frame[-1:])
        await second.answer(3, 1, 1)
        await mesh.until(lambda: mesh.listener.held.held == 0)


@pytest.mark.parametrize("heard", [True, False])
async def test_time_in_which_a_request_waits_for_room_is_not_its_clients(heard):
    """KLS-6: we do not read in it; once there is room, the request has its time."""
    times = {"frame_ms": 30_000, "first_request_ms": 30_000}
    async with ListeningMesh(max_held_bytes=1, **times) as mesh, mesh.connect() as client:
        if heard:
            await client.ask(3, 1, topics=None)
        mesh.listener.held.add("User:another", 1)
        client.writer.write(struct.pack(">ihh", 200_000, 3, 1))
        await mesh.until(lambda: mesh.listener.held._waiting)
        await mesh.mesh.clock.advance(60)
        assert mesh.listener.connections == 1
        mesh.listener.held.give_back("User:another", 1)
        assert mesh.listener.held.held == 200_000
        await mesh.mesh.clock.advance(28)
        assert mesh.listener.connections == 1
        await mesh.mesh.clock.advance(4)
        assert await client.is_closed()
        reason = "slow_request" if heard else "silent"
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {(reason,): 1}
        await mesh.until(lambda: mesh.listener.held.held == 0)


async def test_a_lost_connection_gives_its_room_back():
    """KLS-5."""
    async with ListeningMesh(max_held_bytes=100) as mesh:
        async with mesh.connect() as first, mesh.connect() as second:
            first.writer.write(struct.pack(">ihh", 200_000, 3, 1))
            await mesh.until(lambda: mesh.listener.held.held == 200_000)
            second.writer.write(struct.pack(">ihh", 300_000, 3, 1))
            await mesh.until(lambda: len(mesh.listener.held._waiting) == 1)
            first.writer.transport.abort()
            await mesh.until(lambda: mesh.listener.held.held == 300_000)
        await mesh.until(lambda: mesh.listener.held.held == 0)


async def test_connections_beyond_the_bound_are_closed_and_said_once(caplog):
    """KLS-7."""
    async with ListeningMesh(max_connections=2) as mesh:
        async with mesh.connect() as one, mesh.connect():
            await mesh.until(lambda: mesh.listener.connections == 2)
            for _ in range(3):
                async with mesh.connect() as beyond:
                    assert await beyond.is_closed()
            await one.ask(3, 1, topics=None)
            assert mesh.counted(names.KAFKA_LISTENER_CONNECTIONS) == {(): 2}
        await mesh.until(lambda: mesh.listener.connections == 0)
        async with mesh.connect() as again:
            await again.ask(3, 1, topics=None)
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("too_many",): 3}
    assert sum("raise kafka_listener_connections" in each for each in caplog.messages) == 1


async def test_many_silent_connections_do_not_hinder_another_one():
    """KLS-6, KLS-7."""
    async with ListeningMesh(max_connections=300, first_request_ms=30_000) as mesh:
        silent = [mesh.connect() for _ in range(300)]
        for each in silent:
            await each.__aenter__()
        await mesh.until(lambda: mesh.listener.connections == 300)
        await mesh.mesh.clock.advance(32)
        await mesh.until(lambda: mesh.listener.connections == 0)
        async with mesh.connect() as client:
            await client.ask(3, 1, topics=None)
        for each in silent:
            await each.__aexit__()


async def test_a_lost_connection_cancels_what_is_handled_for_it():
    """KLS-7."""
    async with ListeningMesh() as mesh:
        held = Held(mesh, methods.METADATA, admin_pb2.MetadataResponse())
        async with mesh.connect() as client:
            client.send(3, 1, topics=None)
            await mesh.until(lambda: held.asked == 1)
        await mesh.until(lambda: held.cancelled == 1)
        await mesh.until(lambda: mesh.listener.connections == 0)


async def test_a_tagged_field_that_comes_often_closes_its_connection(caplog):
    """KLS-4: a request that cannot be read is none, whatever is wrong with it."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        body = bytes(25) + b"\1\1\1" + b"\xac\2" + b"\0\1\0" * 300
        frame = struct.pack(">hhihB", 1, 12, 1, -1, 0) + body
        client.writer.write(struct.pack(">i", len(frame)) + frame)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("malformed",): 1}
        assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_an_error_inside_is_logged_and_closes_the_connection(caplog):
    """KLS-16."""
    async with ListeningMesh() as mesh, mesh.connect() as client:

        async def broken(request, context):
            raise KeyError("a bug")

        mesh.listener.handlers._unary[methods.METADATA.name] = broken
        client.send(3, 1, topics=None)
        assert await client.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("internal",): 1}
    assert any(each.levelno == logging.ERROR and each.exc_info for each in caplog.records)


async def test_requests_are_counted_by_kind_and_version():
    """KLS-12."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        for version in (1, 13, 13):
            await client.ask(3, version, topics=None)
        client.writer.write(struct.pack(">ihhih", 10, 18, 99, 3, -1))
        await client.answer(18, 0, 3)
        assert mesh.counted(names.KAFKA_LISTENER_REQUESTS) == {
            ("Metadata", "1"): 1,
            ("Metadata", "13"): 2,
            ("ApiVersions", "unknown"): 1,
        }


OF_A_PARTITION = {"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}
MEMBER = {"group_id": "g", "member_id": "m"}
ELSEWHERE = [
    (2, 1, {"replica_id": -1, "topics": [OF_A_PARTITION]}, methods.LIST_OFFSETS, 6),
    (76, 1, {**MEMBER, "member_epoch": 1, "rack_id": None}, methods.SHARE_GROUP_HEARTBEAT, 16),
    (22, 4, {"producer_id": -1, "producer_epoch": -1}, methods.INIT_PRODUCER_ID, 14),
    (79, 2, {**MEMBER, "share_session_epoch": 1, "topics": []}, methods.SHARE_ACKNOWLEDGE, 122),
]


def code_in(told):
    """Return the only error of an answer."""
    if hasattr(told, "error_code"):
        return int(told.error_code)
    return int(told.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(("key", "version", "content", "method", "code"), ELSEWHERE)
@pytest.mark.parametrize("busy", [False, True])
async def test_a_request_for_another_process_sends_its_client_there(
    key, version, content, method, code, busy
):
    """KLS-16, KLS-11: and one that is refused for its load is asked again."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        handlers = mesh.listener.handlers._unary
        before = handlers.pop(method.name)
        if busy:

            async def refuses(request, context):
                raise CallFailedError(Failure.RESOURCE_EXHAUSTED, "too much")

            handlers[method.name] = refuses
            code = {76: 14, 79: 133}.get(key, 89)
        told = await client.ask(
            key,
            version,
            transactional_id=None,
            transaction_timeout=milliseconds(-1),
            subscribed_topic_names=None,
            isolation_level=0,
            **content,
        )
        assert code_in(told) == code
        handlers[method.name] = before


async def test_a_call_that_takes_too_long_is_answered_in_time():
    """KLS-16, KLS-6: the deadline of the method."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        held = Held(mesh, methods.METADATA, None)
        correlation = client.send(3, 13, topics=None)
        await mesh.until(lambda: held.asked == 1)
        await mesh.mesh.clock.advance(methods.METADATA.deadline_ms / 1_000 + 1)
        told = await client.answer(3, 13, correlation)
        assert told.error_code == error_code(ErrorCode.REQUEST_TIMED_OUT)
        assert told.cluster_id is None  # KLS-9: it would be that of another cluster
