"""Leaders that froze: who waits for them is let go once another broker leads (spec KBR)."""

import asyncio

import pytest

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.directory import BrokerLeader
from sharemesh.kafka.silent_leaders import SilentLeaders
from sharemesh.ports.brokers import BrokerAddress, BrokerPartition, BrokerUnreachableError
from tests.clocks import ManualClock
from tests.kafka.test_directory import clock, cluster, known, topic  # noqa: F401 - fixtures

ONE, TWO = (BrokerAddress(number, f"broker-{number}", 9092) for number in (1, 2))
PLACE = BrokerPartition(TopicId(b"o" * 16), "orders", 0)


class Told:
    """A directory: who leads is what a test says, and asking is counted."""

    def __init__(self):
        self.leader = ONE
        self.asked = []

    def known_leader(self, place):
        return BrokerLeader(self.leader, 1)

    async def ask_again(self, places):
        self.asked.append(places)


class Line:
    """A connection: how often something came there, and whether it was given up."""

    def __init__(self):
        self.reads = 7
        self.is_given_up = False

    def give_up(self, reads_before):
        self.is_given_up = self.reads == reads_before


class Frozen:
    """A request to a broker that never answers."""

    def __init__(self, wait_ms=0):
        self.line = Line()
        self.clock = ManualClock()
        self.directory = Told()
        self.silent = SilentLeaders(self.directory, self.clock)
        self.answer = asyncio.get_running_loop().create_future()
        self.request = asyncio.create_task(self.asked(wait_ms))

    async def asked(self, wait_ms):
        with self.silent.given_up(ONE, [PLACE], wait_ms) as awaited:
            awaited.goes_over(self.line)
            return await self.answer


async def test_kbr_16_a_silent_leader_is_given_up_when_another_broker_leads():
    frozen = Frozen()
    await frozen.clock.advance(900)
    assert frozen.directory.asked == []
    await frozen.clock.advance(2_600)
    assert len(frozen.directory.asked) == 6
    assert frozen.directory.asked[0] == [PLACE]
    assert not frozen.request.done()
    frozen.directory.leader = TWO
    await frozen.clock.advance(500)
    with pytest.raises(BrokerUnreachableError, match="another broker leads"):
        await frozen.request
    assert not frozen.request.cancelled()
    assert frozen.line.is_given_up, "what waits behind it would wait for as long again"
    await frozen.silent.close()


async def test_kbr_16_a_connection_that_brought_an_answer_since_is_kept():
    frozen = Frozen()
    await frozen.clock.advance(500)
    frozen.line.reads += 1
    frozen.directory.leader = TWO
    await frozen.clock.advance(1_000)
    with pytest.raises(BrokerUnreachableError, match="another broker leads"):
        await frozen.request
    assert not frozen.line.is_given_up
    await frozen.silent.close()


async def test_kbr_16_a_connection_is_kept_while_the_silent_broker_leads():
    frozen = Frozen()
    await frozen.clock.advance(8_000)
    assert not frozen.line.is_given_up
    frozen.answer.set_result("late")
    assert await frozen.request == "late"
    await frozen.silent.close()


async def test_kbr_16_a_poll_may_wait_as_long_as_it_asked_for():
    frozen = Frozen(wait_ms=5_000)
    frozen.directory.leader = TWO
    await frozen.clock.advance(5_900)
    assert not frozen.request.done()
    frozen.answer.set_result("news")
    assert await frozen.request == "news"
    await frozen.clock.advance(1_000)
    assert frozen.directory.asked == []
    await frozen.silent.close()


async def test_kbr_16_a_caller_that_is_cancelled_is_not_told_of_leaders():
    frozen = Frozen()
    await frozen.clock.advance(2_000)
    frozen.request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await frozen.request
    await frozen.silent.close()


async def test_kbr_16_asking_again_learns_of_a_new_leader_while_the_old_one_is_in_use(
    known,  # noqa: F811 - a fixture
    cluster,  # noqa: F811 - a fixture
):
    before = await known.leader(PLACE)
    cluster.topics = [topic((0, 2, 5))]
    assert known.known_leader(PLACE) == before
    await known.ask_again([PLACE])
    assert known.known_leader(PLACE).broker.broker_id == 2
