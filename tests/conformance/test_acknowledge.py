"""Section D: acknowledge."""

import pytest

from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene


@scenario("ACK-S01")
def test_a_whole_batch():
    scene = Scene().acquired("5-14")
    assert scene.ack("5-14 ACCEPT") == "NONE"
    assert scene.at == (15, 15, 15)
    assert (scene.cache, scene.dcc) == ("", 0)
    assert len(scene.writes) == 1
    assert scene.last_write == "start 5: 5-14 2 1"


@scenario("ACK-S02")
def test_a_record_behind_the_start_offset():
    scene = Scene().acquired("0-0", "1-1")
    assert scene.ack("1 ACCEPT") == "NONE"
    assert scene.next == 2
    assert scene.cache == "B 0 ACQ(1,m1), B 1 ACK(1)"
    assert (scene.dcc, scene.start) == (1, 0)


@scenario("ACK-S03")
def test_gaps_and_types_per_offset():
    scene = Scene().acquired("5-6", "10-18")
    assert scene.ack("5-6 RELEASE; 10-18 [2,2,2,2,2,0,0,0,1]") == "NONE"
    assert scene.next == 5
    assert scene.cache == "B 5-6 AV(1), O 10-18: 10-14 AV(1) 15-17 ARC(1) 18 ACK(1)"
    assert scene.dcc == 4


@scenario("ACK-S05")
def test_offsets_that_are_not_cached():
    scene = Scene()
    assert scene.ack("0-15 REJECT") == "INVALID_RECORD_STATE"
    scene.acquired("5-9")
    assert scene.ack("20-25 REJECT") == "INVALID_REQUEST"


@scenario("ACK-S06")
def test_a_range_that_ends_in_a_hole_is_refused_until_the_hole_is_acquired():
    scene = Scene().acquired("0-4", "20-24")
    before = scene.cache
    assert scene.ack("0-10 ACCEPT; 20-24 ACCEPT") == "INVALID_REQUEST"
    assert scene.cache == before
    scene.acquired("5-10")
    assert scene.ack("0-10 ACCEPT; 20-24 ACCEPT") == "NONE"


@scenario("ACK-S09")
def test_an_error_in_a_whole_batch_rolls_everything_back():
    scene = Scene().acquired("5-9", "10-14", "15-19")
    what = "5-9 RELEASE; 10-14 ACCEPT; 15-19 ACCEPT; 15-19 ACCEPT"
    assert scene.ack(what) == "INVALID_RECORD_STATE"
    assert scene.cache == "B 5-9 ACQ(1,m1), B 10-14 ACQ(1,m1), B 15-19 ACQ(1,m1)"
    assert (scene.dcc, scene.writes) == (0, [])


@scenario("ACK-S10")
def test_an_error_in_a_part_rolls_everything_back():
    scene = Scene().acquired("5-9", "10-14", "15-19")
    what = "5-9 RELEASE; 10-14 ACCEPT; 15-19 ACCEPT; 16-19 ACCEPT"
    assert scene.ack(what) == "INVALID_RECORD_STATE"
    assert scene.states(5, 19) == "5-19 ACQ(1,m1)"
    assert scene.dcc == 0


@scenario("ACK-S12")
def test_only_the_owner():
    scene = Scene().acquired("5-11")
    assert scene.ack("5-7 ACCEPT") == "NONE"
    assert scene.ack("9-11 ACCEPT", m="m2") == "INVALID_RECORD_STATE"


@scenario("ACK-S13")
def test_release_at_the_limit_archives():
    scene = Scene(limit=2).acquired("5-14")
    assert scene.ack("5-14 RELEASE") == "NONE"
    assert scene.fetch("5-14") == "5-14(2)"
    assert scene.ack("5-14 RELEASE") == "NONE"
    assert scene.at == (15, 15, 15)
    assert scene.cache == ""


@scenario("ACK-S14")
def test_release_at_the_limit_of_a_part():
    scene = Scene(limit=2).acquired("10-14", "15-19")
    assert scene.ack("10-12 ACCEPT; 13-16 RELEASE; 17-19 ACCEPT") == "NONE"
    assert scene.fetch("13-14") == "13-14(2)"
    assert scene.fetch("15-16") == "15-16(2)"
    assert scene.ack("13-16 RELEASE") == "NONE"
    assert (scene.next, scene.cache) == (20, "")


@scenario("ACK-S15")
def test_release_at_the_limit_of_the_head():
    scene = Scene(limit=2).acquired("0-4")
    assert scene.ack("0-1 RELEASE") == "NONE"
    assert scene.fetch("0-1") == "0-1(2)"
    assert scene.ack("0-4 RELEASE") == "NONE"
    assert scene.cache == "O 0-4: 0-1 ARC(2) 2-4 AV(1)"
    assert (scene.next, scene.start) == (2, 2)


