"""Section P: the KIP's worked example, and the old control records."""

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.old_control_records import (
    OLD_AVAILABLE,
    OldRecordsError,
    OldState,
    ShareCheckpoint,
    ShareDelta,
    import_records,
)
from sharemesh.domain.state_batch import StateBatch, combine
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene

LOG = "100-109 110-112 113-118 119-119 120-120"
GROUP = GroupId("g")
KEY = SharePartitionKey(GROUP, TopicId(bytes(16)), 0)


def old_states(runs):
    """Return (first, last, state, delivery count) as the old design recorded them (OLD-4).

    Acquired records were written as available with one delivery less.
    """
    return tuple(
        OldState(first, last, OLD_AVAILABLE, count - 1)
        if state is DeliveryState.ACQUIRED
        else OldState(first, last, int(state), count)
        for first, last, state, count in runs
    )


@scenario("OLDX-1")
def test_the_worked_example_of_the_kip():
    scene = Scene.init(100)
    seen, writes = [], []

    def step(after: int) -> None:
        seen.append((scene.start, scene.end, scene.next))
        if len(scene.writes) > sum(count for _, count in writes):
            writes.append((after, len(scene.writes) - sum(count for _, count in writes)))

    assert (scene.start, scene.end, scene.cache) == (100, 100, "")
    assert scene.fetch(LOG, m="c1", max=10) == "100-109(1)"
    assert scene.cache == "B 100-109 ACQ(1,c1)"
    step(2)
    assert scene.ack("100-109 ACCEPT", m="c1") == "NONE"
    assert scene.last_write == "start 100: 100-109 2 1"
    assert scene.cache == ""
    step(3)
    assert scene.fetch("110-112 113-118 119-119 120-120", m="c1", max=1) == "110-112(1)"
    scene.world.advance(1000)
    assert scene.fetch("113-118 119-119 120-120", m="c2", max=1) == "113-118(1)"
    assert scene.fetch("119-119 120-120", m="c3", max=1) == "119-119(1)"
    assert scene.states(110, 119) == "110-112 ACQ(1,c1) 113-118 ACQ(1,c2) 119 ACQ(1,c3)"
    step(4)
    assert scene.ack("110 RELEASE", m="c1") == "NONE"
    assert scene.states(110, 119) == ("110 AV(1) 111-112 ACQ(1,c1) 113-118 ACQ(1,c2) 119 ACQ(1,c3)")
    step(5)
    assert scene.ack("119 ACCEPT", m="c3") == "NONE"
    assert (scene.states(119, 119), scene.start) == ("119 ACK(1)", 110)
    step(6)
    assert scene.fetch("110-112", m="c1") == "110-110(2)"
    assert scene.fetch("120-120", m="c1") == "120-120(1)"
    assert scene.states(110, 110) == "110 ACQ(2,c1)"
    assert scene.states(120, 120) == "120 ACQ(1,c1)"
    step(7)
    scene.world.advance(29_000)
    assert scene.states(111, 118) == "111-112 AV(1) 113-118 ACQ(1,c2)"
    step(8)
    assert scene.ack("113-118 ACCEPT", m="c2") == "NONE"
    assert (scene.states(113, 118), scene.start) == ("113-118 ACK(1)", 110)
    step(9)
    assert scene.fetch("110-112", m="c3") == "111-112(2)"
    assert scene.states(111, 112) == "111-112 ACQ(2,c3)"
    step(10)
    assert scene.ack("110 ACCEPT", m="c1") == "NONE"
    assert scene.start == 111
    step(11)
    assert scene.ack("111-112 ACCEPT", m="c3") == "NONE"
    assert scene.cache == "B 120 ACQ(1,c1)"
    step(12)
    assert [start for start, _, _ in seen] == [
        100,
        110,
        110,
        110,
        110,
        110,
        110,
        110,
        110,
        111,
        120,
    ]
    assert [end for _, end, _ in seen] == [109, 110, 119, 119, 119, *[120] * 6]
    assert [next_ for _, _, next_ in seen] == [
        110,
        110,
        120,
        110,
        110,
        121,
        111,
        111,
        121,
        121,
        121,
    ]
    # the locks of 111 and 112 are one each; their expiries write once each (LK-2)
    assert [after for after, _ in writes] == [3, 5, 6, 8, 9, 11, 12]


@scenario("OLDX-2")
def test_acquired_records_in_old_and_new_form():
    runs = [(100, 109, DeliveryState.ACQUIRED, 1), (110, 110, DeliveryState.AVAILABLE, 1)]
    states = old_states(runs)
    assert states == (OldState(100, 109, 0, 0), OldState(110, 110, 0, 1))
    checkpoint = ShareCheckpoint(0, GROUP, 1, 100, 100, ())
    _, (update,) = import_records(
        KEY, [checkpoint, ShareDelta(1, GROUP, 1, 0, states)], timestamp_ms=0
    )
    assert update.batches == (StateBatch(110, 110, DeliveryState.AVAILABLE, 1),)


@scenario("OLDX-3")
def test_recovery_follows_the_deltas_of_the_newest_checkpoint():
    log = [
        ShareCheckpoint(120, GROUP, 1, 90, 100, (OldState(90, 99, 2, 9),)),
        ShareCheckpoint(130, GROUP, 2, 100, 110, (OldState(100, 104, 0, 1),)),
        ShareDelta(131, GROUP, 2, 130, (OldState(100, 102, 2, 1),)),
        ShareDelta(133, GROUP, 1, 120, (OldState(100, 109, 4, 9),)),
        ShareDelta(135, GROUP, 2, 131, (OldState(105, 109, 3, 2),)),
    ]
    snapshot, updates = import_records(KEY, log, timestamp_ms=5)
    assert (snapshot.snapshot_epoch, snapshot.start_offset) == (2, 100)
    assert len(updates) == 2
    state = snapshot.batches
    for update in updates:
        state = combine(state, update.batches, start_offset=update.start_offset)
    assert state == (
        StateBatch(100, 102, DeliveryState.ACKNOWLEDGED, 1),
        StateBatch(103, 104, DeliveryState.AVAILABLE, 1),
        StateBatch(105, 109, DeliveryState.ARCHIVED, 2),
    )
    assert updates[-1].delivery_complete_count == 8


@pytest.mark.parametrize(
    "log",
    [
        [],
        [ShareCheckpoint(0, GROUP, 1, 0, 0, ()), ShareDelta(5, GROUP, 1, 3, ())],
        [ShareCheckpoint(0, GROUP, 1, 0, 0, (OldState(4, 3, 0, 1),))],
        [ShareCheckpoint(0, GROUP, 1, 0, 0, (OldState(3, 4, 7, 1),))],
    ],
)
def test_old_records_that_make_no_sense_are_refused(log):
    with pytest.raises(OldRecordsError):
        import_records(KEY, log, timestamp_ms=0)
