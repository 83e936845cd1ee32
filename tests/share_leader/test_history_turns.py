"""Explain asks share coordinators for a few records at a time, of one principal fewer (EXP-11)."""

import asyncio
from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.share_leader.requests.durable_record import SEARCHES_AT_ONCE
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import FOO, TopicPartition, world

P0 = TopicPartition(FOO, 0)
MALLORY, ALICE = "User:mallory", "User:alice"


class Held:
    """Questions that stay at the coordinator until the test opens it."""

    def __init__(self, keeper):
        self._real = keeper.read_history
        self.open = asyncio.Event()
        self.asked = []
        self.told = []

    async def read_history(self, key, offset, principal, leader_epoch):
        self.asked.append(offset)
        self.told.append(principal)
        await self.open.wait()
        return await self._real(key, offset, principal, leader_epoch)


@asynccontextmanager
async def asked(**settings):
    """Yield a world, its coordinator's door, and a way to ask about an offset."""
    async with world(**settings) as w:
        await w.lead(P0)
        await w.produce(P0, 50)
        held = Held(w.keeper)
        w.keeper.read_history = held.read_history

        def explain(principal, offset):
            request = pb.ExplainRequest(group_id="g", topic_name="foo", partition=0, offset=offset)
            caller = w.caller(principal)
            return asyncio.create_task(caller.call(methods.EXPLAIN, request, to=w.address))

        yield w, held, explain


async def test_exp_11_one_principal_has_half_of_a_leaders_questions_and_others_have_the_rest():
    async with asked() as (w, held, explain):
        many = [explain(MALLORY, offset) for offset in range(20)]
        await w.clock.settle()
        assert held.asked == list(range(SEARCHES_AT_ONCE // 2))
        one = explain(ALICE, 40)
        await w.clock.settle()
        assert held.asked[-1] == 40
        assert held.told == [MALLORY, MALLORY, ALICE]
        held.open.set()
        answers = await asyncio.gather(one, *many)
        assert not any(each.error_code for each in answers)
        assert len(held.asked) == 21


async def test_exp_11_without_names_all_are_one_principal_that_may_have_all():
    no_names = {"max_unsent_bytes": 1 << 20, "max_principal_unsent_bytes": 1 << 20}
    async with asked(**no_names) as (w, held, explain):
        many = [explain("User:ANONYMOUS", offset) for offset in range(20)]
        await w.clock.settle()
        assert held.told == [""] * SEARCHES_AT_ONCE
        held.open.set()
        await asyncio.gather(*many)


async def test_exp_11_a_question_that_does_not_get_its_turn_in_time_is_answered_from_memory():
    async with asked(explain_state_ms=50) as (_, _held, explain):
        answers = await asyncio.gather(*(explain(MALLORY, offset) for offset in range(3)))
        assert [each.error_code for each in answers] == [0, 0, 0]
        notes = [each.events_note for each in answers]
        assert "did not answer in 50 ms" in notes[0]
        assert "other searches took longer than 50 ms" in notes[2]
