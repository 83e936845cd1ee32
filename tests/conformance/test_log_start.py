"""Section G: the log start moves."""

import pytest

from sharemesh.domain.share_partition.events import AcquireMode
from tests.conformance.scenario import scenario
from tests.conformance.scene import Scene, log_batches

SEVEN = ("2-6", "7-11", "12-16", "17-21", "22-26", "27-31", "32-36")


@scenario("LSO-S01")
def test_a_fresh_partition_follows_the_log_start():
    scene = Scene()
    scene.lso(0)
    assert scene.at == (0, 0, 0)
    scene.lso(5)
    assert scene.at == (5, 5, 5)


@scenario("LSO-S02")
def test_available_batches_below_are_archived():
    scene = Scene().acquired(*SEVEN)
    assert scene.ack("2-6 ACCEPT; 12-16 RELEASE; 22-26 RELEASE; 27-31 REJECT") == "NONE"
    assert (scene.start, scene.dcc) == (7, 5)
    scene.lso(20)
    assert scene.at == (20, 36, 22)
    assert scene.cache == (
        "B 7-11 ACQ(1,m1), B 12-16 ARC(1), B 17-21 ACQ(1,m1), B 22-26 AV(1), B 27-31 ARC(1),"
        " B 32-36 ACQ(1,m1)"
    )
    assert scene.dcc == 5


def seven_batches_with_two_rejected() -> Scene:
    scene = Scene().acquired(*SEVEN)
    assert scene.ack("2-6 RELEASE; 12-16 REJECT; 22-26 RELEASE; 27-31 REJECT") == "NONE"
    assert scene.dcc == 10
    return scene


@scenario("LSO-S03")
def test_archived_batches_below_leave_the_count():
    scene = seven_batches_with_two_rejected()
    scene.lso(20)
    assert scene.at == (20, 36, 22)
    assert scene.cache == (
        "B 2-6 ARC(1), B 7-11 ACQ(1,m1), B 12-16 ARC(1), B 17-21 ACQ(1,m1), B 22-26 AV(1),"
        " B 27-31 ARC(1), B 32-36 ACQ(1,m1)"
    )
    assert scene.dcc == 5


@scenario("LSO-S04")
def test_archived_records_below_leave_the_count():
    scene = seven_batches_with_two_rejected()
    assert scene.ack("19-21 REJECT") == "NONE"
    assert scene.dcc == 13
    scene.lso(20)
    assert scene.dcc == 7


def four_batches_two_released() -> Scene:
    scene = Scene().acquired("11-20", "21-30", "31-40", "41-50")
    assert scene.ack("11-20 RELEASE; 31-40 RELEASE") == "NONE"
    return scene


@scenario("LSO-S05")
def test_acknowledgements_below_the_start_are_accepted_and_ignored():
    scene = four_batches_two_released()
    scene.lso(41)
    assert scene.at == (41, 50, 51)
    expected = "B 11-20 ARC(1), B 21-30 ACQ(1,m1), B 31-40 ARC(1), B 41-50 ACQ(1,m1)"
    assert (scene.cache, scene.dcc) == (expected, 0)
    assert scene.ack("21-30 RELEASE") == "NONE"
    assert scene.cache == expected
    scene.tick()
    assert scene.entry(21) == "B 21-30 ARC(1)"
    assert scene.dcc == 0


@scenario("LSO-S06")
def test_a_straddling_available_batch_is_split():
    scene = four_batches_two_released()
    scene.lso(36)
    assert scene.at == (36, 50, 36)
    assert scene.entry(31) == "O 31-40: 31-35 ARC(1) 36-40 AV(1)"
    assert scene.entry(41) == "B 41-50 ACQ(1,m1)"


@scenario("LSO-S07")
def test_acquired_offsets_below_keep_their_timers():
    scene = Scene().acquired("2-6", "7-11")
    assert scene.ack("4-8 ACCEPT") == "NONE"
    scene.lso(5)
    assert scene.at == (5, 11, 12)
    assert scene.cache == ("O 2-6: 2-3 ACQ(1,m1) 4-6 ACK(1), O 7-11: 7-8 ACK(1) 9-11 ACQ(1,m1)")
    assert scene.timers == 5


