"""Answers in the decoded form: what they unpack is bounded before anything is acquired (BND-34)."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from sharemesh import methods
from sharemesh.codec.plain_batch import opened_batch
from sharemesh.codec.record_set import COMPRESSION, build_batch
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.share_leader.requests.fetch_response import FetchResponse
from sharemesh.share_leader.unpacking import OpenedBatches, Unpacking
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.test_answer_room import Room, with_room
from tests.share_leader.test_consume import state
from tests.share_leader.world import FOO, TopicPartition, acquired, parts, until, world

P0, P1, P2 = (TopicPartition(FOO, n) for n in range(3))
DECODED = {"record_format": pb.RECORD_FORMAT_DECODED}
MIB = 1 << 20
MALLORY, ALICE, BOB = "User:mallory", "User:alice", "User:bob"


def zeros(count, size, codec="zstd"):
    records = [(None, bytes(size), ())] * count
    return bytes(build_batch(records, timestamp_ms=5, compression=COMPRESSION[codec]))


@asynccontextmanager
async def holding(*batches, partitions=(P0,), **settings):
    """Yield a world whose partitions hold these batches each."""
    async with world(**settings) as w:
        for partition in partitions:
            await w.lead(partition)
            for each in batches:
                part = rl.ProducePartition(
                    topic_id=FOO, partition=partition.partition, records=each
                )
                request = rl.ProduceRequest(partitions=[part])
                answer = await w.caller().call(methods.PRODUCE, request, to=w.address)
                assert answer.partitions[0].error_code == 0
        yield w


async def member(w, *partitions, name="m1", group="g", principal="User:ANONYMOUS", room=None):
    """Return a client whose session holds these partitions."""
    client = w.client(name, group, principal)
    if room is not None:
        with_room(client.caller, room)
    await client.join(*partitions)
    return client


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
async def test_bnd_34_of_a_bomb_whole_records_come_and_the_rest_is_told_in_words(codec):
    async with holding(zeros(5, 5 * MIB, codec)) as w:
        m1 = await member(w, P0)
        answer = await m1.fetch(**DECODED)
        entry = parts(answer)[P0]
        assert [each.offset for each in entry.decoded_records] == [0, 1, 2]
        assert [(each.first_offset, each.last_offset) for each in entry.undecodable] == [(3, 4)]
        assert entry.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert "opaque" in entry.error_message
        assert acquired(answer, P0) == [(0, 4, 1)]


async def test_bnd_34_no_more_is_acquired_than_the_answer_unpacks():
    batch = zeros(4, 100_000)
    async with holding(*[batch] * 5) as w:
        m1, got = await member(w, P0), []
        for expected in (2, 2, 1):
            answer = await m1.fetch(**DECODED)
            entry = parts(answer)[P0]
            assert entry.error_code == 0
            assert sum(len(each.value) for each in entry.decoded_records) <= MIB
            got += [each.offset for each in entry.decoded_records]
            assert len(entry.decoded_records) == 4 * expected
            assert {each.delivery_count for each in entry.decoded_records} == {1}
        assert got == list(range(20))


async def test_bnd_34_a_batch_of_very_many_records_comes_in_parts():
    records = build_batch([(None, b"", ())] * 1_250, timestamp_ms=5)
    async with holding(bytes(records), max_decoded_records=500) as w:
        m1, got = await member(w, P0), []
        for count in (500, 500, 250):
            fields = {"max_records": 1_000_000, "share_acquire_mode": 1, **DECODED}
            entry = parts(await m1.fetch(**fields))[P0]
            assert (entry.error_code, len(entry.decoded_records)) == (0, count)
            got += [each.offset for each in entry.decoded_records]
        assert got == list(range(1_250))


class HeldThreads:
    """Unpacks when the test says so, on the loop."""

    def __init__(self, monkeypatch):
        self.open = asyncio.Event()
        self.running = []
        monkeypatch.setattr(Unpacking, "opened", self.opened)

    async def opened(self, batch, bytes_max):
        self.running.append(bytes_max)
        await self.open.wait()
        return opened_batch(batch, bytes_max)


async def test_bnd_34_two_answers_unpack_at_once_and_one_of_a_principal(monkeypatch):
    async with holding(zeros(1, MIB // 2), partitions=(P0, P1, P2)) as w:
        clients = [
            await member(w, partition, name=f"m{number}", principal=whose)
            for number, (partition, whose) in enumerate([(P0, MALLORY), (P1, MALLORY), (P2, ALICE)])
        ]
        threads = HeldThreads(monkeypatch)
        first, second, third = (asyncio.create_task(each.fetch(**DECODED)) for each in clients)
        await until(lambda: len(threads.running) == 2)
        await w.clock.settle()
        assert len(threads.running) == 2
        held = [w.runner(each).machine.in_flight_count for each in (P0, P1, P2)]
        assert held == [0, 0, 0], "nothing is acquired before it is unpacked"
        threads.open.set()
        for answer, partition in ((first, P0), (second, P1), (third, P2)):
            assert acquired(await answer, partition) == [(0, 0, 1)]


async def test_bnd_34_without_a_place_in_time_nothing_is_acquired(monkeypatch):
    async with holding(zeros(1, MIB // 2), partitions=(P0, P1), max_throttle_hold_ms=20) as w:
        m1 = await member(w, P0, principal=MALLORY)
        m2 = await member(w, P1, name="m2", principal=MALLORY)
        threads = HeldThreads(monkeypatch)
        first = asyncio.create_task(m1.fetch(**DECODED))
        await until(lambda: threads.running)
        second = asyncio.create_task(m2.fetch(**DECODED))
        while not second.done():
            await asyncio.sleep(0.005)
            await w.clock.advance(50)
        assert acquired(await second, P1) == []
        threads.open.set()
        assert acquired(await first, P0) == [(0, 0, 1)]
        assert acquired(await m2.fetch(**DECODED), P1) == [(0, 0, 1)]


@pytest.mark.parametrize(("size", "expected"), [(4 * MIB, []), (10 * MIB, [(0, 0, 1)])])
async def test_bnd_34_a_large_batch_comes_once_there_is_room_for_what_it_unpacks(size, expected):
    async with holding(zeros(1, 8 * MIB)) as w:
        room = Room(size)
        m1 = await member(w, P0, room=room)
        fetch = asyncio.create_task(m1.fetch(**DECODED))
        await w.clock.settle()
        while not fetch.done():
            await w.clock.advance(50)
        answer = await fetch
        assert acquired(answer, P0) == expected
        taken = opened_batch(zeros(1, 8 * MIB)).records_bytes if expected else 0
        assert room.size == size - taken


async def test_bnd_34_a_stream_acquires_a_large_batch_only_with_room_for_what_waits():
    bounds = {"max_unsent_bytes": 8 * MIB, "max_principal_unsent_bytes": 4 * MIB}
    async with holding(zeros(1, 1_000), zeros(1, 5 * MIB), **bounds) as w:
        stream = await w.client().consume(P0, **DECODED)
        assert acquired(await anext(stream), P0) == [(0, 0, 1)]
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(stream)
        assert state(w, P0, 1) in (None, (DeliveryState.AVAILABLE, 0))
        assert w.service.unsent.total <= 4 * MIB
    async with holding(zeros(1, 3 * MIB), **bounds) as w:
        stream = await w.client().consume(P0, **DECODED)
        assert acquired(await anext(stream), P0) == [(0, 0, 1)]
        await stream.close()
        await until(lambda: w.service.unsent.total == 0)


async def turns_of(work):
    """Return how many turns of the loop others had."""
    task, count = asyncio.create_task(work), 0
    while not task.done():
        count += 1
        await asyncio.sleep(0)
    return count, await task


async def test_bnd_34_decoding_goes_on_in_slices_while_others_have_their_turns():
    async with holding(zeros(5_000, 10, "none")) as w:
        m1 = await member(w, P0)
        fields = {"max_records": 100_000, **DECODED}
        many, answer = await turns_of(m1.fetch(**fields))
        assert len(parts(answer)[P0].decoded_records) == 5_000
        few, _ = await turns_of(m1.fetch(max_wait_ms=0, **fields))
        assert many - few >= 10


async def test_aut_4_a_right_that_goes_while_records_are_decoded_withholds_them(monkeypatch):
    real = OpenedBatches.of
    async with holding(zeros(3, 10)) as w:

        def of(self, partition):
            w.rules.denied.add(("read", "topic", "foo"))
            return real(self, partition)

        monkeypatch.setattr(OpenedBatches, "of", of)
        stream = await w.client().consume(P0, **DECODED)
        entry = parts(await anext(stream))[P0]
        assert entry.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not entry.decoded_records
        await until(lambda: state(w, P0, 0) == (DeliveryState.AVAILABLE, 0))


async def test_hnd_4_a_drain_sees_a_fetch_until_its_records_are_decoded(monkeypatch):
    decoding, go_on = asyncio.Event(), asyncio.Event()
    real = FetchResponse.add_taken

    async def held(response, taken, opened):
        decoding.set()
        await go_on.wait()
        await real(response, taken, opened)

    monkeypatch.setattr(FetchResponse, "add_taken", held)
    async with holding(zeros(5, 100)) as w:
        m1 = await member(w, P0)
        fetching = asyncio.ensure_future(m1.fetch(**DECODED))
        await asyncio.wait_for(decoding.wait(), 20)
        (runner,) = w.service.partitions.get(P0).shares.values()
        assert runner.is_fetched
        go_on.set()
        assert len(parts(await fetching)[P0].decoded_records) == 5
        assert not runner.is_fetched