@scenario("ACK-S16")
@pytest.mark.parametrize("kind", ["ACCEPT", "REJECT"])
def test_all_in_flight_records_at_once(kind):
    scene = Scene().acquired("0-249")
    assert not scene.machine.can_acquire()
    assert scene.ack(f"0-249 {kind}") == "NONE"
    assert scene.at == (250, 250, 250)
    assert scene.machine.can_acquire()
    assert scene.cache == ""


@scenario("ACK-S17")
def test_release_does_not_move_the_start_offset():
    scene = Scene().acquired("0-249")
    assert scene.ack("0-249 RELEASE") == "NONE"
    assert (scene.start, scene.end) == (0, 249)
    assert scene.cache == "B 0-249 AV(1)"
    assert scene.machine.can_acquire()


@scenario("ACK-S18")
def test_the_start_offset_stops_inside_a_batch():
    scene = Scene(max_in_flight=20)
    assert scene.fetch("0-14") == "0-14(1)"
    assert scene.fetch("15-29") == "15-29(1)"
    assert not scene.machine.can_acquire()
    assert scene.ack("0-12 ACCEPT") == "NONE"
    assert scene.at == (13, 29, 30)
    assert scene.entry(0).startswith("O 0-14:")
    assert scene.machine.can_acquire()
    assert scene.dcc == 0


@scenario("ACK-S20")
def test_acknowledgements_in_between():
    scene = Scene(max_in_flight=20)
    scene.fetch("0-14")
    scene.fetch("15-29")
    assert scene.ack("10-14 REJECT") == "NONE"
    assert (scene.start, scene.end, scene.dcc) == (0, 29, 5)
    assert not scene.machine.can_acquire()


@scenario("ACK-S21")
def test_acquisitions_and_acknowledgements_in_turn():
    scene = Scene(max_in_flight=100).acquired("0-19", "20-39", "40-59")
    assert scene.ack("0-19 ACCEPT") == "NONE"
    assert scene.start == 20
    scene.acquired("60-79")
    assert scene.ack("20-49 ACCEPT") == "NONE"
    assert scene.start == 50
    assert scene.entry(40).startswith("O 40-59:")
    scene.acquired("80-179")
    assert not scene.machine.can_acquire()
    assert scene.ack("50-179 REJECT") == "NONE"
    assert (scene.start, scene.end, scene.cache) == (180, 180, "")
    scene.acquired("180-199")
    assert scene.at == (180, 199, 200)


@scenario("ACK-S22")
def test_the_window_stops_the_start_offset():
    scene = Scene.init(11, "11-20 AV(1), 31-40 ARC(1)")
    assert scene.fetch("11-20") == "11-20(2)"
    assert scene.ack("11-20 ACCEPT") == "NONE"
    assert scene.at == (21, 40, 21)
    assert (scene.window, scene.dcc) == ((21, 40), 10)


@scenario("ACK-S23")
def test_unknown_types():
    """RS-2."""
    scene = Scene().acquired("1-10")
    assert scene.ack("1-10 [5]") == "INVALID_REQUEST"
    assert scene.ack("2-3 [-1]") == "INVALID_REQUEST"
    assert scene.ack("2-3 [1,7]") == "INVALID_REQUEST"


@scenario("ACK-S24")
def test_what_changes_nothing_writes_nothing():
    scene = Scene().acquired("2-6")
    assert scene.ack("2-6 ACCEPT") == "NONE"
    assert scene.release() == "NONE"
    assert len(scene.writes) == 1


@scenario("ACK-S25")
def test_all_types_in_one_call():
    """RS-2."""
    scene = Scene().acquired("5-16")
    assert scene.count == 12
    assert scene.ack("5-9 GAP; 10-11 ACCEPT; 12-14 REJECT; 15-16 RELEASE") == "NONE"
    assert (scene.start, scene.next, scene.dcc) == (15, 15, 0)
    assert scene.entry(5).endswith("15-16 AV(1)")


@scenario("ACK-S26")
def test_an_acknowledgement_needs_no_session_entry_and_is_all_or_nothing():
    scene = Scene().acquired("0-9")
    assert scene.ack("5-9 ACCEPT") == "NONE"
    assert scene.ack("0-5 ACCEPT") == "INVALID_RECORD_STATE"
    assert scene.states(0, 4) == "0-4 ACQ(1,m1)"


@pytest.mark.parametrize("what", ["7-5 ACCEPT", "5-9 [1,1]"])
def test_malformed_ranges_are_refused_and_change_nothing(what):
    scene = Scene().acquired("5-9")
    before = scene.cache
    assert scene.ack(what) == "INVALID_REQUEST"
    assert scene.cache == before