@scenario("LSO-S08")
@pytest.mark.parametrize("second", [8, 7])
def test_acquired_batches_are_not_split(second):
    scene = Scene().acquired("2-6", "7-11")
    scene.lso(4)
    assert scene.at == (4, 11, 12)
    scene.lso(second)
    assert scene.at == (second, 11, 12)
    assert scene.cache == "B 2-6 ACQ(1,m1), B 7-11 ACQ(1,m1)"


@scenario("LSO-S09")
@pytest.mark.parametrize(("kind", "state", "next_"), [("ACCEPT", "ACK", 12), ("RELEASE", "AV", 7)])
def test_the_log_start_moves_after_an_acknowledgement(kind, state, next_):
    scene = Scene().acquired("2-6", "7-11")
    scene.lso(4)
    assert scene.ack(f"7-8 {kind}") == "NONE"
    scene.lso(7)
    assert scene.at == (7, 11, next_)
    assert scene.cache == f"B 2-6 ACQ(1,m1), O 7-11: 7-8 {state}(1) 9-11 ACQ(1,m1)"


@scenario("LSO-S10")
@pytest.mark.parametrize("released", [False, True])
def test_the_log_start_moves_to_the_end_offset(released):
    scene = Scene().acquired("2-6", "7-11")
    assert scene.ack("7-8 RELEASE") == "NONE"
    if released:
        assert scene.ack("11 RELEASE") == "NONE"
    scene.lso(11)
    assert scene.at == (11, 11, 11 if released else 12)
    last = "11 AV(1)" if released else "11 ACQ(1,m1)"
    expected = f"7-8 ARC(1) 9-10 ACQ(1,m1) {last}" if released else "7-8 ARC(1) 9-11 ACQ(1,m1)"
    assert scene.states(7, 11) == expected


@scenario("LSO-S11")
@pytest.mark.parametrize(("released", "to"), [(False, 14), (True, 12)])
def test_the_log_start_moves_past_the_end_offset(released, to):
    scene = Scene().acquired("2-6", "7-11")
    if released:
        assert scene.ack("7-8 RELEASE") == "NONE"
    scene.lso(to)
    assert scene.at == (to, to, to)
    second = "O 7-11: 7-8 ARC(1) 9-11 ACQ(1,m1)" if released else "B 7-11 ACQ(1,m1)"
    assert scene.cache == f"B 2-6 ACQ(1,m1), {second}"


@scenario("LSO-S12")
def test_the_log_start_moves_into_a_gap():
    scene = Scene().acquired("2-6", "10-14", "20-24")
    scene.lso(18)
    assert scene.at == (18, 24, 25)
    assert scene.cache == "B 2-6 ACQ(1,m1), B 10-14 ACQ(1,m1), B 20-24 ACQ(1,m1)"
    variant = Scene().acquired("2-6", "10-14")
    assert variant.ack("10-14 RELEASE") == "NONE"
    variant.lso(10)
    assert variant.at == (10, 14, 10)
    assert variant.entry(10) == "B 10-14 AV(1)"


@scenario("LSO-S14")
def test_offsets_below_the_start_are_skipped():
    scene = Scene().acquired("2-6", "10-14")
    scene.lso(12)
    assert scene.ack("2-6 RELEASE; 10-14 RELEASE") == "NONE"
    assert scene.at == (12, 14, 12)
    assert scene.cache == "B 2-6 ACQ(1,m1), O 10-14: 10-11 ACQ(1,m1) 12-14 AV(1)"


@scenario("LSO-S17")
def test_an_acknowledgement_that_reaches_over_the_start():
    scene = Scene().acquired("1-2")
    scene.lso(3)
    scene.tick()
    scene.acquired("3-4", "5-7")
    assert scene.ack("1-7 RELEASE") == "NONE"
    assert scene.next == 3
    assert (scene.entry(3), scene.entry(5)) == ("B 3-4 AV(1)", "B 5-7 AV(1)")


