"""Applications that are told to finish take no time of their own, so that it measures the mesh."""

from collections.abc import Iterator
from typing import cast

import pytest

from sharemesh.client.consumer.async_share_consumer import AsyncShareConsumer
from sharemesh.client.records import ConsumerRecord
from tests.simulation.clients import ConsumerApplication, Pace
from tests.simulation.event_log import EventLog
from tests.simulation.hard_clients import HARD
from tests.simulation.journal import Client, SimJournal
from tests.simulation.world import Options, World

POLLS = 40
MODES = ("explicit", "implicit", "record_limit", "hoarding", *HARD)


class OneRecordAPoll:
    """In place of a consumer: each poll returns the next record at once."""

    def __init__(self) -> None:
        self.offset = -1

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        self.offset += 1
        return [ConsumerRecord("flights", 0, self.offset, 0, None, b"fine", (), 1, 1, b"\7" * 16)]

    def acknowledge(self, *_: object) -> None: ...

    async def commit_sync(self, timeout_ms: int) -> None: ...

    async def commit_async(self) -> None: ...


@pytest.fixture
def world() -> Iterator[World]:
    world = World(1, Options(), EventLog())
    yield world
    world.loop.close()


def taken_s(world: World, mode: str, pace: Pace) -> float:
    """Return how long an application takes for some polls with one record each."""
    journal = SimJournal(world)
    application = HARD.get(mode, ConsumerApplication)(world, journal, "reader", mode, pace)
    journal.members[""] = Client(application.process, hands_back=True)
    consumer = cast(AsyncShareConsumer, OneRecordAPoll())

    async def polls() -> None:
        for _ in range(POLLS):
            await application._turn(consumer, implicit=mode == "implicit", limit=None)

    begun_s = world.now_s
    world.loop.run_until_complete(application.process.start(polls()))
    return world.now_s - begun_s


@pytest.mark.parametrize("mode", MODES)
def test_who_is_told_to_finish_asks_for_the_next_records_at_once(world, mode):
    assert taken_s(world, mode, Pace(finishing=True)) < 0.1


@pytest.mark.parametrize("mode", ["explicit", "implicit", "hoarding"])
def test_before_that_an_application_takes_its_time(world, mode):
    assert taken_s(world, mode, Pace()) > 1
