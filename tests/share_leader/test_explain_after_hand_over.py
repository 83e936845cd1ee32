"""Explain tells of locks that were handed over before their next leader has read them (EXP-12)."""

from contextlib import asynccontextmanager

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.drained import draining, echoed, held, told
from tests.share_leader.test_consume import P0, acknowledge, results, state
from tests.share_leader.test_hand_back import LOCK_MS
from tests.share_leader.test_paused_group import pause
from tests.share_leader.world import ack, world


@asynccontextmanager
async def handed_over():
    """Yield a world whose next leader was asked for nothing yet, the old epoch and the holder."""
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        assert await told(stream) == [(0, epoch)]
        await stopping
        await w.lead(P0)
        yield w, epoch, stream


async def explained(w, offset):
    request = pb.ExplainRequest(group_id="g", topic_name="foo", partition=0, offset=offset)
    return await w.caller().call(methods.EXPLAIN, request, to=w.address)


@pytest.mark.parametrize("paused", [False, True])
async def test_exp_12_a_record_held_over_a_hand_over_is_locked_before_anybody_fetches(paused):
    async with handed_over() as (w, epoch, stream):
        if paused:
            await pause(w)
        passed_ms = w.clock.now_ms()
        before = await explained(w, 4)
        await w.clock.advance(10_000)
        later = await explained(w, 4)
        assert w.runner(P0) is None, "to ask begins nothing"
        for each in (before, later):
            assert (each.reason, each.delivery_state, each.member_id) == (
                "LOCKED",
                "ACQUIRED",
                "m1",
            )
            assert each.delivery_count == 1
        assert before.lock_remaining_ms - later.lock_remaining_ms == w.clock.now_ms() - passed_ms
        said = acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))
        await stream.send(pb.ConsumeRequest(acknowledgements=[said]))
        assert await results(stream, 1) == {P0: 0}


async def test_exp_12_a_lock_that_ended_meanwhile_is_none():
    async with handed_over() as (w, _, _):
        await w.clock.advance(LOCK_MS)
        answer = await explained(w, 4)
        assert (answer.reason, answer.member_id) == ("NO_MEMBER_ASKS", "")


async def test_exp_12_a_record_that_nobody_held_is_not_locked():
    async with handed_over() as (w, _, _):
        await w.produce(P0, 1)
        assert (await explained(w, 5)).reason == "NO_MEMBER_ASKS"


async def test_exp_12_locks_that_lapsed_with_their_share_partition_are_none():
    async with handed_over() as (w, _, _):
        await w.client("m2").join(P0)
        assert state(w, P0, 4)[1] == 1
        w.runner(P0).fence(ErrorCode.UNKNOWN_SERVER_ERROR, "told to")
        assert (await explained(w, 4)).reason == "NO_MEMBER_ASKS"
