"""Section J: fetch lock and long poll, over real gRPC against a running leader."""

import asyncio
from contextlib import asynccontextmanager

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicPartition
from sharemesh.domain.record_batch import BatchHeader
from sharemesh.domain.share_partition.effects import AcquiredRun, RecordsAcquired, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    LogBatch,
    StateRead,
    StateWritten,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.record_log import ReadResult
from sharemesh.ports.shard_log import FencedError
from sharemesh.share_leader.partition.share_partition_runner import Phase
from sharemesh.share_leader.requests.acquisition import overlapping
from tests.conformance.scenario import scenario
from tests.conformance.world import KAFKAS
from tests.share_leader.world import BAR, FOO, ack, acquired, parts, until, world

TP = [TopicPartition(FOO, n) for n in range(8)]
TP0, TP1, TP2, TP3 = TP[:4]
LIMIT = 100
LONG_MS = 30_000


@asynccontextmanager
async def mesh(*partitions):
    """A leader of these partitions; at most 100 records may be in flight in each."""
    async with world(grpc=True) as w:
        await w.configure("g", auto_offset_reset="earliest", partition_max_record_locks=LIMIT)
        for partition in partitions:
            await w.lead(partition)
        yield w


async def exhaust(w, *partitions, member="m0"):
    """Let a member hold as much as may be in flight in these partitions; more records follow."""
    holder = w.client(member)
    await holder.join(*partitions)
    for partition in partitions:
        await w.produce(partition, LIMIT)
    await holder.fetch(max_records=LIMIT * len(partitions))
    for partition in partitions:
        await w.produce(partition, 10)
        assert not w.runner(partition).machine.can_acquire()
    return holder


def locks(w, *partitions):
    """Return which fetch locks are taken."""
    taken = []
    for partition in partitions:
        runner, me = w.runner(partition), object()
        if runner.phase is Phase.ACTIVE and runner.machine.can_acquire():
            if not runner.try_lock(me):
                taken.append(partition)
            runner.unlock(me, wake=False)
    return taken


async def wait_for_records(w, client, *partitions, **fields):
    """Start a long poll and return it once it waits at the leader."""
    waiting = asyncio.create_task(client.fetch(*partitions, max_wait_ms=LONG_MS, **fields))
    waiters = {p: len(w.runner(p)._waiters) if w.runner(p) else 0 for p in partitions}
    await until(
        lambda: any(w.runner(p) and len(w.runner(p)._waiters) > waiters[p] for p in waiters)
    )
    return waiting


async def still_waits(w, waiting):
    """Whatever was on its way is there after a round trip on the same server."""
    for _ in range(3):
        await w.client("nobody").fetch(epoch=-1)
    return not waiting.done()


def count_reads(w, partition):
    log, reads = w.service.partitions.get(partition).log, []
    real = log.read

    async def read(offset, **bounds):
        reads.append(bounds["max_bytes"])
        return await real(offset, **bounds)

    log.read = read
    return reads


@scenario("DF-S02")
async def test_a_fetch_waits_for_min_bytes_without_holding_locks():
    async with mesh(TP0, TP1) as w:
        await exhaust(w, TP1)
        m1, m2 = w.client("m1"), w.client("m2")
        await m1.join(TP0, TP1)
        _, last = await w.produce(TP0, 1)
        size = w.runner(TP0).available_bytes()
        waiting = await wait_for_records(w, m1, TP0, TP1, min_bytes=size + 1)
        assert await still_waits(w, waiting)
        assert locks(w, TP0, TP1) == []
        await m2.join(TP0)
        assert acquired(await m2.fetch(), TP0) == [(0, last, 1)]
        assert await still_waits(w, waiting)
        waiting.cancel()


