"""The history checker sees each broken promise, and none where there is none."""

import pytest

from tests.history.checker import History
from tests.history.journal import Entry, Journal, read


def history(*events):
    checked = History(delivery_count_limit=5)
    checked.add(
        Entry(float(number), who, event, fields)
        for number, (who, event, fields) in enumerate(events)
    )
    return checked


def delivered(who, first, last, count, epoch=1):
    return who, "delivered", {"p": "t/0", "le": epoch, "r": [[first, last, count]]}


def acknowledged(who, kind, first, last, error=None):
    return who, "acknowledged", {"p": "t/0", "k": kind, "r": [[first, last]], "error": error}


PRODUCED = ("producer", "produced", {"p": "t/0", "r": [[0, 9]]})


def test_a_clean_history_has_no_violation_and_counts_add_up():
    report = history(
        PRODUCED,
        delivered("a", 0, 9, 1),
        acknowledged("a", "accept", 0, 7),
        acknowledged("a", "reject", 8, 8),
        acknowledged("a", "release", 9, 9),
        delivered("b", 9, 9, 2),
        acknowledged("b", "accept", 9, 9),
    ).judge({"t/0": 10}, {})
    assert report.violations == []
    assert (report.produced, report.accepted, report.rejected, report.redelivered) == (10, 9, 1, 1)
    assert report.redelivery_reasons == {"its holder released it": 1}


def test_a_delivery_read_late_from_a_buffer_is_not_a_redelivery_after_the_ack():
    report = history(
        PRODUCED,
        delivered("b", 0, 9, 2),
        acknowledged("b", "accept", 0, 9),
        delivered("a", 0, 9, 1),
    ).judge({"t/0": 10}, {})
    assert report.violations == []


def test_a_release_that_does_not_count_allows_one_more_delivery_with_the_same_count():
    back = ("a", "handed_back", {"p": "t/0", "le": 1, "r": [[0, 4, 1]]})
    events = [PRODUCED, delivered("a", 0, 9, 1), back, delivered("b", 0, 4, 1)]
    assert history(*events).judge({"t/0": 10}, {}).violations == []
    again = history(*events, delivered("a", 4, 4, 1)).judge({"t/0": 10}, {})
    assert again.violations == ["t/0@4 was granted twice in leader epoch 1 with delivery count 1"]


def test_a_late_acknowledgement_of_an_older_grant_is_counted_and_no_second_decision():
    report = history(
        PRODUCED,
        delivered("a", 0, 9, 1),
        delivered("b", 0, 9, 2),
        acknowledged("b", "accept", 0, 9),
        acknowledged("a", "accept", 3, 4),  # below the start offset: skipped with success (ACK-4)
    ).judge({"t/0": 10}, {})
    assert report.violations == []
    assert report.late_acknowledgements == 2


@pytest.mark.parametrize(("start_then", "decisions"), [(4, 1), (3, 2), (0, 2)])
def test_a_late_acknowledgement_is_excused_only_if_the_start_offset_had_passed(
    start_then, decisions
):
    checked = history(
        PRODUCED,
        delivered("a", 0, 9, 1),
        delivered("b", 0, 9, 2),
        acknowledged("b", "accept", 0, 9),
        acknowledged("a", "accept", 3, 3),
    )
    report = checked.judge({"t/0": 10}, {}, lambda _, time_ms: start_then if time_ms == 4 else 0)
    assert report.late_acknowledgements == 2 - decisions
    assert any("finally 2 times" in text for text in report.violations) == (decisions == 2)


def test_a_decisive_answer_may_be_overtaken_by_the_answer_to_a_late_acknowledgement():
    events = (
        PRODUCED,
        delivered("a", 0, 9, 1),
        delivered("b", 0, 9, 2),
        acknowledged("a", "accept", 3, 3),
        acknowledged("b", "accept", 0, 9),
    )
    report = history(*events).judge({"t/0": 10}, {}, lambda _, time_ms: 10 if time_ms >= 3 else 0)
    assert report.violations == []
    assert report.late_acknowledgements == 1
    unknown = history(*events).judge({"t/0": 10}, {})
    assert any("finally 2 times" in text for text in unknown.violations)


