"""Scenarios of sections B, E and H that a running leader or the persister decides."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode, seen_by_client
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.share_partition import machine
from sharemesh.domain.share_partition.effects import Answered, Initialized, WriteState
from sharemesh.domain.share_partition.events import (
    Acquire,
    Fence,
    Initialize,
    LogStartMoved,
    StateRead,
    StateWritten,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene
from tests.conformance.world import KAFKAS
from tests.persister.test_persister import KEY, meshed, write
from tests.share_coordinator.world import T1, T2
from tests.share_leader.world import FOO, ack, acquired, parts, until, world

MALFORMED = {  # what came back when partition 0 of topic T1 was asked for, as (topic, partitions)
    "an empty answer": [],
    "no partitions": [(T1, [])],
    "another topic": [(T2, [0])],
    "another partition": [(T1, [1])],
    "two partitions": [(T1, [0, 1])],
    "two topics": [(T1, [0]), (T2, [0])],
}
TP0, TP1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
ACCEPT, RENEW = 1, 4


async def holder(w, *partitions):
    """A member of a group that begins at the earliest offset, with an open session."""
    await w.configure("g", auto_offset_reset="earliest")
    for partition in partitions:
        await w.lead(partition)
    client = w.client()
    await client.join(*partitions)
    return client


@scenario("REN-S08")
@pytest.mark.parametrize("field", ["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
async def test_a_renewing_fetch_asks_for_nothing(field):
    async with world() as w:
        m1 = await holder(w, TP0)
        await w.produce(TP0, 5)
        response = await m1.fetch(is_renew_ack=True, version=2, **{field: 1})
        assert response.error_code == 42


@scenario("REN-S09")
async def test_renewal_needs_version_2_and_the_flag():
    """REQ-22."""
    async with world() as w:
        m1 = await holder(w, TP0)
        await w.produce(TP0, 5)
        assert acquired(await m1.fetch(), TP0) == [(0, 4, 1)]
        for version, flag, error in ((1, True, 42), (1, False, 42), (2, True, 0), (2, False, 42)):
            response = await m1.acknowledge(
                ack(TP0, 0, 4, RENEW), version=version, is_renew_ack=flag
            )
            entry = parts(response).get(TP0)
            seen = response.error_code or (entry.error_code if entry is not None else 0)
            assert seen == error, (version, flag)


@scenario("REN-S10")
async def test_a_renewing_fetch_renews_and_fetches_nothing():
    async with world() as w:
        m1 = await holder(w, TP0)
        await w.produce(TP0, 5, 5)
        assert acquired(await m1.fetch(max_records=1), TP0) == [(0, 4, 1)]
        response = await m1.fetch(acks=[ack(TP0, 0, 4, RENEW)], is_renew_ack=True, version=2)
        assert response.error_code == 0
        entry = parts(response)[TP0]
        assert (entry.error_code, entry.acknowledge_error_code) == (0, 0)
        assert acquired(response, TP0) == []
        assert entry.records == b""
        # the fetch was not attempted: the second log batch is still to be acquired
        assert w.runner(TP0).machine.next_fetch_offset() == 5


@scenario("ACQ-S40")
async def test_partitions_of_one_fetch_share_the_record_budget(monkeypatch):
    budgets = []
    real = SharePartition.step

    def watched(partition, event, *, now_ms):
        if isinstance(event, Acquire):
            budgets.append((partition.key.partition, event.max_fetch_records))
        return real(partition, event, now_ms=now_ms)

    async with world() as w:
        m1 = await holder(w, TP0, TP1)
        assert m1.epoch == 1  # so the second partition comes first (ROT-1)
        await w.produce(TP1, 2)
        await w.produce(TP0, 4, 4, 4)
        monkeypatch.setattr(SharePartition, "step", watched)
        response = await m1.fetch(max_records=10)
        assert acquired(response, TP1) == [(0, 1, 1)]
        assert budgets == [(1, 10), (0, 8)]


@scenario("PER-S19")
@pytest.mark.parametrize("error", [14, 15, 16])
@pytest.mark.parametrize("failures", [5, 2])
async def test_the_persister_tries_five_times(error, failures, monkeypatch):
    async with meshed(backoff_jitter=0.0, probe_ms=100_000) as (w, network, persister):
        await w.register("n1", leads=(0,))
        answers, look_ups = [], []
        find = w.view.share_coordinator
        monkeypatch.setattr(
            w.view, "share_coordinator", lambda shard: look_ups.append(shard) or find(shard)
        )

        async def answer(request, context):
            answers.append(error if len(answers) < failures else 0)
            topic = request.topics[0]
            each = pb.PartitionStateError(
                partition=topic.partitions[0].partition, error_code=answers[-1]
            )
            return pb.WriteShareGroupStateResponse(
                results=[pb.TopicStateErrors(topic_id=topic.topic_id, partitions=[each])]
            )

        network.listener("n1:1").offer(methods.WRITE_SHARE_GROUP_STATE, answer)
        waiting = asyncio.ensure_future(persister.write_state(KEY, write()))
        for _ in range(16):
            await w.clock.advance(1_000)
        result = await waiting
        if failures == 5:
            assert (len(answers), int(result.error)) == (5, error)
            assert int(seen_by_client(result.error)) == 15
        else:
            assert (len(answers), int(result.error)) == (3, 0)
        if error == 16:
            assert len(look_ups) >= len(answers)  # looked up again for each attempt


@scenario("INI-S16")
async def test_failed_initializations_are_errors_of_the_partition(monkeypatch):
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest")
        await w.lead(TP0)
        counters = w.service.counters
        # another initialization is under way: internally LEADER_NOT_AVAILABLE, not for the client
        w.keeper.open.clear()
        m1 = w.client()
        waiting = asyncio.ensure_future(m1.fetch(TP0, max_wait_ms=50))
        await until(lambda: w.keeper.reads)
        for _ in range(200):
            if waiting.done():
                break
            await w.clock.advance(10)
        response = await waiting
        assert response.error_code == 0
        assert all(entry.error_code == 0 for entry in parts(response).values())
        first = w.runner(TP0)
        assert first.machine.state == "INITIALIZING"
        seen = []
        w.keeper.read_error = ErrorCode.UNKNOWN_SERVER_ERROR
        for error in (-1, 15, 42, 124, 6, -1):
            monkeypatch.setattr(machine, "seen_by_client", lambda _, e=error: ErrorCode(e))
            failing = w.runner(TP0)
            w.keeper.open.set()
            response = await m1.fetch(TP0, max_wait_ms=2_000)
            seen.append(parts(response)[TP0].error_code)
            assert w.runner(TP0) is None
            if failing is not None:
                assert failing.machine.state == "FENCED"
        assert seen == [-1, 15, 42, 124, 6, -1]
        assert sum(counters.failed_fetch_requests.values()) == 6
        assert sum(counters.fetch_requests.values()) == 7


@scenario("INI-S12")
@pytest.mark.parametrize("shape", MALFORMED)
async def test_a_malformed_answer_to_the_read_fails_the_partition(shape):
    async with meshed() as (w, network, persister):
        await w.register("n1", leads=(0,))

        async def confused(request, context):
            results = [
                pb.ReadStateResult(
                    topic_id=topic, partitions=[pb.PartitionData(partition=p) for p in partitions]
                )
                for topic, partitions in MALFORMED[shape]
            ]
            return pb.ReadShareGroupStateResponse(results=results)

        network.listener("n1:1").offer(methods.READ_SHARE_GROUP_STATE, confused)
        result = await persister.read_state(KEY, 0)
        partition = SharePartition(KEY, 0, KAFKAS)
        partition.step(Initialize(), now_ms=0)
        read = StateRead(
            result.error, result.state_epoch, result.start_offset, result.batches, result.message
        )
        effects = partition.step(read, now_ms=0)
        (outcome,) = (each for each in effects if isinstance(each, Initialized))
        assert partition.state == "FAILED"
        assert int(outcome.error) == -1


@scenario("PER-S01")
@pytest.mark.parametrize("shape", MALFORMED)
async def test_a_malformed_answer_to_the_write_is_an_unknown_error(shape):
    async with meshed() as (w, network, persister):
        await w.register("n1", leads=(0,))

        async def confused(request, context):
            results = [
                pb.TopicStateErrors(
                    topic_id=topic,
                    partitions=[pb.PartitionStateError(partition=p) for p in partitions],
                )
                for topic, partitions in MALFORMED[shape]
            ]
            return pb.WriteShareGroupStateResponse(results=results)

        network.listener("n1:1").offer(methods.WRITE_SHARE_GROUP_STATE, confused)
        result = await persister.write_state(KEY, write())
        scene = Scene().acquired("5-14")
        scene.hold()
        assert scene.ack("5-14 ACCEPT") == "PENDING"
        ((held, _),) = scene.world.persister.held
        assert isinstance(held, WriteState)
        effects = scene.machine.step(StateWritten(held.write_id, result.error), now_ms=0)
        (answer,) = (each for each in effects if isinstance(each, Answered))
        assert int(answer.error) == -1
        assert scene.states(5, 14) == "5-14 ACQ(1,m1)"


@scenario("INI-S15")
async def test_a_fetch_of_a_fenced_partition_waits_and_ends_empty():
    async with world() as w:
        m1 = await holder(w, TP0)
        await w.produce(TP0, 5)
        fenced = w.runner(TP0)
        w.keeper.open.clear()  # so that nothing can be initialized again before the wait ends
        fenced.step(Fence())
        assert fenced.machine.state == "FENCED"
        (outcome,) = fenced.machine.step(Initialize(), now_ms=w.clock.now_ms())
        assert outcome.error is ErrorCode.LEADER_NOT_AVAILABLE
        fenced.step(Initialize())
        assert fenced.error is not ErrorCode.LEADER_NOT_AVAILABLE
        began_ms = w.clock.now_ms()
        waiting = asyncio.ensure_future(m1.fetch(max_wait_ms=50))
        await until(lambda: w.runner(TP0) not in (None, fenced))
        for _ in range(20):
            if waiting.done():
                break
            await w.clock.advance(10)
        response = await waiting
        assert w.clock.now_ms() - began_ms >= 50
        assert response.error_code == 0
        assert all(entry.error_code == 0 for entry in parts(response).values())
        assert acquired(response, TP0) == []
        w.keeper.open.set()
        assert acquired(await m1.fetch(max_wait_ms=2_000), TP0) == [(0, 4, 1)]


@scenario("ACK-S26")
async def test_a_forgotten_partition_may_still_be_acknowledged():
    async with world() as w:
        m1 = await holder(w, TP0, TP1)
        await w.produce(TP1, 10)
        assert acquired(await m1.fetch(), TP1) == [(0, 9, 1)]
        assert (await m1.fetch(forget=[TP1])).error_code == 0
        response = await m1.acknowledge(ack(TP1, 5, 9, ACCEPT))
        assert parts(response)[TP1].error_code == 0
        response = await m1.acknowledge(ack(TP1, 0, 5, ACCEPT))
        assert response.error_code == 0
        assert parts(response)[TP1].error_code == 121
        held = w.runner(TP1).machine.record_states(0, 4)
        assert [(v.state.name, v.member_id, v.in_transition) for v in held] == [
            ("ACQUIRED", "m1", False)
        ]


@scenario("LSO-S21")
@pytest.mark.parametrize("grpc", [False, True])
async def test_a_read_before_the_log_start_is_no_error_and_moves_the_cache_once(grpc, monkeypatch):
    moves = []
    real = SharePartition.step

    def watched(partition, event, *, now_ms):
        if isinstance(event, LogStartMoved):
            before = partition.start_offset
            effects = real(partition, event, now_ms=now_ms)
            moves.append((event.log_start_offset, before, partition.start_offset))
            return effects
        return real(partition, event, now_ms=now_ms)

    monkeypatch.setattr(SharePartition, "step", watched)
    async with world(grpc=grpc) as w:
        m1 = await holder(w, TP0)
        await w.produce(TP0, 1, 4)
        runner = w.runner(TP0)

        async def deleted_meanwhile(offset, **_):
            monkeypatch.setattr(runner.log, "read", read)
            await runner.log.delete_records(1)
            return await read(offset, max_bytes=1 << 20, end_offset=runner.end_offset)

        read = runner.log.read
        monkeypatch.setattr(runner.log, "read", deleted_meanwhile)
        response = await m1.fetch()
        assert response.error_code == 0
        entry = parts(response).get(TP0)
        assert entry is None or (entry.error_code, entry.records) == (0, b"")
        assert acquired(response, TP0) == []
        assert [move for move in moves if move[1] != move[2]] == [(1, 0, 1)]
        assert acquired(await m1.fetch(), TP0) == [(1, 4, 1)]
        assert [move for move in moves if move[1] != move[2]] == [(1, 0, 1)]
