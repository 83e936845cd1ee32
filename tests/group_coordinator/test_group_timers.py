"""Moments of members on the one timer of the service."""

from contextlib import asynccontextmanager

from sharemesh.group_coordinator.member_stream import GroupTimers
from sharemesh.timers import Timers
from tests.clocks import ManualClock


@asynccontextmanager
async def group_timers():
    clock, come = ManualClock(), []
    timers = Timers(clock)
    try:
        yield GroupTimers(timers, clock, come.extend), clock, come
    finally:
        await timers.close()


async def test_the_earliest_moment_comes_first_also_if_it_was_set_last():
    async with group_timers() as (made, clock, come):
        made.start("g", "late", 5_000)
        made.start("g", "early", 1_000)
        await clock.advance(1_000)
        assert come == [("g", "early")]
        assert made.running("g", "late")
        await clock.advance(4_000)
        assert come == [("g", "early"), ("g", "late")]


async def test_a_moment_that_is_moved_comes_once_and_a_stopped_one_never():
    async with group_timers() as (made, clock, come):
        made.start("g", "moved", 1_000)
        made.start("g", "stopped", 1_000)
        await clock.advance(900)
        made.start("g", "moved", 1_000)
        made.stop("g", "stopped")
        await clock.advance(900)
        assert come == []
        await clock.advance(100)
        await clock.advance(60_000)
        assert come == [("g", "moved")]


async def test_a_moment_that_is_brought_forward_comes_then():
    async with group_timers() as (made, clock, come):
        made.start("g", "m", 45_000)
        made.shorten("g", "m", 2_000)
        await clock.advance(2_000)
        assert come == [("g", "m")]


async def test_after_the_shard_has_ended_no_moment_comes():
    async with group_timers() as (made, clock, come):
        made.start("g", "m", 1_000)
        made.close()
        made.start("g", "m", 500)
        await clock.advance(60_000)
        assert come == []
