"""BND-20, BND-28: calls that arrive begin before slices and large calls that wait go on."""

import asyncio

import pytest

from sharemesh.arriving_calls import (
    PAUSED_MAX_S,
    PAUSED_SHARE,
    QUIET_TURNS,
    Pause,
    arriving_calls,
)
from sharemesh.authorization.slices import UNITS_OF_A_SLICE, Slices
from sharemesh.throttling.call_turns import (
    BYTES_OF_A_UNIT,
    MANY_CALLS,
    UNITS_OF_A_TURN,
    CallTurns,
)
from tests.clocks import LoopClock

APART = 6
"""Turns of the loop from one call that gRPC hands over to the next."""

MANY = 200
LARGE = 4 * UNITS_OF_A_TURN * BYTES_OF_A_UNIT


async def arrive(count):
    """Let calls begin as gRPC hands them over."""
    for _ in range(count):
        for _ in range(APART):
            await asyncio.sleep(0)
        arriving_calls().begun += 1


async def test_bnd_20_a_slice_waits_for_the_calls_that_arrive():
    slices, at_each = Slices(LoopClock()), []

    async def work():
        for _ in range(3 * APART):
            await slices.spend(UNITS_OF_A_SLICE)
            at_each.append(arriving_calls().begun)

    working, arriving = asyncio.ensure_future(work()), asyncio.ensure_future(arrive(MANY))
    await asyncio.gather(working, arriving)
    assert at_each[0] == 0, "none had come yet"
    assert set(at_each) <= {0, MANY}, "once one came, all that followed it began first"


async def test_bnd_20_slices_take_turns_over_principals():
    ended = []

    async def work(principal, count):
        slices = Slices(LoopClock(), principal)
        for _ in range(count):
            await slices.spend(UNITS_OF_A_SLICE)
            ended.append(principal)

    many = [asyncio.ensure_future(work("User:mallory", 4)) for _ in range(300)]
    for _ in range(APART):
        await asyncio.sleep(0)
    ended.clear()
    await work("User:alice", 10)
    assert ended.count("User:mallory") <= 10 + 1, "a slice of another between each two"
    await asyncio.gather(*many)


async def test_bnd_20_slices_without_new_calls_take_one_turn_each():
    slices, turns = Slices(LoopClock()), 0
    arriving_calls().begun += 1
    await slices.spend(UNITS_OF_A_SLICE)

    async def work():
        for _ in range(MANY):
            await slices.spend(UNITS_OF_A_SLICE)

    working = asyncio.ensure_future(work())
    while not working.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns <= MANY + 2


async def test_bnd_28_after_a_large_call_the_next_waits_for_the_calls_that_arrive():
    turns, at_each = CallTurns(), []

    async def call(request_bytes):
        await turns.turn("User:mallory", request_bytes)
        at_each.append(arriving_calls().begun)

    arriving_calls().begun += 1
    crowd = [asyncio.ensure_future(call(LARGE)) for _ in range(3)]
    await asyncio.gather(*crowd, arrive(MANY))
    assert at_each == [1, MANY + 1, MANY + 1]


async def test_bnd_28_small_calls_of_others_begin_while_large_ones_wait():
    turns, begun_at = CallTurns(), []
    arriving_calls().begun += 1
    large = [asyncio.ensure_future(turns.turn("User:mallory", LARGE)) for _ in range(3)]
    await asyncio.sleep(0)

    async def call():
        await turns.turn("User:alice", 10)
        begun_at.append(arriving_calls().begun)

    arriving = asyncio.ensure_future(arrive(MANY))
    await asyncio.gather(*(call() for _ in range(5 * UNITS_OF_A_TURN)))
    assert max(begun_at) <= 3, "four in each turn"
    assert [each.done() for each in large] == [True, False, False]
    await asyncio.gather(*large, arriving)


async def test_bnd_28_many_small_calls_do_not_wait_with_the_large_ones_of_another():
    turns, begun_at = CallTurns(), []

    async def call():
        await turns.turn("User:alice", 10)
        begun_at.append(arriving_calls().begun)

    small = [asyncio.ensure_future(call()) for _ in range(4 * MANY_CALLS)]
    for _ in range(APART):
        await asyncio.sleep(0)
    arriving_calls().begun += 1
    large = [asyncio.ensure_future(turns.turn("User:mallory", LARGE)) for _ in range(3)]
    await asyncio.gather(*small, arrive(MANY))
    assert max(begun_at) < MANY
    await asyncio.gather(*large)