@scenario("DF-S03")
async def test_min_bytes_1_completes_at_once_with_what_there_is():
    async with mesh(TP0, TP1) as w:
        await exhaust(w, TP1)
        m1 = w.client("m1")
        await m1.join(TP0, TP1)
        await w.produce(TP0, 3)
        response = await m1.fetch(min_bytes=1, max_wait_ms=LONG_MS)
        assert acquired(response, TP0) == [(0, 2, 1)]
        assert parts(response)[TP0].records
        assert acquired(response, TP1) == []
        assert TP1 not in parts(response)


@scenario("DF-S04")
async def test_at_the_deadline_nothing_acquirable_is_an_empty_answer_without_a_read():
    async with mesh(TP0, TP1) as w:
        await exhaust(w, TP0, TP1)
        m1 = w.client("m1")
        await m1.join(TP0, TP1)
        reads = [count_reads(w, TP0), count_reads(w, TP1)]
        waiting = asyncio.create_task(m1.fetch(max_wait_ms=500))
        await until(lambda: len(w.runner(TP0)._waiters) == 1)
        await w.clock.advance(500)
        response = await waiting
        assert (response.error_code, parts(response)) == (0, {})
        assert reads == [[], []]


def broken(error):
    def fail(*_, **__):
        raise error

    return fail


@scenario("DF-S06")
async def test_exceptions_concern_their_partition_only_and_leave_no_lock():
    """DF-10."""
    fencing = FencedError("told to fail")
    for place in ("estimate", "acquire", "completion"):
        for error in (ValueError("told to fail"), fencing):
            async with mesh(TP0, TP1) as w:
                m1 = w.client("m1")
                await m1.join(TP0, TP1)
                for partition in (TP0, TP1):
                    await w.produce(partition, 3)
                runner = w.runner(TP0)
                if place == "estimate":
                    runner.log.bytes_between = broken(error)
                elif place == "acquire":
                    runner.acquire = broken(error)
                else:
                    runner.log.read = broken(error)
                response = await m1.fetch(min_bytes=2, max_wait_ms=LONG_MS)
                assert response.error_code == 0
                expected = 6 if error is fencing else -1
                assert parts(response)[TP0].error_code == expected, (place, error)
                assert acquired(response, TP0) == []
                assert TP1 not in parts(response) or parts(response)[TP1].error_code == 0
                await until(lambda: locks(w, TP1) == [])
                if error is fencing:
                    assert runner.machine.state.name == "FENCED"
                    assert w.runner(TP0) is None
                else:
                    assert runner.phase is Phase.ACTIVE
                    assert runner.try_lock(place), "the fetch lock is free"


@scenario("DF-S07")
async def test_one_fetch_at_a_time_holds_the_fetch_lock():
    async with mesh(TP0) as w:
        w.keeper.open.clear()
        m1 = w.client("m1")
        await m1.fetch(TP0)
        runner = w.runner(TP0)
        assert runner.phase is Phase.INITIALIZING
        assert not runner.try_lock("A")
        w.keeper.open.set()
        await until(lambda: runner.phase is Phase.ACTIVE)
        assert runner.try_lock("A")
        assert not runner.try_lock("B")
        runner.unlock("A")
        assert runner.try_lock("B")


async def held_from_12(w, *partitions):
    """m1 holds 12-111, which is all that may be in flight; 112-121 follow."""
    m1 = w.client("m1")
    for partition in partitions:
        key = SharePartitionKey(GroupId("g"), partition.topic_id, partition.partition)
        w.keeper.initialize(key, start_offset=12)
    await m1.join(*partitions)
    for partition in partitions:
        await w.produce(partition, 12, 9, 3, 33, 55)
    await m1.fetch(max_records=100 * len(partitions))
    for partition in partitions:
        await w.produce(partition, 10)
        machine = w.runner(partition).machine
        assert (machine.start_offset, machine.end_offset, machine.can_acquire()) == (12, 111, False)
    return m1


