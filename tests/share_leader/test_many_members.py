"""Many members, many locks: one timer, no herd."""

import asyncio
import time

import pytest

from sharemesh.timers import Timers
from sharemesh.v1 import share_leader_pb2 as pb
from tests.clocks import ManualClock
from tests.share_leader.world import (
    FOO,
    TopicPartition,
    ack,
    acknowledged,
    acquired,
    topics,
    until,
    world,
)

P0 = TopicPartition(FOO, 0)
MEMBERS = 5_000
RECORDS = 500
BOUNDS = {"max_principal_sessions": MEMBERS, "max_group_sessions": MEMBERS}


@pytest.mark.slow
async def test_5000_members_wait_and_each_batch_wakes_one_of_them():
    async with world(max_share_sessions=MEMBERS, **BOUNDS) as w:
        await w.lead(P0)
        clients = [w.client(f"m{n}") for n in range(MEMBERS)]
        waiting = [asyncio.create_task(c.fetch(P0, max_wait_ms=20_000)) for c in clients]
        await until(
            lambda: w.runner(P0) is not None and len(w.runner(P0)._waiters) == MEMBERS, timeout_s=30
        )
        pokes = 0
        real = type(next(iter(w.runner(P0)._waiters))).poke

        def counted(wait):
            nonlocal pokes
            pokes += 1
            real(wait)

        kind = type(next(iter(w.runner(P0)._waiters)))
        kind.poke = counted
        try:
            for number in range(10):
                await w.produce(P0, 1)
                await until(lambda n=number: sum(t.done() for t in waiting) == n + 1)
        finally:
            kind.poke = real
        assert pokes < 10 * 10, "only those that can go on are woken"
        got = [acquired(t.result(), P0) for t in waiting if t.done()]
        assert sorted(got) == [[(n, n, 1)] for n in range(10)]
        await w.clock.advance(20_000)
        assert all(t.done() for t in waiting)


@pytest.mark.slow
async def test_5000_members_hold_streams_and_each_record_goes_to_one_that_accepts_it():
    async with world(manual=False, max_share_sessions=MEMBERS, **BOUNDS) as w:
        await w.lead(P0)
        connections = [w.caller(), w.caller()]  # over gRPC: 4,000 streams each
        streams = []
        for number in range(MEMBERS):
            client = w.client(f"m{number}")
            client.caller = connections[number % 2]
            streams.append(await client.consume(P0, records=1))
        await until(lambda: len(w.service._streams) == MEMBERS, timeout_s=60)
        taken = []

        async def take_and_accept(stream):
            (one,) = acquired(await delivered(stream), P0)
            taken.append(one)
            ack_it = pb.ConsumeAcknowledge(acknowledge_id=1, topics=topics((), [ack(P0, *one)]))
            await stream.send(pb.ConsumeRequest(acknowledgements=[ack_it]))
            while not (results := acknowledged(await anext(stream))):
                pass
            assert results == {1: {P0: 0}}

        readers = [asyncio.create_task(take_and_accept(stream)) for stream in streams]
        await w.produce(P0, *[1] * RECORDS)
        await until(lambda: sum(reader.done() for reader in readers) == RECORDS, timeout_s=60)
        assert sorted(taken) == [(n, n, 1) for n in range(RECORDS)], "one to each of so many"
        assert w.runner(P0).machine.start_offset == RECORDS
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for stream in streams:
            await stream.close()
        await until(lambda: len(w.service.session_cache.sessions) == 0, timeout_s=60)


async def delivered(stream):
    """Return the next message with records."""
    while True:
        message = await anext(stream)
        assert message.error_code == 0, message
        if message.responses:
            return message


async def test_a_million_alarms_cost_one_task_and_little_time():
    clock = ManualClock()
    alarms, fired = Timers(clock), []
    before = len(asyncio.all_tasks())
    started = time.thread_time()
    set_alarms = [
        alarms.at(clock.now_ms() + 30_000 + n // 100, fired.clear) for n in range(200_000)
    ]
    for alarm in set_alarms:
        alarm.cancel()
    alarms.at(clock.now_ms() + 10, lambda: fired.append(clock.now_ms()))
    assert time.thread_time() - started < 10, "of its own work, whatever else the machine does"
    await clock.advance(9)
    assert len(asyncio.all_tasks()) <= before + 1
    assert fired == []
    await clock.advance(1)
    assert fired == [clock.now_ms()]
    await alarms.close()


async def test_alarms_fire_in_order_and_earlier_ones_replace_the_sleep():
    clock = ManualClock()
    alarms, fired = Timers(clock), []
    for deadline in (50, 20, 80, 20):
        alarms.at(clock.now_ms() + deadline, lambda d=deadline: fired.append(d))
    cancelled = alarms.at(clock.now_ms() + 30, lambda: fired.append(30))
    cancelled.cancel()
    await clock.advance(100)
    assert fired == [20, 20, 50, 80]
    alarms.at(clock.now_ms() - 5, lambda: fired.append(0))
    await clock.advance(1)
    assert fired[-1] == 0
    await alarms.close()
