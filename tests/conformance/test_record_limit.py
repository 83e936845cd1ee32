"""Section C: record-limit mode and throttling."""

from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene


@scenario("RL-S01")
def test_two_members_share_one_log_batch():
    scene = Scene()
    assert scene.fetch("0-9", rl=True, max=5) == "0-4(1)"
    assert scene.next == 5
    assert scene.cache == "O 0-9: 0-4 ACQ(1,m1) 5-9 AV(0)"
    assert scene.fetch("0-9", m="m2", rl=True, max=5) == "5-9(1)"
    assert scene.next == 10
    assert scene.cache == "O 0-9: 0-4 ACQ(1,m1) 5-9 ACQ(1,m2)"
    assert scene.machine.in_flight_count == 10


@scenario("RL-S02")
def test_the_cached_batch_runs_to_the_end_of_the_log_batch():
    scene = Scene()
    assert scene.fetch("10-14 15-29 30-44", rl=True, max=10) == "10-19(1)"
    assert scene.next == 20
    assert scene.cache == "O 10-29: 10-19 ACQ(1,m1) 20-29 AV(0)"
    assert scene.machine.in_flight_count == 20


@scenario("RL-S03")
def test_a_range_that_fits_is_one_batch_with_one_timer():
    scene = Scene()
    assert scene.fetch("10-14 15-19 20-24", rl=True, max=20, bs=2) == "10-24(1)"
    assert scene.cache == "B 10-24 ACQ(1,m1)"
    assert (scene.timers, scene.next) == (1, 25)


@scenario("RL-S04")
def test_acknowledged_parts_and_a_second_member():
    scene = Scene()
    assert scene.fetch("5-20", rl=True, max=10) == "5-14(1)"
    assert scene.next == 15
    for what in ("5-9 GAP", "10 RELEASE", "11 ACCEPT", "12 ACCEPT"):
        assert scene.ack(what) == "NONE"
    assert scene.next == 10
    assert scene.fetch("5-20", m="m2", rl=True, max=10) == "10-10(2) 15-20(1)"
    assert scene.count == 7
    assert scene.states(5, 20) == (
        "5-9 ARC(1) 10 ACQ(2,m2) 11-12 ACK(1) 13-14 ACQ(1,m1) 15-20 ACQ(1,m2)"
    )
    assert scene.machine.in_flight_count == 11


@scenario("RL-S07")
def test_each_acquired_offset_has_a_timer():
    scene = Scene(lock_ms=100)
    assert scene.fetch("0-4 5-19", rl=True, max=2) == "0-1(1)"
    assert scene.timers == 2
    scene.tick()
    assert scene.states(0, 1) == "0-1 AV(1)"
    assert (scene.next, scene.world.expired_records) == (0, 2)
    assert scene.fetch("0-4 5-19", rl=True, max=2) == "0-1(2)"
    assert scene.cache == "O 0-4: 0-1 ACQ(2,m1) 2-4 AV(0)"


@scenario("RL-S08")
def test_the_start_offset_moves_inside_the_entry():
    scene = Scene.init(5, "5-99 AV(1)")
    assert scene.fetch("0-99", rl=True, at=5, max=10) == "5-14(2)"
    assert scene.next == 15
    assert scene.ack("5-14 ACCEPT") == "NONE"
    assert scene.start == 15
    assert scene.cache.startswith("O 5-99:")
    assert scene.fetch("0-99", rl=True, at=15, max=10) == "15-24(2)"
    assert scene.next == 25


@scenario("RL-S09")
def test_both_modes_on_one_partition():
    scene = Scene()
    log = "10-14 15-29 30-44"
    assert scene.fetch(log, max=10) == "10-29(1)"
    for what in ("10-14 RELEASE", "15-20 ACCEPT", "21-22 RELEASE", "23-28 ACCEPT"):
        assert scene.ack(what) == "NONE"
    assert scene.fetch(log, m="m2", rl=True, max=2) == "10-11(2)"
    assert scene.next == 12
    assert scene.fetch(log, m="m3", max=10) == "12-14(2) 21-22(2) 30-44(1)"
    assert (scene.count, scene.next) == (20, 45)