@scenario("DF-S08")
async def test_an_acknowledgement_completes_a_waiting_fetch():
    async with mesh(TP1, TP2) as w:
        m1 = await held_from_12(w, TP1, TP2)
        m2 = w.client("m2")
        await m2.join(TP1, TP2)
        waiting = await wait_for_records(w, m2, TP1, TP2)
        reads = count_reads(w, TP2)
        await m1.acknowledge(ack(TP1, 12, 20, 1), ack(TP1, 24, 56, 1))
        response = await waiting
        assert acquired(response, TP1) == [(112, 121, 1)]
        assert acquired(response, TP2) == []
        assert reads == []
        assert w.service.counters.acknowledge_requests.total() == 1


@scenario("DF-S09")
async def test_an_acknowledgement_elsewhere_completes_nothing():
    async with mesh(TP1, TP2, TP3) as w:
        m1 = await held_from_12(w, TP1, TP2, TP3)
        m2 = w.client("m2")
        await m2.join(TP1, TP2)
        waiting = await wait_for_records(w, m2, TP1, TP2)
        await m1.acknowledge(ack(TP3, 12, 20, 1), ack(TP3, 24, 56, 1))
        assert await still_waits(w, waiting)
        waiting.cancel()


@scenario("DF-S10")
async def test_releasing_a_session_completes_fetches_of_its_partitions_only():
    async with mesh(TP1, TP2, TP3) as w:
        m0 = w.client("m0")
        await exhaust(w, TP2, member="m0")
        m1 = await exhaust(w, TP1, member="m1"), await exhaust(w, TP3, member="m3")
        m2 = w.client("m2")
        await m2.join(TP1, TP2)
        waiting = await wait_for_records(w, m2, TP1, TP2)
        holder_of_1, holder_of_3 = m1
        await holder_of_3.fetch(epoch=-1)
        await until(w.runner(TP3).machine.can_acquire)
        assert await still_waits(w, waiting)
        await holder_of_1.fetch(epoch=-1)
        response = await waiting
        assert acquired(response, TP1)[0] == (0, 99, 2)
        assert m0.epoch == 0


@scenario("DF-S11")
async def test_a_fetch_waits_for_initialization_but_not_beyond_max_wait():
    """INI-14."""
    async with mesh(TP0) as w:
        await w.produce(TP0, 3)
        w.keeper.open.clear()
        waiting = await wait_for_records(w, w.client("m1"), TP0)
        assert await still_waits(w, waiting)
        await w.clock.advance(LONG_MS)
        response = await waiting
        assert (response.error_code, acquired(response, TP0)) == (0, [])
        assert w.runner(TP0).machine.state.name == "INITIALIZING"
        waiting = asyncio.create_task(w.client("m2").fetch(TP0, max_wait_ms=LONG_MS))
        await until(lambda: len(w.runner(TP0)._waiters) == 1)
        before = w.clock.now_ms()
        w.keeper.open.set()
        assert acquired(await waiting, TP0) == [(0, 2, 1)]
        assert w.clock.now_ms() == before


@scenario("DF-S12")
async def test_bytes_are_divided_by_the_partitions_that_can_be_acquired():
    bar = [TopicPartition(BAR, n) for n in range(5)]
    for max_bytes, blocked, share in ((1_044_480, 0, 208_896), (1_048_576, 3, 524_288)):
        async with mesh(*bar) as w:
            if blocked:
                await exhaust(w, *bar[:blocked])
            m1 = w.client("m1")
            await m1.join(*bar)
            for partition in bar[blocked:]:
                await w.produce(partition, *[7_000] * 8)  # over 600 KB
                assert w.runner(partition).available_bytes() > share
            reads = {p: count_reads(w, p) for p in bar}
            response = await m1.fetch(max_bytes=max_bytes, max_records=1_000_000)
            assert {p for p in bar if acquired(response, p)} == set(bar[blocked:])
            assert [reads[p] for p in bar] == [[]] * blocked + [[share]] * (5 - blocked)