def test_a_record_that_came_after_an_acknowledgement_was_confirmed_is_never_excused():
    report = history(
        PRODUCED,
        delivered("a", 0, 9, 1),
        acknowledged("a", "accept", 0, 9),
        delivered("b", 3, 3, 2),
        acknowledged("b", "accept", 3, 3),
    ).judge({"t/0": 10}, {}, lambda _, time_ms: 10 if time_ms >= 2 else 0)
    assert any("was delivered to b" in text for text in report.violations)


@pytest.mark.parametrize(("start_then", "decisions"), [(10, 1), (3, 2)])
def test_a_holder_that_repeats_itself_decides_once_if_the_start_offset_had_passed(
    start_then, decisions
):
    report = history(
        PRODUCED,
        delivered("a", 0, 9, 1),
        delivered("a", 3, 3, 2),  # its lock had expired
        acknowledged("a", "accept", 3, 3),  # meant for the first delivery, taken for the second
        acknowledged("a", "accept", 3, 3),
    ).judge({"t/0": 10}, {}, lambda _, time_ms: start_then if time_ms >= 3 else 0)
    assert report.late_acknowledgements == 2 - decisions
    assert any("finally 2 times" in text for text in report.violations) == (decisions == 2)


@pytest.mark.parametrize(("start_then", "excused"), [(10, True), (3, False)])
def test_a_word_on_a_record_that_the_delivery_limit_gave_up_decides_nothing(start_then, excused):
    report = history(
        PRODUCED,
        delivered("a", 0, 9, 4),
        delivered("b", 0, 9, 5),
        acknowledged("b", "release", 0, 9),
        acknowledged("a", "accept", 3, 3),
    ).judge({"t/0": 10}, {}, lambda _partition, _time_ms: start_then)
    assert report.late_acknowledgements == excused
    assert bool(report.violations) is not excused


@pytest.mark.parametrize(("start_then", "excused"), [(10, True), (3, False)])
def test_a_word_that_comes_after_one_that_nobody_heard_decides_nothing(start_then, excused):
    report = history(
        PRODUCED,
        delivered("a", 0, 9, 1),
        delivered("b", 0, 9, 2),  # its accept was carried out, the answer was lost
        acknowledged("a", "accept", 3, 3),
    ).judge({"t/0": 10}, {}, lambda _partition, _time_ms: start_then)
    assert report.late_acknowledgements == excused
    assert bool(report.violations) is not excused


def test_a_record_that_its_holder_looks_at_late_had_been_granted_before():
    who, event, fields = delivered("b", 0, 9, 5)
    report = history(
        PRODUCED,
        delivered("a", 0, 9, 3),
        acknowledged("a", "accept", 3, 3),  # below the start offset: the limit gave it up
        (who, event, {**fields, "granted_ms": 1.5}),
        acknowledged("b", "accept", 3, 3),
    ).judge({"t/0": 10}, {}, lambda _, time_ms: 10 if time_ms >= 2 else 0)
    assert report.violations == []
    assert report.late_acknowledgements == 1


def test_without_that_knowledge_the_start_offset_at_the_end_is_the_bound():
    checked = history(
        PRODUCED,
        delivered("a", 0, 9, 1),
        delivered("b", 0, 9, 2),
        acknowledged("b", "accept", 0, 9),
        acknowledged("a", "accept", 3, 3),
    )
    report = checked.judge({"t/0": 3}, {"t/0": set(range(3, 10))})
    assert any("finally 2 times" in text for text in report.violations)


