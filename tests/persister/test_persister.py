"""The persister against real share coordinators (spec PER)."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from sharemesh import methods
from sharemesh.domain import packed_batches
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.handed_lock import HANDED_BYTES_MAX, HandedLock
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey
from sharemesh.domain.share_state.records import StateUpdate
from sharemesh.domain.state_batch import StateBatch
from sharemesh.persister import rpcs
from sharemesh.persister.persister import Persister
from sharemesh.persister.request_batcher import PersisterSettings, RequestBatcher
from sharemesh.persister.rpcs import READ, PartitionRead
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.ports.share_state import StateWrite
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.share_coordinator.world import T1, T2, world

KEY = SharePartitionKey(GroupId("g1"), T1, 0)
DONE = StateBatch(0, 4, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT)


def write(start=0, batches=(DONE,), leader_epoch=0, state_epoch=0):
    return StateWrite(
        state_epoch, leader_epoch, start, 0, tuple(batches), Cause.ACCEPT, MemberId("m1"),
        b"t" * 16, b"s" * 8,
    )  # fmt: skip


@asynccontextmanager
async def meshed(*, state_shards=1, **settings):
    async with world(state_shards=state_shards, topics=(T1, T2)) as w:
        network = LocalNetwork()
        persister = Persister(
            network.caller(), w.view, w.clock, random.Random(3), PersisterSettings(**settings)
        )
        try:
            yield w, network, persister
        finally:
            await persister.close()


@asynccontextmanager
async def offered(w, network, node, shards=(0,), **settings):
    async with w.coordinator(shards=shards, **settings) as service:
        listener = network.listener(f"{node}:1")
        service.offer(listener)
        await w.register(node, leads=shards)
        yield service


async def test_state_goes_there_and_back_with_who_and_why():
    """INI-2."""
    async with meshed() as (w, network, persister):
        async with offered(w, network, "n1"):
            assert (await persister.initialize_state(KEY, 0, 0)).error is ErrorCode.NONE
            assert (await persister.read_state(KEY, 0)).batches == ()
            assert (await persister.write_state(KEY, write())).error is ErrorCode.NONE
            state = await persister.read_state(KEY, 0)
            assert (state.start_offset, state.batches) == (0, (DONE,))
            assert (await persister.read_summary(KEY)).start_offset == 0
            assert (await persister.delete_state(KEY)).error is ErrorCode.NONE
            gone = await persister.read_summary(KEY)
            assert (gone.error, gone.start_offset) == (ErrorCode.NONE, -1)
            refused = await persister.read_state(KEY, 0)
            assert refused.error is ErrorCode.INVALID_REQUEST
        [update] = [r for _, r in await w.log() if isinstance(r, StateUpdate)]
        assert update.origin.cause is Cause.ACCEPT
        assert update.origin.member_id == "m1"
        assert (update.origin.trace_id, update.origin.span_id) == (b"t" * 16, b"s" * 8)
        assert update.batches[0].cause is Cause.ACCEPT
        assert update.write_timestamp_ms == w.clock.wall_ms()


async def test_what_waits_while_a_call_is_in_flight_goes_into_the_next():
    """PER-7."""
    async with (
        meshed(state_shards=2) as (w, network, persister),
        offered(w, network, "n1", shards=(0, 1)) as service,
    ):
        sizes = []

        async def counted(request, context):
            sizes.append(sum(len(topic.partitions) for topic in request.topics))
            return await service.initialize(request, context)

        network.listener("n1:1").offer(methods.INITIALIZE_SHARE_GROUP_STATE, counted)
        keys = [
            SharePartitionKey(group, topic, partition)
            for group in (GroupId("g1"), GroupId("g2"))
            for topic in (T1, T2)
            for partition in range(4)
        ]
        first = [asyncio.ensure_future(persister.initialize_state(k, 0, 0)) for k in keys]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        more = [asyncio.ensure_future(persister.initialize_state(k, 1, 0)) for k in keys * 2]
        results = await asyncio.gather(*first, *more)
        assert {r.error for r in results} == {ErrorCode.NONE}
        assert sizes == [8, 8, 16, 16]


async def test_a_group_that_writes_much_takes_turns_with_others():
    """FAI-7: no request holds a share coordinator for long, and a small one is soon between."""
    async with meshed() as (w, network, persister), offered(w, network, "n1") as service:
        requests = []

        async def noted(request, context):
            batches = sum(len(p.state_batches) for t in request.topics for p in t.partitions)
            requests.append((request.group_id, batches))
            return await service.write(request, context)

        network.listener("n1:1").offer(methods.WRITE_SHARE_GROUP_STATE, noted)
        heavy = [SharePartitionKey(GroupId("heavy"), T1, partition) for partition in range(4)]
        for key in (*heavy, KEY):
            await persister.initialize_state(key, 0, 0)
        many = [StateBatch(2 * n, 2 * n, DONE.delivery_state, 1, Cause.ACCEPT) for n in range(1500)]
        writes = [persister.write_state(key, write(batches=many)) for key in heavy]
        results = await asyncio.gather(*writes, persister.write_state(KEY, write()))
        assert {result.error for result in results} == {ErrorCode.NONE}
        assert sorted(requests) == [("g1", 1), *[("heavy", 1500)] * 4]
        assert requests.index(("g1", 1)) <= 1


async def test_each_of_several_writes_of_one_share_partition_gets_its_own_answer():
    async with meshed() as (w, network, persister), offered(w, network, "n1"):
        await persister.initialize_state(KEY, 3, 0)
        results = await asyncio.gather(
            persister.write_state(KEY, write(state_epoch=3)),
            persister.write_state(KEY, write(state_epoch=2)),
            persister.write_state(KEY, write(state_epoch=3, start=2)),
        )
        assert [r.error.name for r in results] == ["NONE", "FENCED_STATE_EPOCH", "NONE"]
        assert results[1].known_state_epoch == 3
        assert (await persister.read_state(KEY, 0)).start_offset == 2


async def test_a_new_coordinator_is_asked_at_once():
    async with meshed() as (w, network, persister):
        async with offered(w, network, "n1"):
            await persister.initialize_state(KEY, 0, 0)
        waiting = asyncio.ensure_future(persister.write_state(KEY, write()))
        await w.clock.settle()
        assert not waiting.done()
        before = w.clock.now_ms()
        async with offered(w, network, "n2"):
            await w.clock.settle()
            assert (await waiting).error is ErrorCode.NONE
            assert w.clock.now_ms() == before


async def test_a_loading_coordinator_is_asked_again_soon():
    async with meshed() as (w, network, persister), offered(w, network, "n1") as service:
        await service.shards.stop_shard(0)
        waiting = asyncio.ensure_future(persister.initialize_state(KEY, 0, 0))
        await w.clock.advance(100)
        w.epoch += 1
        await service.shards.start_shard(0, w.epoch)
        assert not waiting.done()
        await w.clock.advance(51)
        assert (await waiting).error is ErrorCode.NONE


async def test_five_attempts_with_growing_waits_and_then_the_error_itself():
    async with meshed(backoff_jitter=0.0) as (w, network, persister):
        await w.register("n1", leads=(0,))
        calls = []

        async def broken(request, context):
            calls.append(w.clock.now_ms())
            raise CallFailedError(Failure.UNAVAILABLE, "down")

        network.listener("n1:1").offer(methods.WRITE_SHARE_GROUP_STATE, broken)
        waiting = asyncio.ensure_future(persister.write_state(KEY, write()))
        for _ in range(16):
            await w.clock.advance(1_000)
        assert (await waiting).error is ErrorCode.NETWORK_EXCEPTION
        assert [later - calls[0] for later in calls] == [0, 1_000, 3_000, 7_000, 15_000]


async def test_per_6_a_coordinator_whose_log_takes_no_writes_is_asked_again():
    async with meshed(backoff_jitter=0.0) as (w, network, persister):
        await w.register("n1", leads=(0,))
        calls = []

        async def stuck(request, context):
            calls.append(w.clock.now_ms())
            topic = request.topics[0]
            each = pb.PartitionStateError(
                partition=topic.partitions[0].partition,
                error_code=ErrorCode.KAFKA_STORAGE_ERROR if len(calls) < 4 else 0,
            )
            return pb.WriteShareGroupStateResponse(
                results=[pb.TopicStateErrors(topic_id=topic.topic_id, partitions=[each])]
            )

        network.listener("n1:1").offer(methods.WRITE_SHARE_GROUP_STATE, stuck)
        waiting = asyncio.ensure_future(persister.write_state(KEY, write()))
        for _ in range(8):
            await w.clock.advance(1_000)
        assert (await waiting).error is ErrorCode.NONE
        assert [later - calls[0] for later in calls] == [0, 1_000, 3_000, 7_000]


@pytest.mark.parametrize("error", [42, 74, 124, -1, 12345])
async def test_other_errors_are_not_retried(error):
    async with meshed() as (w, network, persister):
        await w.register("n1", leads=(0,))
        calls = []

        async def refusing(request, context):
            calls.append(request)
            topic = request.topics[0]
            each = pb.PartitionStateError(partition=topic.partitions[0].partition, error_code=error)
            return pb.WriteShareGroupStateResponse(
                results=[pb.TopicStateErrors(topic_id=topic.topic_id, partitions=[each])]
            )

        network.listener("n1:1").offer(methods.WRITE_SHARE_GROUP_STATE, refusing)
        result = await persister.write_state(KEY, write())
        assert result.error == (-1 if error == 12345 else error)
        assert len(calls) == 1


@pytest.mark.parametrize(
    "results",
    [
        [],
        [pb.TopicStateErrors(topic_id=T1)],
        [pb.TopicStateErrors(topic_id=T2, partitions=[pb.PartitionStateError()])],
        [pb.TopicStateErrors(topic_id=T1, partitions=[pb.PartitionStateError(partition=1)])],
    ],
)
async def test_an_answer_for_something_else_is_a_server_error(results):
    async with meshed() as (w, network, persister):
        await w.register("n1", leads=(0,))

        async def confused(request, context):
            return pb.WriteShareGroupStateResponse(results=results)

        network.listener("n1:1").offer(methods.WRITE_SHARE_GROUP_STATE, confused)
        result = await persister.write_state(KEY, write())
        assert result.error is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_closing_answers_what_is_under_way():
    async with meshed() as (w, network, persister):
        await w.register("n1", leads=(0,))

        async def silent(request, context):
            await asyncio.Event().wait()

        network.listener("n1:1").offer(methods.READ_SHARE_GROUP_STATE, silent)
        waiting = asyncio.ensure_future(persister.read_state(KEY, 0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await persister.close()
        assert (await waiting).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await persister.read_state(KEY, 0)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_topic_that_is_gone_here_too_is_not_asked_for_again():
    async with meshed() as (w, network, persister):
        gone = SharePartitionKey(GroupId("g1"), bytes(15) + b"!", 0)
        beyond = SharePartitionKey(GroupId("g1"), T1, 4_000)
        async with offered(w, network, "n1"):
            for key in (gone, beyond):
                began_ms = w.clock.now_ms()
                answer = await persister.delete_state(key)
                assert answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert w.clock.now_ms() - began_ms < 1_000, "Kafka's back-offs add up to 15 s"


async def test_what_waits_for_a_lane_is_answered_when_the_persister_stops_before_it_begins():
    lanes = RequestBatcher(LocalNetwork().caller(), PersisterSettings())
    asked = asyncio.ensure_future(lanes.ask(READ, "n1:1", KEY, PartitionRead(0, 0)))
    await asyncio.sleep(0)  # the lane's task is there, and has not begun
    await lanes.close()
    assert (await asked).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_an_error_that_nobody_thought_of_is_an_answer_and_the_next_one_is_asked(caplog):
    class Broken:
        calls = 0

        async def call(self, *_, **__):
            self.calls += 1
            raise ZeroDivisionError

    caller = Broken()
    lanes = RequestBatcher(caller, PersisterSettings())
    for _ in range(2):
        answer = await lanes.ask(READ, "n1:1", KEY, PartitionRead(0, 0))
        assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert "ZeroDivisionError" in answer.message
    assert caller.calls == 2
    assert "asking n1:1 failed" in caplog.text
    await lanes.close()


def handed(count, name="User:alice"):
    """Return a write that hands over so many locks of leader epoch 1."""
    big = 1 << 62
    locks = tuple(
        HandedLock(MemberId("m" * 36), big + n, big + n, 5, 30_000, 1, 1 << 42, 1_000, name)
        for n in range(count)
    )
    return StateWrite(0, 1, 0, 0, (), Cause.LEADER_CHANGE, MemberId(""), b"", b"", locks, True)


async def test_locks_go_to_the_coordinator_and_from_there_to_the_next_reader_alone_hnd_5_hnd_7():
    async with meshed() as (w, network, persister), offered(w, network, "n1"):
        await persister.initialize_state(KEY, 0, 0)
        await persister.read_state(KEY, 1)
        sent = handed(3)
        assert (await persister.write_state(KEY, sent)).keeps_hand_over
        assert not (await persister.write_state(KEY, write(leader_epoch=1))).keeps_hand_over
        await w.clock.advance(10_000)
        for _ in range(2):  # its first answer may be lost
            got = (await persister.read_state(KEY, 2)).handed_over
            assert [each._replace(remaining_ms=30_000) for each in got] == list(sent.hand_over)
            assert {each.remaining_ms for each in got} == {20_000}
        assert (await persister.read_state(KEY, 3)).handed_over == ()
        late = await persister.write_state(KEY, sent)
        assert (late.error, late.keeps_hand_over) == (ErrorCode.FENCED_LEADER_EPOCH, False)
        assert (await persister.read_state(KEY, 3)).handed_over == ()


async def test_the_largest_hand_over_fits_into_a_request_and_goes_alone_hnd_8():
    """Two that would not fit into one message go one after the other."""
    keys = [SharePartitionKey(GroupId("g1"), T1, number) for number in range(3)]
    async with meshed() as (w, network, persister), offered(w, network, "n1"):
        sizes = []
        for key in keys:
            await persister.initialize_state(key, 0, 0)
            await persister.read_state(key, 1)
        real = persister._lanes._caller.call

        async def call(method, request, **how):
            if method is methods.WRITE_SHARE_GROUP_STATE:
                sizes.append(request.ByteSize())
            return await real(method, request, **how)

        persister._lanes._caller.call = call
        size_bytes = handed(1, "User:" + "x" * 200).hand_over[0].size_bytes
        largest = handed(HANDED_BYTES_MAX // size_bytes, "User:" + "x" * 200)
        answers = await asyncio.gather(*(persister.write_state(key, largest) for key in keys))
        assert [(each.error, each.keeps_hand_over) for each in answers] == [(0, True)] * 3
        assert len(sizes) == 3
        assert max(sizes) < HANDED_BYTES_MAX < methods.WRITE_SHARE_GROUP_STATE.request_bytes_max


def singles(first, count):
    """Return so many batches that do not merge."""
    return tuple(
        StateBatch(first + 2 * n, first + 2 * n, DeliveryState.ACKNOWLEDGED, 1)
        for n in range(count)
    )


async def test_win_15_a_large_state_is_read_in_parts(monkeypatch):
    """WIN-15."""
    monkeypatch.setattr(packed_batches, "PACKED_MIN", 10)
    async with (
        meshed() as (w, network, persister),
        offered(w, network, "n1", part_batches=7, large_batches=10),
    ):
        await persister.initialize_state(KEY, 0, 0)
        await persister.write_state(KEY, write(batches=singles(0, 40)))
        read = await persister.read_state(KEY, 1)
        assert (read.error, read.start_offset, read.next_offset) == (ErrorCode.NONE, 0, -1)
        assert read.batches == singles(0, 40)
        fenced = await persister.read_state(KEY, 0)
        assert fenced.error is ErrorCode.FENCED_LEADER_EPOCH


async def test_win_15_parts_of_two_states_are_read_again(monkeypatch):
    """WIN-15."""
    monkeypatch.setattr(packed_batches, "PACKED_MIN", 10)
    async with (
        meshed(attempts=3) as (w, network, persister),
        offered(w, network, "n1", part_batches=7, large_batches=10),
    ):
        await persister.initialize_state(KEY, 0, 0)
        await persister.write_state(KEY, write(batches=singles(0, 40)))
        asked, changes = persister._ask, [singles(90, 12), ()]

        async def ask(rpc, key, item):
            if rpc is READ and item[1] and changes:
                batches = changes.pop(0)
                start = 3 if batches else 60
                await asked(rpcs.WRITE, KEY, write(start, batches, leader_epoch=1))
            return await asked(rpc, key, item)

        monkeypatch.setattr(persister, "_ask", ask)
        read = await persister.read_state(KEY, 1)
        assert (read.start_offset, tuple(read.batches)) == (
            60,
            (*singles(60, 10), *singles(90, 12)),
        )
        changes[:] = [singles(300 + at, 12) for at in range(0, 90, 30)]

        async def moves(rpc, key, item):
            if rpc is READ and item[1]:
                start = 61 + len(changes)
                changes.append(None)
                await asked(rpcs.WRITE, KEY, write(start, singles(900, 30), leader_epoch=1))
            return await asked(rpc, key, item)

        monkeypatch.setattr(persister, "_ask", moves)
        never = await persister.read_state(KEY, 1)
        assert never.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_win_15_a_part_that_overlaps_the_one_before_is_read_again(monkeypatch):
    """WIN-15: a late write of the same leader closed the gap between two parts."""
    monkeypatch.setattr(packed_batches, "PACKED_MIN", 10)
    async with (
        meshed(attempts=3) as (w, network, persister),
        offered(w, network, "n1", part_batches=7, large_batches=10),
    ):
        await persister.initialize_state(KEY, 0, 0)
        await persister.write_state(KEY, write(batches=singles(0, 40)))
        asked, late = persister._ask, [singles(13, 1)]

        async def ask(rpc, key, item):
            if rpc is READ and item[1] and late:
                await asked(rpcs.WRITE, KEY, write(0, late.pop(), leader_epoch=1))
            return await asked(rpc, key, item)

        monkeypatch.setattr(persister, "_ask", ask)
        read = await persister.read_state(KEY, 1)
        joined = StateBatch(12, 14, DeliveryState.ACKNOWLEDGED, 1)
        assert read.error is ErrorCode.NONE
        assert tuple(read.batches) == (*singles(0, 6), joined, *singles(16, 32))
