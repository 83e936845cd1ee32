"""BND-28: of one principal a few calls begin in a turn of the loop, and others begin between."""

import asyncio

import pytest

from sharemesh.throttling.call_turns import BYTES_OF_A_UNIT, UNITS_OF_A_TURN, CallTurns

MANY = 10 * UNITS_OF_A_TURN


class Begun:
    """Notes who began in which turn of the loop."""

    def __init__(self, turns):
        self._turns = turns
        self.calls = []
        self.turn = 0

    def call(self, principal, number=0, request_bytes=10):
        async def begin():
            await self._turns.turn(principal, request_bytes)
            self.calls.append((principal, number, self.turn))

        return asyncio.ensure_future(begin())

    async def until_all(self, tasks):
        while not all(task.done() for task in tasks):
            self.turn += 1
            await asyncio.sleep(0)

    def in_a_turn(self, principal):
        turns = [turn for who, _, turn in self.calls if who == principal]
        return max(turns.count(each) for each in turns)


@pytest.fixture
async def begun():
    return Begun(CallTurns(own=("Node:n",)))


async def test_bnd_28_a_crowd_of_one_principal_begins_over_many_turns(begun):
    crowd = [begun.call("User:mallory", number) for number in range(MANY)]
    await begun.until_all(crowd)
    assert begun.in_a_turn("User:mallory") == UNITS_OF_A_TURN
    assert [number for _, number, _ in begun.calls] == list(range(MANY)), "their order is kept"


async def test_bnd_28_another_principal_begins_at_once(begun):
    crowd = [begun.call("User:mallory", number) for number in range(MANY)]
    await asyncio.sleep(0)
    quiet = begun.call("User:alice")
    await begun.until_all([quiet])
    assert begun.turn == 1
    await begun.until_all(crowd)


async def test_bnd_28_large_requests_begin_one_in_a_turn(begun):
    large = UNITS_OF_A_TURN * BYTES_OF_A_UNIT
    await begun.until_all([begun.call("User:mallory", number, large) for number in range(5)])
    assert begun.in_a_turn("User:mallory") == 1


async def test_bnd_28_the_processes_of_the_cluster_never_wait(begun):
    await begun.until_all([begun.call("Node:n", number) for number in range(MANY)])
    assert begun.in_a_turn("Node:n") == MANY


async def test_bnd_28_a_call_that_is_taken_back_takes_no_turn(begun):
    crowd = [begun.call("User:mallory", number) for number in range(MANY)]
    await asyncio.sleep(0)
    for each in crowd[UNITS_OF_A_TURN:-1]:
        each.cancel()
    await begun.until_all(crowd)
    assert [number for _, number, _ in begun.calls] == [*range(UNITS_OF_A_TURN), MANY - 1]
    assert begun.turn <= 4


async def test_bnd_28_nothing_is_kept_of_those_who_have_begun(begun):
    await begun.until_all([begun.call(f"User:{number}") for number in range(MANY)])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not begun._turns._begun
    assert not begun._turns._waiting