@scenario("LSO-S19")
def test_expiry_after_acknowledgements_and_a_move():
    scene = Scene(limit=2).acquired("0-4", "5-9", "10-14", "15-19", "20-24")
    assert scene.ack("5-9 ACCEPT; 15-19 ACCEPT") == "NONE"
    scene.lso(12)
    assert scene.at == (12, 24, 25)
    scene.tick()
    assert scene.states(0, 4) == "0-4 ARC(1)"
    assert scene.states(10, 14) == "10-11 ARC(1) 12-14 AV(1)"
    assert scene.states(20, 24) == "20-24 AV(1)"
    assert (scene.next, len(scene.writes)) == (12, 4)


@scenario("LSO-S20")
def test_a_batch_wholly_below_the_start_is_archived_at_expiry():
    def given() -> Scene:
        scene = Scene.init(11, "11-20 AV(1), 21-30 AV(1)")
        assert scene.fetch("10-20") == "11-20(2)"
        return scene

    scene = given()
    scene.lso(21)
    assert scene.ack("11-20 RELEASE") == "NONE"
    assert scene.states(11, 20) == "11-20 ACQ(2,m1)"
    scene.tick()
    assert (scene.states(11, 20), scene.dcc) == ("11-20 ARC(2)", 0)
    variant = given()
    variant.lso(16)
    variant.tick()
    assert variant.states(11, 20) == "11-15 ARC(2) 16-20 AV(2)"


@scenario("LSO-S21")
def test_out_of_range_moves_the_cache_once_and_the_next_fetch_succeeds():
    scene = Scene()
    scene.world.log.append(5)
    scene.lso(1)
    wake_ups = scene.world.wake_ups
    scene.lso(1)
    assert scene.world.wake_ups == wake_ups  # moved exactly once
    assert scene.at == (1, 1, 1)
    assert scene.world.fetch().acquired == [(1, 4, 1)]


@scenario("LSO-S22")
def test_deleted_records_are_not_delivered():
    scene = Scene()
    world = scene.world
    for _ in range(10):
        world.log.append(1)

    def poll() -> int:
        return sum(last - first + 1 for first, last, _ in world.fetch().acquired)

    world.move_log_start(5)
    assert poll() == 5
    for _ in range(5):
        world.log.append(1)
    world.move_log_start(14)
    assert poll() == 1
    world.move_log_start(15)
    assert poll() == 0


def test_what_is_available_below_the_log_start_does_not_keep_the_start_offset():
    """A log batch that straddles the log start was cached whole behind a lingering one (ACQ-4)."""
    scene = Scene().acquired("0-0")
    scene.lso(10)
    got = scene.world.acquire("m1", 10, log_batches("5-14"), 3, mode=AcquireMode.RECORD_LIMIT)
    assert [(each.first_offset, each.last_offset) for each in got.ranges] == [(5, 7)]
    assert scene.next == 8  # which no log holds any more
    scene.lso(10)  # what the leader says when a read of offset 8 is out of range (OFF-17)
    assert scene.states(8, 9) == "8-9 ARC(0)"
    assert scene.next == 10
    scene.tick()
    assert scene.fetch("5-14", m="m2") == "10-14(1)"
    assert scene.ack("10-14 ACCEPT", m="m2") == "NONE"
    assert scene.at == (15, 15, 15)


def test_a_hole_below_the_log_start_is_given_up():
    """Kafka asks for it for ever: nobody can fetch it, and nothing behind it is fetched."""
    scene = Scene.init(5, "7-7 ACK(1), 9-9 ACK(1), 12-14 ACK(1)")
    assert (scene.at, scene.window) == ((5, 14, 5), (5, 14))
    scene.lso(9)
    assert (scene.at, scene.window) == ((9, 14, 5), (5, 14))  # Kafka's own answer
    scene.lso(9)  # what the leader says when a read of offset 5 is out of range (OFF-17)
    assert (scene.at, scene.window) == ((9, 14, 10), (9, 14))
    assert scene.fetch("9-14", m="m2") == "10-11(1)"
