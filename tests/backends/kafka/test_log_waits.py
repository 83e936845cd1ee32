"""Reads of a followed log wait by the clock that they are given, and never without an end."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.backends.kafka.record_logs.followed_log import (
    FollowedLog,
    FoundEnds,
    PartitionMemory,
)
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.backends.kafka.record_logs.log_reads import LogReads
from sharemesh.backends.kafka.record_logs.read_cache import ReadCache
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.backends.recent_pool import RecentPool
from sharemesh.cluster.seen_logs import SeenPartitionsInStore
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.brokers import BrokerPartition
from sharemesh.ports.shard_log import LogFailedError
from sharemesh.tasks import OwnedTasks
from tests.backends.kafka.record_log_world import QUICK
from tests.clocks import ManualClock

WHERE = BrokerPartition(TopicId(b"t" * 16), "orders", 0)
WAIT_MS = 4_000


class SilentBrokers:
    """Whatever they are asked, they never answer."""

    def __init__(self):
        self.fetches = 0

    async def list_offset(self, *given, **named):
        await asyncio.Event().wait()

    async def fetch(self, *given, **named):
        self.fetches += 1
        await asyncio.Event().wait()


class Followed:
    """A log with ten records that nobody gives out."""

    def __init__(self):
        self.clock = ManualClock()
        self.brokers = SilentBrokers()
        self.tasks = OwnedTasks("a test")
        bounds = replace(QUICK, read_wait_ms=WAIT_MS)
        access = LogAccess(self.brokers, self.clock, self.tasks, bounds)
        seen = SeenPartitionsInStore(LocalCoordination(LocalStore(self.clock)), "m", self.clock)
        memory = PartitionMemory(seen, TopicPartition(WHERE.topic_id, 0))
        self.log = FollowedLog(
            WHERE, access, ReadCache(RecentPool(0)), FoundEnds(0, 10, 10, 1), memory
        )
        self.reads = LogReads(self.log, access)

    def read(self):
        return self.tasks.spawn(self.reads.read(0, 100, None, committed=False))


@pytest.fixture
async def followed():
    made = Followed()
    yield made
    await made.tasks.close()


async def test_a_read_waits_for_the_comparison_of_epochs_by_the_clock(followed):
    """KRL-8, KRL-11."""
    followed.log.compare()
    reading = followed.read()
    await followed.clock.advance(WAIT_MS - 1)
    assert not reading.done()
    await followed.clock.advance(1)
    assert reading.result().headers == ()
    assert followed.brokers.fetches == 0


async def test_a_read_that_shares_a_fetch_keeps_its_own_deadline(followed):
    """KRL-5, KRL-11."""
    followed.read()
    await followed.clock.advance(1)
    sharing = followed.read()
    await followed.clock.advance(WAIT_MS - 1)
    assert not sharing.done()
    await followed.clock.advance(1)
    assert sharing.result().headers == ()
    assert followed.brokers.fetches == 1


async def test_closing_ends_a_read_that_shares_a_fetch(followed):
    """KRL-11."""
    followed.read()
    await followed.clock.advance(1)
    sharing = followed.read()
    await followed.clock.advance(1)
    followed.reads.close()
    await followed.clock.advance(QUICK.retry_most_ms)
    with pytest.raises(LogFailedError):
        sharing.result()