@scenario("RL-S10")
def test_the_window_in_record_limit_mode():
    scene = Scene.init(11, "21-30 ACK(2), 41-50 ARC(1)")
    assert scene.fetch("11-20 21-35 41-60", rl=True, max=15) == "11-20(1) 31-35(1)"
    assert (scene.end, scene.next, scene.window) == (50, 36, (36, 50))


@scenario("THR-S01")
def test_suspicious_records_are_not_mixed_with_good_ones():
    scene = Scene.init(5, "15-19 AV(2), 20-22 ARC(3), 26-30 AV(3)")
    assert scene.fetch("7-19 20-27", at=5, max=500) == "7-14(1) 15-19(3) 23-25(1)"
    assert (scene.count, scene.next) == (16, 26)
    assert scene.entry(26) == "B 26-30 AV(3)"
    assert scene.fetch("7-19 20-27", at=26) == "26-27(4)"


@scenario("THR-S02")
def test_lots_halve_with_each_failure_until_single_records():
    scene = Scene.init(5, "15-34 AV(4)", limit=7)
    assert scene.fetch("15-34") == "15-24(5)"
    scene.tick()
    assert scene.fetch("15-34") == "15-19(6)"
    scene.tick()
    assert [scene.fetch("15-34") for _ in range(5)] == [f"{o}-{o}(7)" for o in range(15, 20)]
    assert scene.fetch("15-34") == "20-24(6)"
    assert scene.fetch("15-34") == "25-34(5)"


@scenario("THR-S03")
def test_a_last_attempt_goes_alone():
    scene = Scene.init(15, "15-34 AV(2)")
    assert scene.fetch("15-34") == "15-34(3)"
    assert scene.ack("17 RELEASE; 20 RELEASE") == "NONE"
    assert scene.fetch("15-34") == "17-17(4) 20-20(4)"
    assert scene.count == 2
    assert scene.ack("15-34 RELEASE") == "NONE"
    assert scene.fetch("15-34") == "15-16(4)"
    assert scene.fetch("15-34") == "17-17(5)"


@scenario("THR-S04")
def test_a_suspicious_record_that_is_held_does_not_throttle():
    scene = Scene.init(15, "15-19 AV(1)")
    assert scene.fetch("15-19") == "15-19(2)"
    assert scene.ack("15 RELEASE") == "NONE"
    assert scene.fetch("15-19") == "15-15(3)"
    assert scene.ack("16-19 RELEASE") == "NONE"
    assert scene.fetch("15-19") == "16-19(3)"


@scenario("THR-S06")
def test_a_consumer_that_releases_everything():
    scene = Scene()
    sizes = []
    offsets = []
    for _ in range(200):
        got = scene.fetch("0-99", max=500)
        if not got:
            break
        sizes.append(scene.count)
        for part in got.split():
            first, last = part.partition("(")[0].split("-")
            offsets.append((int(first), int(last)))
        for first, last in offsets[-len(got.split()) :]:
            assert scene.ack(f"{first}-{last} RELEASE") == "NONE"
    assert sizes == [100, 100, 100, 50, 1, *[1] * 49, 50, *[1] * 50]
    singles = [(o, o) for o in range(50)]
    assert offsets[4:54] == singles
    assert offsets[54] == (50, 99)
    assert offsets[55:] == [(o, o) for o in range(50, 100)]
    assert scene.fetch("0-99") == ""


def test_thr_6_with_a_limit_of_two_nothing_is_delivered_alone():
    scene = Scene.init(0, "0-9 AV(1)", limit=2)
    assert scene.fetch("0-9") == "0-9(2)"


def test_thr_7_a_suspicious_record_in_transition_does_not_throttle():
    scene = Scene.init(5, "15-19 AV(1), 20-22 AV(2), 26-30 AV(1)")
    assert scene.fetch("20-22", at=20) == "20-22(3)"
    scene.hold()
    assert scene.ack("20-22 RELEASE") == "PENDING"
    assert scene.states(20, 22) == "20-22 AV(3)~"
    assert scene.fetch("7-19 20-27", m="m2", at=5) == "7-14(1) 15-19(2) 23-25(1) 26-27(2)"