@pytest.mark.parametrize(
    ("events", "start", "says"),
    [
        (
            [
                delivered("a", 0, 9, 1),
                delivered("b", 0, 9, 2),
                acknowledged("a", "accept", 3, 3),
                acknowledged("b", "accept", 3, 3),
            ],
            10,
            "finally 2 times",
        ),
        ([delivered("a", 0, 9, 1)], 0, "lost or stuck"),
        ([delivered("a", 0, 8, 1), acknowledged("a", "accept", 0, 8)], 10, "never delivered"),
        (
            [delivered("a", 0, 9, 1), acknowledged("a", "accept", 0, 9), delivered("b", 3, 3, 2)],
            10,
            "after a had its accept confirmed",
        ),
        (
            [
                delivered("a", 0, 9, 1),
                acknowledged("a", "accept", 0, 9),
                delivered("b", 3, 3, 1, epoch=2),
            ],
            10,
            "after a had its accept confirmed",
        ),
        ([delivered("a", 0, 9, 1), delivered("b", 4, 4, 1)], 10, "granted twice"),
        (
            [
                delivered("a", 0, 9, 1),
                acknowledged("a", "accept", 0, 9),
                acknowledged("a", "reject", 2, 2),
            ],
            10,
            "finally 2 times",
        ),
        ([delivered("a", 0, 9, 1), acknowledged("b", "accept", 0, 0)], 10, "never held it"),
        ([delivered("a", 0, 9, n) for n in range(1, 7)], 10, "limit 5"),
    ],
)
def test_each_broken_promise_is_named(events, start, says):
    report = history(PRODUCED, *events).judge({"t/0": start}, {})
    assert any(says in violation for violation in report.violations), report.violations


def test_a_record_that_the_limit_archived_unseen_is_lost_unless_none_of_its_members_could_help_it():
    unseen = [delivered("a", 0, 8, 1), acknowledged("a", "accept", 0, 8)]
    assert any("t/0@9" in v for v in history(PRODUCED, *unseen).judge({"t/0": 10}, {}).violations)
    report = history(PRODUCED, *unseen).judge({"t/0": 10}, {}, excused={"t/0": {9}})
    assert report.violations == []
    assert report.archived_unseen == 1


def test_what_was_granted_below_the_start_offset_was_finished_before():
    events = [
        PRODUCED,
        delivered("a", 0, 9, 1, epoch=1),
        acknowledged("a", "accept", 0, 9),
        delivered("a", 0, 9, 1, epoch=2),
        acknowledged("a", "accept", 0, 9),
    ]
    assert history(*events).judge({"t/0": 10}, {}, lambda _partition, _time_ms: 10).violations == []
    report = history(*events).judge({"t/0": 10}, {}, lambda _, time_ms: 10 if time_ms >= 3 else 0)
    assert any("was delivered to a" in each for each in report.violations)


def test_a_write_that_no_leader_heard_of_does_not_excuse_two_decisions_after_it():
    events = [
        PRODUCED,
        delivered("a", 0, 9, 1),  # its accept was carried out, and nobody ever heard of it
        delivered("b", 0, 9, 2),
        acknowledged("b", "accept", 3, 3),
        delivered("c", 3, 3, 3),
        acknowledged("c", "accept", 3, 3),
    ]
    report = history(*events).judge({"t/0": 10}, {}, lambda _partition, _time_ms: 10)
    assert report.violations == []
    told = history(*events).judge(
        {"t/0": 10}, {}, lambda _partition, _time_ms: 10, finished_at=lambda *_: 0
    )
    assert any("finally 2 times" in text for text in told.violations)
    assert any("was delivered to c" in text for text in told.violations)


def test_deliveries_whose_end_could_not_be_stored_are_counted_anew_by_the_next_leader():
    early = [delivered("a", 0, 9, n, epoch=1) for n in (1, 2)]
    events = early + [delivered("a", 0, 9, n, epoch=2) for n in range(1, 6)]
    report = history(PRODUCED, *events).judge({"t/0": 10}, {})
    assert any("delivered 7 times in 2 leader epochs" in each for each in report.violations)
    unstored = {"t/0": dict.fromkeys(range(10), 1)}
    assert history(PRODUCED, *events).judge({"t/0": 10}, {}, unstored=unstored).violations == []


def test_what_was_acknowledged_must_have_been_delivered_even_at_the_limit():
    words = [delivered("a", 0, 8, 1), acknowledged("a", "accept", 0, 9)]
    report = history(PRODUCED, *words).judge({"t/0": 10}, {}, excused={"t/0": {9}})
    assert any("t/0@9 was acknowledged by a member that never" in v for v in report.violations)


def test_a_torn_last_line_is_ignored(tmp_path):
    path = tmp_path / "a.jsonl"
    journal = Journal(path, "a")
    journal.produced("t/0", 0, 4)
    journal.close()
    path.write_text(path.read_text() + '{"t":1,"w":"a","e":"deliv')
    assert [entry.event for entry in read([path])] == ["produced"]