def log_batches(*bounds):
    """Return a read of log batches with these bounds; the bytes of each name it."""
    names = [b"<%d-%d>" % each for each in bounds]
    headers = tuple(
        BatchHeader(first, last, len(name), 0, last - first + 1, 0, 0)
        for (first, last), name in zip(bounds, names, strict=True)
    )
    return ReadResult(b"".join(names), headers)


def sliced(read, *bounds):
    ranges = tuple(AcquiredRun(first, last, 1) for first, last in bounds)
    return overlapping(read, RecordsAcquired(1, ranges, 1))


@scenario("DF-S14")
def test_a_single_log_batch_is_returned_whole():
    read = log_batches((5, 14))
    for bounds in ((5, 14), (2, 14), (5, 20), (5, 8), (8, 14), (8, 10)):
        assert sliced(read, bounds) == b"<5-14>"


@scenario("DF-S15")
def test_several_log_batches_are_cut_to_those_that_overlap():
    read = log_batches((0, 2), (3, 4), (7, 10))
    everything = b"<0-2><3-4><7-10>"
    for bounds, expected in (
        ([(0, 10)], everything),
        ([(0, 7)], everything),
        ([(0, 2)], b"<0-2>"),
        ([(3, 4)], b"<3-4>"),
        ([(7, 10)], b"<7-10>"),
        ([(1, 1)], b"<0-2>"),
        ([(4, 4)], b"<3-4>"),
        ([(8, 8)], b"<7-10>"),
        ([(4, 8)], b"<3-4><7-10>"),
        ([(0, 2), (3, 4)], b"<0-2><3-4>"),
        ([(8, 8), (9, 9)], b"<7-10>"),
        ([(1, 1), (9, 9)], everything),
    ):
        assert sliced(read, *bounds) == expected, bounds


def acquired_again(last, *steps):
    """One cached batch 0..last, never delivered; steps make offsets differ; then all is acquired.

    A step is (first, last, done): deliver that range once and release it, except what is done.
    """
    key = SharePartitionKey(GroupId("g"), FOO, 0)
    machine = SharePartition(key, 1, KAFKAS)
    machine.step(Initialize(), now_ms=0)
    never = StateBatch(0, last, DeliveryState.AVAILABLE, 0)
    machine.step(StateRead(ErrorCode.NONE, 1, 0, (never,)), now_ms=0)

    def step(event):
        effects = machine.step(event, now_ms=0)
        for effect in effects:
            if isinstance(effect, WriteState):
                machine.step(StateWritten(effect.write_id), now_ms=0)
        return effects

    def acquire(first, end):
        event = Acquire(
            1, MemberId("m"), AcquireMode.BATCH_OPTIMIZED, 500, 500, first, (LogBatch(first, end),)
        )
        (found,) = [e for e in step(event) if isinstance(e, RecordsAcquired)]
        return [(r.first_offset, r.last_offset, r.delivery_count) for r in found.ranges]

    for first, end, done in steps:
        acquire(first, end)
        types = tuple(1 if offset in done else 2 for offset in range(first, end + 1))
        step(Acknowledge(2, MemberId("m"), (AcknowledgementBatch(first, end, types),)))
    return acquire(0, last)


@scenario("DF-S16")
def test_neighbours_with_equal_delivery_counts_are_one_range():
    assert acquired_again(5, (2, 5, {3})) == [(0, 1, 1), (2, 2, 2), (4, 5, 2)]
    assert acquired_again(4) == [(0, 4, 1)]
    assert acquired_again(20, (5, 20, {9})) == [(0, 4, 1), (5, 8, 2), (10, 20, 2)]
    assert acquired_again(4, (1, 1, {1}), (3, 3, {3})) == [(0, 0, 1), (2, 2, 1), (4, 4, 1)]
    assert acquired_again(2, (1, 2, ()), (2, 2, ())) == [(0, 0, 1), (1, 1, 2), (2, 2, 3)]
    assert acquired_again(1, (0, 1, {0, 1})) == []
