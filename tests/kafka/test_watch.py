"""A watch whose brokers refuse, or cannot be reached (spec KBR)."""

import asyncio
import itertools
import random

import pytest

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.directory import LeaderDirectory
from sharemesh.kafka.lanes import BrokerLanes
from sharemesh.kafka.silent_leaders import SilentLeaders
from sharemesh.kafka.watch import KafkaWatch
from sharemesh.kafka.watch_errors import WatchErrors
from sharemesh.kafka.watch_session import WatchSession
from sharemesh.ports.brokers import (
    BrokerAddress,
    BrokerPartition,
    BrokerRefusedError,
    NewBrokerTopic,
    WatchedPartition,
)
from sharemesh.tasks import OwnedTasks, cancel_and_wait
from sharemesh.testing.memory_brokers.cluster import MemoryCluster
from tests.clocks import ManualClock

BROKER = BrokerAddress(1, "here", 9092)
PLACE = BrokerPartition(TopicId(b"o" * 16), "orders", 0)
OTHER = BrokerPartition(TopicId(b"o" * 16), "orders", 1)
UNKNOWN, MOVED = 3, 6


class Leaderless:
    """A directory that knows of no leader, and says why."""

    def __init__(self):
        self.code = UNKNOWN
        self.asked = 0

    def known_leader(self, place):
        return None

    async def leader(self, place):
        self.asked += 1
        raise BrokerRefusedError(self.code, "REFUSED")

    def forget(self, place):
        pass


class Watching:
    """Polls for as long as the test goes on."""

    def __init__(self):
        self.clock = ManualClock()
        self.began_ms = self.clock.now_ms()
        self.directory = Leaderless()
        self.watch = KafkaWatch(1, self.directory, None, None, self.clock)
        self.told = []  # after how many seconds, and the error
        self.tasks = OwnedTasks("a test")

    async def poll(self):
        while True:
            for each in await self.watch.poll(500):
                self.told.append(((self.clock.now_ms() - self.began_ms) // 1_000, each.error))


@pytest.fixture
async def watching():
    made = Watching()
    made.watch.set([WatchedPartition(PLACE, 0, 1)])
    made.tasks.spawn(made.poll())
    yield made
    await made.tasks.close()
    await made.watch.close()


async def test_kbr_15_an_error_that_lasts_is_told_each_10_s_and_asked_for_ever_less(watching):
    await watching.clock.advance(60_000)
    assert [code for _, code in watching.told] == [UNKNOWN] * len(watching.told)
    times = [at for at, _ in watching.told]
    assert times[0] == 0
    assert all(10 <= later - at <= 12 for at, later in itertools.pairwise(times))
    assert 5 <= len(times) <= 6
    assert watching.directory.asked <= 130


async def test_kbr_15_another_error_and_another_question_are_told_at_once(watching):
    await watching.clock.advance(5_000)
    watching.directory.code = MOVED
    await watching.clock.advance(2_500)
    assert [code for _, code in watching.told] == [UNKNOWN, MOVED]
    watching.watch.set([WatchedPartition(PLACE, 7, 1)])
    await watching.clock.advance(500)
    assert [code for _, code in watching.told] == [UNKNOWN, MOVED, MOVED]


async def test_kbr_15_a_poll_with_nothing_to_ask_ends_after_its_wait():
    clock = ManualClock()
    watch = KafkaWatch(1, Leaderless(), None, None, clock)
    polling = asyncio.ensure_future(watch.poll(300))
    await clock.advance(299)
    assert not polling.done()
    await clock.advance(1)
    assert polling.result() == []


async def test_kbr_15_closing_dials_nobody():
    dialled = []

    async def open_(broker):
        dialled.append(broker)
        await asyncio.Event().wait()

    clock = ManualClock()
    lanes = BrokerLanes(open_, clock, random.Random(1))
    directory = LeaderDirectory([BROKER], lanes, clock)
    watch = KafkaWatch(1, directory, lanes, SilentLeaders(directory, clock), clock)
    session = watch._sessions[BROKER] = WatchSession()
    session._id, session._epoch = 5, 3
    await watch.close()
    assert dialled == []
    await lanes.close()


def test_kbr_15_an_error_that_comes_back_later_is_a_new_one():
    errors = WatchErrors()
    assert errors.failed(PLACE, UNKNOWN, 0)
    assert not errors.failed(PLACE, UNKNOWN, 50)
    assert not errors.may_ask(PLACE, 149)
    assert errors.may_ask(PLACE, 150)
    assert errors.may_ask(OTHER, 60)
    assert errors.failed(PLACE, UNKNOWN, 20_000)
    assert errors.pause_ms(20_000, 500) == 50
    errors.forget(PLACE)
    assert errors.pause_ms(20_000, 500) == 500
    assert errors.failed(PLACE, UNKNOWN, 20_001)


async def test_kbr_15_brokers_in_memory_tell_an_error_that_lasts_each_10_s():
    clock = ManualClock()
    cluster = MemoryCluster(clock, random.Random(1))
    cluster.create(NewBrokerTopic("orders", 1, 3))
    client = cluster.client()
    watch = client.watch()
    missing = BrokerPartition(TopicId(b"x" * 16), "never-made", 0)
    watch.set([WatchedPartition(missing, 0, 1)])
    told = []

    async def poll():
        while True:
            told.extend([each.error for each in await watch.poll(500)])

    polling = asyncio.ensure_future(poll())
    await clock.advance(9_000)
    assert len(told) == 1
    await clock.advance(3_000)
    assert told == told[:1] * 2
    await cancel_and_wait(polling)
    await watch.close()
    await cluster.close()
