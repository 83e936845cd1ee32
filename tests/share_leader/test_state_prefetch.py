"""State that is read ahead of a take-over: used once, and only soon after it was asked for."""

import asyncio

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, NodeId
from sharemesh.share_leader.environment import LeaderCounters, LeaderEnvironment
from sharemesh.share_leader.partition.state_requests import StatePrefetch
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.share_leader.time_searches import TimeSearches
from sharemesh.tasks import OwnedTasks
from sharemesh.timers import Timers
from tests.share_leader.world import FOO, TopicPartition, world

G, H = GroupId("g"), GroupId("h")


def environment(w):
    return LeaderEnvironment(
        node_id=NodeId("leader-1"),
        clock=w.clock,
        view=w.view,
        persister=w.keeper,
        settings=LeaderSettings(),
        counters=LeaderCounters(),
        alarms=Timers(w.clock),
        tasks=OwnedTasks("a test"),
        telemetry=w.service.telemetry,
        time_searches=TimeSearches(LeaderSettings()),
    )


async def test_an_answer_is_used_once_and_others_ask_for_themselves():
    async with world() as w:
        reads = StatePrefetch(environment(w), TopicPartition(FOO, 0), 8, {G})
        assert reads.take(H) is None
        answer = reads.take(G)
        assert answer is not None
        assert (await answer).error is ErrorCode.NONE
        assert reads.take(G) is None


async def test_an_answer_that_was_not_used_soon_is_dropped():
    async with world() as w:
        reads = StatePrefetch(environment(w), TopicPartition(FOO, 0), 8, {G, H})
        await w.clock.advance(4_999)
        assert reads.take(G) is not None
        await w.clock.advance(1)
        assert reads.take(H) is None


async def test_who_waits_for_an_early_read_hears_that_it_was_cancelled():
    async with world() as w:
        around = environment(w)
        read = StatePrefetch(around, TopicPartition(FOO, 0), 8, {G}).take(G)
        assert read is not None
        await around.tasks.close()
        with pytest.raises(asyncio.CancelledError):
            await read
