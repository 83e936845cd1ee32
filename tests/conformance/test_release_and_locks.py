"""Section F: release of a member and lock expiry."""

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.events import Tick
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene


@scenario("REL-S02")
def test_release_leaves_acknowledged_records():
    scene = Scene().acquired("0-4", "5-6", "10-18")
    assert scene.ack("5-6 ACCEPT; 10-18 ACCEPT") == "NONE"
    assert scene.dcc == 11
    assert scene.release() == "NONE"
    assert scene.next == 0
    assert scene.states(5, 18) == "5-6 ACK(1) 10-18 ACK(1)"
    assert scene.dcc == 11


@scenario("REL-S03")
def test_release_leaves_other_members():
    scene = Scene().acquired("5-5", m="m2")
    scene.acquired("10-20")
    assert scene.ack("10-18 [1,1,0,0,1,0,1,0,1]") == "NONE"
    assert scene.dcc == 9
    assert scene.release("m1") == "NONE"
    assert scene.next == 19
    assert scene.states(5, 5) == "5 ACQ(1,m2)"
    assert scene.states(19, 20) == "19-20 AV(1)"
    assert scene.release("m2") == "NONE"
    assert scene.next == 5
    assert scene.states(5, 5) == "5 AV(1)"


@scenario("REL-S04")
def test_release_with_an_empty_cache():
    scene = Scene()
    assert scene.release() == "NONE"
    assert (scene.writes, scene.next) == ([], 0)


@scenario("REL-S05")
def test_release_at_the_limit_archives():
    scene = Scene(limit=2).acquired("0-9", "10-14")
    assert scene.ack("10-14 RELEASE") == "NONE"
    assert scene.fetch("10-14") == "10-14(2)"
    assert scene.release() == "NONE"
    assert scene.next == 0
    assert scene.cache == "B 0-9 AV(1), B 10-14 ARC(2)"
    assert scene.dcc == 5


@scenario("REL-S06")
def test_release_at_the_limit_of_parts():
    scene = Scene(limit=2).acquired("10-14", "15-19", "20-24")
    assert scene.ack("13-16 RELEASE; 17-19 REJECT; 20-24 RELEASE") == "NONE"
    for log in ("13-14", "15-16", "20-24"):
        assert scene.fetch(log) == f"{log}(2)"
    assert scene.release() == "NONE"
    assert scene.states(10, 24) == "10-12 AV(1) 13-16 ARC(2) 17-19 ARC(1) 20-24 ARC(2)"
    assert (scene.next, scene.dcc) == (10, 12)


@scenario("REL-S07")
def test_a_failed_write_leaves_the_records_with_the_member():
    scene = Scene().acquired("5-14")
    scene.fail(ErrorCode.GROUP_ID_NOT_FOUND)
    assert scene.release() == "GROUP_ID_NOT_FOUND"
    assert scene.cache == "B 5-14 ACQ(1,m1)"
    assert scene.dcc == 0


@scenario("REL-S09")
def test_release_never_lowers_the_delivery_count():
    scene = Scene().acquired("5-9", "10-14")
    assert scene.ack("12-13 ACCEPT") == "NONE"
    scene.lso(11)
    assert scene.release() == "NONE"
    assert scene.cache == "B 5-9 ARC(1), O 10-14: 10 ARC(1) 11 AV(1) 12-13 ACK(1) 14 AV(1)"
    assert scene.dcc == 2


@scenario("REL-S10")
def test_release_of_parts_that_another_member_took_over():
    scene = Scene().acquired("5-14")
    assert scene.ack("5-6 ACCEPT") == "NONE"
    assert scene.ack("10-12 RELEASE") == "NONE"
    assert scene.fetch("10-12", m="m2") == "10-12(2)"
    assert scene.release("m1") == "NONE"
    assert scene.states(7, 14) == "7-9 AV(1) 10-12 ACQ(2,m2) 13-14 AV(1)"
    assert scene.next == 7


@scenario("LK-S01")
def test_expiry_of_a_batch():
    scene = Scene(lock_ms=100).acquired("10-14")
    assert scene.timers == 1
    scene.tick()
    assert scene.cache == "B 10-14 AV(1)"
    assert (scene.next, scene.timers, scene.world.expired_records) == (10, 0, 5)


@scenario("LK-S03")
def test_expiry_of_a_part_that_was_acquired_again():
    scene = Scene().acquired("10-17")
    scene.tick()
    assert scene.fetch("12-14") == "12-14(2)"
    assert scene.timers == 3
    scene.tick()
    assert scene.states(10, 17) == "10-11 AV(1) 12-14 AV(2) 15-17 AV(1)"
    assert scene.next == 10


@scenario("LK-S04")
def test_release_ends_the_timer():
    scene = Scene().acquired("5-14")
    assert scene.ack("5-14 RELEASE") == "NONE"
    assert (scene.timers, scene.cache, scene.next) == (0, "B 5-14 AV(1)", 5)


