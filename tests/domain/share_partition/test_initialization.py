"""How a share partition begins: what was read, or where the log begins (spec INI)."""

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, InFlightLimitType
from sharemesh.domain.share_partition.effects import (
    Dropped,
    Initialized,
    ReadState,
    ResolveStartOffset,
    WakeWaiters,
)
from sharemesh.domain.share_partition.events import (
    Initialize,
    Lifecycle,
    StartOffsetResolved,
    StateRead,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.partition_machine import KEY

NONE, TIMED_OUT = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT


def resolving() -> SharePartition:
    """Return a share partition that has no state and asks where to begin."""
    machine = SharePartition(KEY, 7, GroupConfig())
    assert machine.step(Initialize(), now_ms=0) == (ReadState(7),)
    (effect,) = machine.step(StateRead(NONE), now_ms=0)
    assert isinstance(effect, ResolveStartOffset)
    return machine


def test_ini_4_without_a_state_the_log_says_where_to_begin():
    machine = resolving()
    assert machine.step(StartOffsetResolved(42), now_ms=0) == (Initialized(NONE), WakeWaiters())
    assert (machine.state, machine.start_offset) == (Lifecycle.ACTIVE, 42)
    assert machine.batch_count == 0


@pytest.mark.parametrize(
    ("message", "told"), [("broker 2 is away", "broker 2 is away"), ("", "REQUEST_TIMED_OUT")]
)
def test_ini_13_a_log_that_does_not_say_where_it_begins_fails_the_share_partition(message, told):
    machine = resolving()
    effects = machine.step(StartOffsetResolved(-1, TIMED_OUT, message), now_ms=0)
    words = f"the start offset could not be looked up in the log: {told}"
    assert effects == (Initialized(TIMED_OUT, words), WakeWaiters(), Dropped(TIMED_OUT))
    assert machine.state is Lifecycle.FAILED
    assert machine.step(StartOffsetResolved(42), now_ms=1) == ()


@pytest.mark.parametrize(
    ("counted", "used"), [(InFlightLimitType.LOCKS, 3 / 100), (InFlightLimitType.SPAN, 0)]
)
def test_win_10_the_part_of_the_runs_in_use_is_told_where_locks_are_counted(counted, used):
    config = GroupConfig(in_flight_limit_type=counted, partition_max_runs=100)
    machine = SharePartition(KEY, 0, config)
    machine.step(Initialize(), now_ms=0)
    read = [StateBatch(first, first, DeliveryState.ACKNOWLEDGED, 1) for first in (2, 4, 6)]
    machine.step(StateRead(NONE, 0, 0, read), now_ms=0)
    assert machine.runs_used == used
    assert machine.batch_count > 0
