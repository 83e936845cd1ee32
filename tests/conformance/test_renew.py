"""Section E: renew, as far as the share partition decides it."""

from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene


@scenario("REN-S01")
def test_renew_of_a_whole_batch_restarts_its_timer():
    scene = Scene(limit=2, lock_ms=100).acquired("0-0")
    scene.world.advance(60)
    assert scene.ack("0 RENEW") == "NONE"
    assert scene.cache == "B 0 ACQ(1,m1)"
    assert scene.machine.state_at(0).lock_deadline_ms == scene.world.now_ms + 100
    assert (scene.timers, scene.writes) == (1, [])
    scene.tick()
    assert scene.cache == "B 0 AV(1)"
    assert len(scene.writes) == 1


@scenario("REN-S02")
def test_an_expired_lock_cannot_be_renewed():
    scene = Scene(limit=2, lock_ms=100).acquired("0-0")
    scene.tick()
    assert scene.ack("0 RENEW") == "INVALID_RECORD_STATE"
    assert scene.cache == "B 0 AV(1)"
    assert len(scene.writes) == 1


@scenario("REN-S03")
def test_renew_of_one_offset():
    scene = Scene(limit=2, lock_ms=100).acquired("0-1")
    assert scene.ack("0-1 [4,1]") == "NONE"
    assert scene.cache == "O 0-1: 0 ACQ(1,m1) 1 ACK(1)"
    assert scene.machine.state_at(0).lock_deadline_ms is not None
    assert len(scene.writes) == 1
    scene.tick()
    assert scene.states(0, 0) == "0 AV(1)"
    assert len(scene.writes) == 2


@scenario("REN-S04")
def test_a_renewed_batch_outlives_a_move_of_the_log_start():
    scene = Scene().acquired("0-9")
    assert scene.ack("0-9 RENEW") == "NONE"
    scene.lso(5)
    assert scene.at == (5, 9, 10)
    assert scene.cache == "B 0-9 ACQ(1,m1)"
    assert (scene.timers, scene.writes) == (1, [])


@scenario("REN-S05")
def test_renewed_offsets_below_the_log_start_are_archived_at_expiry():
    scene = Scene(limit=2).acquired("0-4")
    assert scene.ack("0-4 [4,1,4,1,4]") == "NONE"
    scene.lso(3)
    assert scene.at == (3, 4, 5)
    assert scene.timers == 3
    scene.tick()
    # the start offset has moved on to 4 and stays in the entry
    assert scene.states(0, 4) == "0 ARC(1) 1 ACK(1) 2 ARC(1) 3 ACK(1) 4 AV(1)"
    assert len(scene.writes) == 4


@scenario("REN-S11")
def test_a_later_error_does_not_undo_a_renewal():
    scene = Scene(lock_ms=1000).acquired("0-0")
    scene.acquired("1-1", m="m2")
    scene.world.advance(300)
    assert scene.ack("0 RENEW; 1 ACCEPT") == "INVALID_RECORD_STATE"
    assert scene.machine.state_at(0).lock_deadline_ms == scene.world.now_ms + 1000
    assert scene.states(0, 1) == "0 ACQ(1,m1) 1 ACQ(1,m2)"


def test_renew_can_be_switched_off_for_a_group():
    scene = Scene(lock_ms=1000, renew=False).acquired("0-4")
    scene.world.advance(10)
    before = scene.machine.state_at(0)
    assert scene.ack("0-4 RENEW") == "INVALID_RECORD_STATE"
    assert scene.machine.state_at(0) == before
