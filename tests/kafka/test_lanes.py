"""Which connection a request gets, and when one is opened, replaced or given up (spec KBR)."""

import asyncio
import random

import pytest

from sharemesh.kafka.lanes import IDLE_MS, BrokerLanes
from sharemesh.ports.brokers import BrokerAddress, BrokerLane, BrokerUnreachableError

BROKER = BrokerAddress(1, "here", 9092)


class Opened:
    """A connection that counts."""

    def __init__(self):
        self.waiting = 0
        self.closed = False
        self.retired = False
        self.renew_at_ms = None
        self.used_at_ms = 0

    def retire(self):
        self.retired = True

    def close(self):
        self.closed = True


class Clock:
    def __init__(self):
        self.now = 0
        self.slept = []

    def now_ms(self):
        return self.now

    async def sleep_ms(self, duration_ms):
        self.slept.append(duration_ms)
        self.now += duration_ms


class Dialled:
    """Opens connections, or fails as often as it is told."""

    def __init__(self):
        self.count = 0
        self.failures = 0

    async def open(self, broker):
        self.count += 1
        if self.failures:
            self.failures -= 1
            raise BrokerUnreachableError(f"{broker.host}: nobody there")
        return Opened()


@pytest.fixture
def dialled():
    return Dialled()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lanes(dialled, clock):
    return BrokerLanes(dialled.open, clock, random.Random(1))


async def busy(lanes, *words, count=10):
    """Take connections, each busy from then on; return the different ones."""
    found = {}
    for _ in range(count):
        connection = await lanes.connection(BROKER, *words)
        connection.waiting += 1
        found[id(connection)] = connection
    return list(found.values())


@pytest.mark.parametrize(
    ("lane", "most"),
    [(BrokerLane.WATCH, 1), (BrokerLane.READ, 3), (BrokerLane.CONTROL, 1), (BrokerLane.PRODUCE, 1)],
)
async def test_kbr_6_a_lane_has_so_many_connections_and_takes_the_least_busy(lanes, lane, most):
    found = await busy(lanes, lane)
    assert len(found) == most
    assert max(each.waiting for each in found) - min(each.waiting for each in found) <= 1


async def test_kbr_6_one_idle_connection_is_enough(lanes, dialled):
    first = await lanes.connection(BROKER, BrokerLane.READ)
    assert await lanes.connection(BROKER, BrokerLane.READ) is first
    assert dialled.count == 1


async def test_kbr_6_each_shard_has_its_own(lanes):
    one = await lanes.connection(BROKER, BrokerLane.SHARD, "state-1")
    other = await lanes.connection(BROKER, BrokerLane.SHARD, "state-2")
    assert one is not other
    assert await lanes.connection(BROKER, BrokerLane.SHARD, "state-1") is one


async def test_kbr_7_those_who_wait_for_a_connection_share_one_attempt(lanes, dialled):
    asked = [lanes.connection(BROKER, BrokerLane.CONTROL) for _ in range(5)]
    assert len({id(each) for each in await asyncio.gather(*asked)}) == 1
    assert dialled.count == 1


async def test_kbr_7_attempts_wait_longer_after_each_failure(lanes, dialled, clock):
    dialled.failures = 8
    for _ in range(8):
        with pytest.raises(BrokerUnreachableError, match="nobody there"):
            await lanes.connection(BROKER, BrokerLane.CONTROL)
    await lanes.connection(BROKER, BrokerLane.READ)
    longest = [50, 100, 200, 400, 500, 500, 500, 500]
    assert all(0.8 * most <= it <= most for it, most in zip(clock.slept, longest, strict=True))


async def test_kbr_7_one_that_was_closed_is_replaced(lanes, dialled):
    first = await lanes.connection(BROKER, BrokerLane.CONTROL)
    first.closed = True
    second = await lanes.connection(BROKER, BrokerLane.CONTROL)
    assert second is not first
    assert dialled.count == 2


async def test_a_login_that_grows_old_is_replaced_and_its_connection_closed_behind_its_requests(
    lanes, clock
):
    first = await lanes.connection(BROKER, BrokerLane.CONTROL)
    first.renew_at_ms = 1_000
    clock.now = 999
    assert await lanes.connection(BROKER, BrokerLane.CONTROL) is first
    clock.now = 1_000
    second = await lanes.connection(BROKER, BrokerLane.CONTROL)
    assert second is not first
    assert first.retired
    assert not first.closed


async def test_kbr_7_one_that_was_idle_too_long_is_replaced_before_it_is_used(lanes, clock):
    first = await lanes.connection(BROKER, BrokerLane.PRODUCE)
    clock.now = IDLE_MS - 1
    assert await lanes.connection(BROKER, BrokerLane.PRODUCE) is first
    clock.now = IDLE_MS
    assert lanes.open_connection(BROKER, BrokerLane.PRODUCE) is None
    second = await lanes.connection(BROKER, BrokerLane.PRODUCE)
    assert second is not first
    assert first.retired
    second.used_at_ms, second.waiting = 0, 1
    assert await lanes.connection(BROKER, BrokerLane.PRODUCE) is second, "it is waited for"


async def test_kbr_7_idle_connections_of_other_lanes_are_closed_too(lanes, clock):
    idle = await lanes.connection(BROKER, BrokerLane.READ)
    clock.now = IDLE_MS
    await lanes.connection(BROKER, BrokerLane.CONTROL)
    assert idle.retired


async def test_closing_ends_connections_and_attempts(lanes, clock):
    open_ = await lanes.connection(BROKER, BrokerLane.CONTROL)
    never = asyncio.Event()

    async def hang(duration_ms):
        await never.wait()

    clock.sleep_ms = hang
    lanes._not_before_ms["here", 9092] = 1
    waiting = asyncio.create_task(lanes.connection(BROKER, BrokerLane.READ))
    await asyncio.wait([waiting], timeout=0)
    await lanes.close()
    assert open_.closed
    with pytest.raises(BrokerUnreachableError):
        await waiting
    with pytest.raises(BrokerUnreachableError, match="has closed"):
        await lanes.connection(BROKER, BrokerLane.CONTROL)


async def test_kbr_15_an_open_connection_is_found_without_dialling(dialled, clock):
    lanes = BrokerLanes(dialled.open, clock, random.Random(1))
    assert lanes.open_connection(BROKER, BrokerLane.WATCH, 1) is None
    opened = await lanes.connection(BROKER, BrokerLane.WATCH, 1)
    assert lanes.open_connection(BROKER, BrokerLane.WATCH, 1) is opened
    assert lanes.open_connection(BROKER, BrokerLane.WATCH, 2) is None
    opened.closed = True
    assert lanes.open_connection(BROKER, BrokerLane.WATCH, 1) is None
    assert dialled.count == 1
