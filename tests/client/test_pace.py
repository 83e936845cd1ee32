"""How many records may wait for an application of some pace."""

import pytest

from sharemesh.client.consumer.unseen_records import Pace


def worked(pace: Pace, count: int, record_ms: float, polls: int = 4, now_ms: int = 0) -> int:
    """Let an application poll ``count`` records at a time; return when it polls again."""
    for _ in range(polls):
        pace.took(count, now_ms)
        now_ms += int(count * record_ms)
        pace.came_back(now_ms)
    return now_ms


def test_of_an_unknown_application_as_many_wait_as_one_poll_returns():
    """HBK-23."""
    pace = Pace(500)
    assert pace.workable(0) == 500
    pace.took(1, 0)
    assert pace.workable(1) == 500


def test_an_unknown_application_was_no_faster_than_the_time_that_it_took():
    pace = Pace(500)
    pace.took(10, 0)
    assert pace.workable(100) == 100
    assert pace.workable(500) == 20


def test_of_a_fast_application_a_second_of_work_waits():
    """HBK-23."""
    pace = Pace(500)
    now_ms = worked(pace, 500, 0.01)
    pace.took(500, now_ms)
    assert pace.workable(now_ms) == pytest.approx(100_000, rel=0.01)


def test_what_it_has_is_done_before_what_waits():
    pace = Pace(500)
    now_ms = worked(pace, 500, 1)
    pace.took(500, now_ms)
    assert pace.workable(now_ms) == pytest.approx(500, abs=5)
    assert pace.workable(now_ms + 400) == pytest.approx(900, abs=5)


def test_nothing_waits_behind_more_than_a_second_of_work():
    pace = Pace(500)
    now_ms = worked(pace, 500, 20)
    pace.took(500, now_ms)
    assert pace.workable(now_ms) == 0
    assert pace.workable(now_ms + 8_900) == 0
    assert pace.workable(now_ms + 9_500) == pytest.approx(25, abs=2)


def test_nothing_waits_for_an_application_that_is_a_second_late():
    pace = Pace(500)
    pace.took(10, 0)
    assert [pace.workable(999), pace.workable(1_000)] == [10, 0]
    now_ms = worked(pace, 500, 4)
    pace.took(500, now_ms)
    assert pace.workable(now_ms + 2_500) > 0
    assert pace.workable(now_ms + 3_000) == 0


def test_an_application_that_waits_begins_at_once():
    pace = Pace(500)
    now_ms = worked(pace, 500, 20)
    assert pace.workable(now_ms) == 500


def test_later_polls_weigh_more():
    pace = Pace(500)
    now_ms = worked(pace, 100, 20)
    now_ms = worked(pace, 100, 1, polls=8, now_ms=now_ms)
    pace.took(100, now_ms)
    assert pace.workable(now_ms) == pytest.approx(900, rel=0.1)