@scenario("LK-S05")
def test_only_what_is_still_acquired_expires():
    scene = Scene().acquired("1-2", "5-6", "10-18")
    assert scene.timers == 3
    assert scene.ack("5-6 ACCEPT; 10-18 ACCEPT") == "NONE"
    assert (scene.timers, scene.dcc) == (1, 11)
    scene.tick()
    assert scene.cache == "B 1-2 AV(1), B 5-6 ACK(1), B 10-18 ACK(1)"
    assert scene.next == 1


@scenario("LK-S06")
def test_expiry_at_the_limit_archives():
    scene = Scene(limit=2).acquired("0-9", "10-19")
    scene.tick()
    assert scene.cache == "B 0-9 AV(1), B 10-19 AV(1)"
    assert scene.next == 0
    assert scene.fetch("10-19") == "10-19(2)"
    scene.tick()
    assert scene.cache == "B 0-9 AV(1), B 10-19 ARC(2)"
    assert (scene.dcc, scene.next) == (10, 0)


@scenario("LK-S07")
def test_expiry_moves_the_start_offset():
    """OFF-13."""
    scene = Scene(limit=2).acquired("0-9")
    scene.tick()
    assert scene.fetch("0-4") == "0-4(2)"
    scene.tick()
    assert scene.states(0, 9) == "0-4 ARC(2) 5-9 AV(1)"
    assert (scene.start, scene.next, scene.dcc) == (5, 5, 0)


@scenario("LK-S08")
def test_expiry_empties_the_cache():
    scene = Scene(limit=2).acquired("0-9")
    scene.tick()
    assert scene.fetch("0-9") == "0-9(2)"
    scene.tick()
    assert (scene.cache, scene.start, scene.next) == ("", 10, 10)


@scenario("LK-S10")
def test_each_offset_has_its_timer_after_a_partial_acknowledgement():
    scene = Scene().acquired("5-9")
    assert scene.ack("5-6 RELEASE") == "NONE"
    assert scene.timers == 3
    assert scene.ack("8-9 ACCEPT") == "NONE"
    assert scene.timers == 1
    scene.tick()
    assert scene.states(5, 9) == "5-7 AV(1) 8-9 ACK(1)"
    assert (scene.dcc, scene.next) == (2, 5)


@scenario("LK-S11")
def test_a_failed_write_does_not_undo_an_expiry():
    scene = Scene().acquired("5-14")
    scene.fail(ErrorCode.GROUP_ID_NOT_FOUND)
    scene.tick()
    assert (scene.cache, scene.next) == ("B 5-14 AV(1)", 5)


@scenario("LK-S12")
def test_a_failed_write_keeps_the_count_of_an_expiry():
    scene = Scene(limit=2).acquired("5-14", "15-24")
    scene.tick()
    assert scene.fetch("15-24") == "15-24(2)"
    scene.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    scene.tick()
    assert scene.entry(15) == "B 15-24 ARC(2)"
    assert scene.dcc == 10


@scenario("LK-S13")
def test_expiry_meets_a_concurrent_acknowledgement():
    scene = Scene()
    assert scene.fetch("0-4 5-19", bs=5, max=10) == "0-4(1) 5-19(1)"
    scene.hold()
    assert scene.ack("0 RELEASE; 1 ACCEPT; 5-19 ACCEPT") == "PENDING"
    assert scene.dcc == 16
    scene.complete()
    scene.ok()
    before = scene.states(0, 19)
    assert before == "0 AV(1) 1 ACK(1) 2-4 ACQ(1,m1) 5-19 ACK(1)"
    # the timers of 0, 1 and 5-19 are gone; one unit expires, that of 2
    scene.world.now_ms += 30_000
    scene.world.step(Tick(lock_limit=1))
    assert scene.states(0, 19) == "0 AV(1) 1 ACK(1) 2 AV(1) 3-4 ACQ(1,m1) 5-19 ACK(1)"
    assert (scene.dcc, scene.start) == (16, 0)


@scenario("LK-S14")
def test_a_new_duration_holds_for_new_locks():
    scene = Scene(lock_ms=1000).acquired("0-4")
    scene.configure(record_lock_duration_ms=5000)
    scene.acquired("5-9")
    now = scene.world.now_ms
    assert scene.machine.state_at(0).lock_deadline_ms == now + 1000
    assert scene.machine.state_at(5).lock_deadline_ms == now + 5000


@scenario("LK-S15")
def test_expiry_across_the_start_offset():
    scene = Scene().acquired("5-9", "10-14")
    scene.lso(11)
    scene.tick()
    assert scene.cache == "B 5-9 ARC(1), O 10-14: 10 ARC(1) 11-14 AV(1)"
    assert (scene.next, scene.dcc) == (11, 0)
