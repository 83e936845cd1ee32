"""The checker of rates complains of debts that nobody made, or that are lost, and of no others."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sharemesh.cluster.quota_table import QuotaTable
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import MemberId, TopicId, TopicPartition
from sharemesh.domain.quota.bounds import QuotaBounds
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.domain.quota.rates import RateAccount
from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.requests.acquisition import (
    FetchAcquisition,
    FetchOrder,
    PartitionFetch,
)
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.telemetry.instruments import Registry
from sharemesh.throttling.quota_signals import QuotaSignals
from sharemesh.timers import Timers
from tests.clocks import ManualClock
from tests.simulation.checkers.rates import RateChecker
from tests.simulation.event_log import EventLog
from tests.simulation.loop import PROCESS, Process
from tests.simulation.patching import Patches
from tests.simulation.world import Options, World

JANE, TOWER = "User:jane", "tower"
READER: Any = SimpleNamespace(principal=JANE, group_id=TOWER)
LOW, HIGH, SIZE = 1_000, 20_000, 2_650
DEBT_MS = (SIZE - LOW) * 1_000 / HIGH
ORDER = FetchOrder(MemberId("m"), AcquireMode.BATCH_OPTIMIZED, 1, max_records=9, max_bytes=9_999)


class View:
    """Quotas as a process sees them, without a store."""

    def __init__(self) -> None:
        self.tables = SimpleNamespace(quotas=QuotaBounds(), unreadable={})
        self._callbacks: list[Callable[[StateChanges], None]] = []

    def subscribe(self, callback):
        self._callbacks.append(callback)

    def put(self, rate):
        self.tables.quotas.put(
            QuotaEntity(EntityType.USER, JANE), {QuotaName.CONSUMER_BYTE_RATE: rate}
        )
        for callback in self._callbacks:
            callback(StateChanges(quotas=True))


class Leader:
    """Whose fetches all get one batch of ``SIZE`` bytes, and whose quotas change as told."""

    def __init__(self, world) -> None:
        self.quotas = View()
        clock = ManualClock()
        unused: Any = None
        PROCESS.set(Process(world.loop, "leader"))
        world.nodes["leader"] = SimpleNamespace(coordination=SimpleNamespace(clock=clock))
        table = QuotaTable(cast(WatchedView, self.quotas), super_users=())
        signals = QuotaSignals(Registry(), clock)
        self.pacing = LeaderPacing(table, clock, Timers(clock), signals, LeaderSettings())
        self._acquisition = FetchAcquisition(unused, unused, self.pacing)

    async def fetch(self):
        await self._acquisition.take((), self, ORDER, READER)

    def told_ms(self):
        return self.pacing.throttle_ms(JANE, TOWER)


async def _takes(acquisition, runners, owner, order, reader, taken):
    partition = TopicPartition(TopicId(b"\7" * 16), 0)
    taken.append(PartitionFetch(partition, 1, bytes(SIZE), count=1))


@pytest.fixture
def patches() -> Iterator[Patches]:
    patches = Patches()
    patches.setattr(FetchAcquisition, "_take", _takes)
    yield patches
    patches.undo()


@pytest.fixture
def world(patches) -> Iterator[World]:
    world = World(1, Options(), EventLog())
    RateChecker(world).install(patches)
    yield world
    world.loop.close()


@pytest.mark.parametrize(("is_looked_at", "told_ms"), [(True, 83), (False, 0)])
async def test_who_was_looked_at_before_a_quota_is_raised_goes_on_with_what_it_had(
    world, is_looked_at, told_ms
):
    leader = Leader(world)
    leader.quotas.put(LOW)
    if is_looked_at:
        assert leader.pacing.is_open(JANE, TOWER)
    leader.quotas.put(HIGH)
    await leader.fetch()
    assert leader.told_ms() == told_ms
    assert world.event_log.violations == []


async def test_a_debt_that_nobody_made_is_a_violation(world, patches):
    leader = Leader(world)
    real = RateAccount.change

    def change(account, rate, now_ms):
        real(account, rate, now_ms)
        account._tokens = 0

    patches.setattr(RateAccount, "change", change)
    leader.quotas.put(LOW)
    assert leader.pacing.is_open(JANE, TOWER)
    leader.quotas.put(HIGH)
    await leader.fetch()
    told_ms = leader.told_ms()
    [text] = world.event_log.violations
    assert text.endswith(f"is told a throttle time of {told_ms} ms, not {DEBT_MS:.0f}")


async def test_a_debt_that_is_lost_when_a_quota_is_raised_is_a_violation(world, patches):
    leader = Leader(world)
    real = RateAccount.change

    def change(account, rate, now_ms):
        real(account, rate, now_ms)
        account._tokens = account.burst

    patches.setattr(RateAccount, "change", change)
    leader.quotas.put(LOW)
    await leader.fetch()
    leader.quotas.put(HIGH)
    assert leader.told_ms() == 0
    [text] = world.event_log.violations
    assert text.endswith(f"is told a throttle time of 0 ms, not {DEBT_MS:.0f}")
