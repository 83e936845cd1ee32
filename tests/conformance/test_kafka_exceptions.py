"""What this machine answers where Kafka itself fails with an internal exception."""

import json

from sharemesh.domain.share_partition.events import LogHole
from tests.conformance.driver import Driver
from tests.conformance.scene import Scene
from tests.conformance.traces import histories


def answers_at(marker: str):
    """Yield (request, our answer) for each step at which Kafka failed first in its history."""
    for history in histories():
        if not any(marker in theirs.get("exception", "") for _, theirs in history["steps"]):
            continue
        driver = Driver()
        for request, theirs in history["steps"]:
            ours = driver.answer(json.dumps(request))
            if "exception" in theirs:
                if marker in theirs["exception"]:
                    driver._world.partition.validate()
                    yield request, ours
                break


def test_an_acknowledgement_without_a_floor_entry_is_refused_with_invalid_record_state():
    answers = list(answers_at("NullPointerException"))
    assert answers
    for request, ours in answers:
        assert request["op"] == "ack"
        assert ours["error"].startswith("INVALID_RECORD_STATE: "), ours["error"]


def test_an_inconsistent_range_acquires_nothing_wrong():
    answers = list(answers_at("inconsistent range"))
    assert answers
    for _, ours in answers:
        assert "exception" not in ours
        assert ours["acquired"] == []


def test_records_with_a_left_over_timer_are_acquired_with_a_new_lock():
    answers = list(answers_at("Existing acquisition lock timeout"))
    assert answers
    for request, ours in answers:
        assert len(ours["acquired"]) >= 1
        first = ours["acquired"][0][0]
        (row,) = (row for row in ours["state"]["offsets"] if row[0] == first)
        assert row[1] == "AQ"
        assert row[3] == request["member"]
        assert row[4] > ours["state"]["now"]


def test_all_histories_go_on_behind_an_exception_without_one_of_ours():
    for history in histories():
        if not any("exception" in theirs for _, theirs in history["steps"]):
            continue
        driver = Driver()
        for request, _ in history["steps"]:
            ours = driver.answer(json.dumps(request))
            assert "exception" not in ours, (history["seed"], history["profile"], request)
            if driver._world.machine is not None:
                driver._world.partition.validate()


def test_nothing_is_stuck_where_kafka_fails_for_ever():
    scene = Scene.init(6, "9 ACK(1), 10-14 ARC(2), 18-23 ACK(1), 24-29 AV(1)", max_in_flight=20)
    for _ in range(20):
        at = scene.next
        if at < 30:
            scene.world.step(LogHole(at, 29))  # OFF-23: what the leader says of such a read
        if scene.fetch("30-41", at=at):
            break
    assert scene.states(30, 41) == "30-41 ACQ(1,m1)"
