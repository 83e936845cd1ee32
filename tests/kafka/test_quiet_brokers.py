"""Brokers that answer that nothing is new: it is asked whether they still lead (spec KBR)."""

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.directory import BrokerLeader
from sharemesh.kafka.quiet_brokers import QuietBrokers
from sharemesh.kafka.watch import KafkaWatch
from sharemesh.ports.brokers import (
    BrokerAddress,
    BrokerPartition,
    WatchAnswer,
    WatchedPartition,
)
from tests.clocks import ManualClock

ONE, TWO = (BrokerAddress(number, f"broker-{number}", 9092) for number in (1, 2))
FIRST, SECOND = (BrokerPartition(TopicId(b"o" * 16), "orders", number) for number in (0, 1))


def test_kbr_17_partitions_of_a_broker_that_fell_silent_are_doubtful_for_ten_seconds():
    quiet = QuietBrokers()
    quiet.heard(ONE, [FIRST], 0)
    times = [at for at in range(0, 20_000, 100) if quiet.doubtful(at) == {FIRST: ONE}]
    assert times == list(range(1_000, 10_001, 500))


def test_kbr_17_who_has_news_of_any_partition_is_not_doubted():
    quiet = QuietBrokers()
    quiet.heard(ONE, [FIRST, SECOND], 0)
    for at in range(0, 8_000, 500):
        quiet.heard(ONE, [SECOND], at)
        assert quiet.doubtful(at) == {}
    assert quiet.doubtful(8_500) == {FIRST: ONE, SECOND: ONE}, "it fell silent with the other one"
    quiet.heard(TWO, [FIRST], 8_600)
    assert quiet.doubtful(9_000) == {SECOND: ONE}


class Asked:
    """A directory that names broker 1 until it was asked, then broker 2."""

    def __init__(self):
        self.leader = ONE
        self.asked = []

    def known_leader(self, place):
        return BrokerLeader(self.leader, 1 if self.leader is ONE else 2)

    async def ask_again(self, places):
        self.asked.append(places)
        self.leader = TWO

    def forget(self, place):
        pass


async def test_kbr_17_another_leader_is_watched_as_soon_as_it_is_named(monkeypatch):
    clock, directory = ManualClock(), Asked()
    watch = KafkaWatch(1, directory, None, None, clock)
    fetched = []

    async def fetch(broker, session, wanted, max_wait_ms):
        fetched.append(broker)
        if len(fetched) == 1:
            return [WatchAnswer(FIRST, None, 0)]
        await clock.sleep_ms(max_wait_ms)
        return []

    monkeypatch.setattr(watch, "_fetch", fetch)
    watch.set([WatchedPartition(FIRST, 0, 1)])
    assert [each.partition for each in await watch.poll(500)] == [FIRST]
    for _ in range(4):
        polling = watch._tasks.spawn(watch.poll(500))
        await clock.advance(500)
        assert await polling == []
    assert directory.asked == [[FIRST]]
    assert TWO in fetched
    assert fetched.index(TWO) <= 4
    await watch.close()