async def test_bnd_28_small_calls_wait_for_nobody():
    turns, at_each = CallTurns(), []

    async def call():
        await turns.turn("User:mallory", 10)
        at_each.append(arriving_calls().begun)

    crowd = [asyncio.ensure_future(call()) for _ in range(5 * UNITS_OF_A_TURN)]
    await asyncio.gather(*crowd, arrive(MANY))
    assert max(at_each) < MANY


async def test_bnd_28_calls_that_arrive_begin_before_those_of_a_principal_of_which_more_come():
    """Their work would keep the next calls in gRPC's queue, where they wait for all before them."""
    turns, at_each = CallTurns(), []

    async def call():
        arriving_calls().begun += 1
        await turns.turn("User:mallory", 10)
        at_each.append(arriving_calls().begun)

    crowd = []
    while len(crowd) < 10 * MANY_CALLS:
        crowd += [asyncio.ensure_future(call()) for _ in range(2 * UNITS_OF_A_TURN)]
        await asyncio.sleep(0)
    begun_before = len(at_each)
    assert begun_before < 2 * MANY_CALLS, "no more begin once many wait"
    await asyncio.gather(*crowd)
    assert set(at_each[begun_before:]) == {len(crowd)}, "they begin once no more come"


async def test_bnd_28_a_burst_of_another_principal_does_not_wait_for_a_flood():
    turns, ended = CallTurns(), asyncio.Event()

    async def call(principal):
        arriving_calls().begun += 1
        await turns.turn(principal, 10)

    async def flood():
        crowd = []
        while not ended.is_set():
            crowd += [asyncio.ensure_future(call("User:mallory")) for _ in range(6)]
            await asyncio.sleep(0)
        await asyncio.gather(*crowd)

    flooding = asyncio.ensure_future(flood())
    for _ in range(MANY_CALLS):
        await asyncio.sleep(0)
    burst = asyncio.gather(*(call("User:alice") for _ in range(2 * MANY_CALLS)))
    for _ in range(3 * MANY_CALLS):
        await asyncio.sleep(0)
    is_done = burst.done()
    ended.set()
    await asyncio.gather(flooding, burst)
    assert is_done


async def test_bnd_28_a_principal_of_which_as_many_come_as_begin_waits_for_nobody():
    """Callers that send their next call once they are answered, however many they are."""
    turns, begun, empty_turns = CallTurns(), [0], 0

    async def caller():
        for _ in range(20):
            arriving_calls().begun += 1
            await turns.turn("User:alice", 10)
            begun[0] += 1

    calling = asyncio.gather(*(caller() for _ in range(2 * MANY_CALLS)))
    while not calling.done():
        before = begun[0]
        await asyncio.sleep(0)
        empty_turns += begun[0] == before
    assert empty_turns <= 2 * QUIET_TURNS


def lasts_s(pause: Pause, moments, step_s=0.01):
    """Return how long a pause lasts if a call comes each moment."""
    began_s = moments[0]
    while not pause.is_over():
        arriving_calls().begun += 1
        moments[0] += step_s
    return moments[0] - began_s


async def test_bnd_20_work_goes_on_however_many_calls_come(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    calls = arriving_calls()
    calls.begun += 1
    assert lasts_s(calls.pause(), now) == pytest.approx(PAUSED_MAX_S, abs=0.02)
    calls.begun += 1
    assert lasts_s(calls.pause(), now) <= 0.02, "nothing is left"
    paused_s, began_s = 0.0, now[0]
    for _ in range(1_000):
        now[0] += 0.005  # a slice
        paused_s += lasts_s(calls.pause(), now, 0.001)
    assert paused_s / (now[0] - began_s) <= PAUSED_SHARE


async def test_bnd_20_a_pause_without_calls_is_over_once_it_was_quiet():
    calls = arriving_calls()
    assert calls.pause().is_over()
    calls.begun += 1
    pause = calls.pause()
    assert [pause.is_over() for _ in range(QUIET_TURNS)] == [False] * QUIET_TURNS
    assert pause.is_over()
    assert calls.pause().is_over()
