"""Scenarios of sections B, E and H that a running leader or the persister decides."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.share_partition import machine
from sharemesh.domain.share_partition.events import Acquire
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.persister_errors import seen_by_client
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.conformance.scenario import scenario
from tests.persister.test_persister import KEY, meshed, write
from tests.share_leader.world import FOO, ack, acquired, parts, until, world

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
        assert w.shell(TP0).machine.next_fetch_offset() == 5


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
        first = w.shell(TP0)
        assert first.machine.state == "INITIALIZING"
        seen = []
        w.keeper.read_error = ErrorCode.UNKNOWN_SERVER_ERROR
        for error in (-1, 15, 42, 124, 6, -1):
            monkeypatch.setattr(machine, "seen_by_client", lambda _, e=error: ErrorCode(e))
            failing = w.shell(TP0)
            w.keeper.open.set()
            response = await m1.fetch(TP0, max_wait_ms=2_000)
            seen.append(parts(response)[TP0].error_code)
            assert w.shell(TP0) is None
            if failing is not None:
                assert failing.machine.state == "FENCED"
        assert seen == [-1, 15, 42, 124, 6, -1]
        assert sum(counters.failed_fetch_requests.values()) == 6
        assert sum(counters.fetch_requests.values()) == 7
