"""Lines, folding and the queue: AUD-5, AUD-6, AUD-8."""

import json
import time
from dataclasses import replace

from sharemesh.audit.events import (
    RESOURCES_MAX,
    TEXT_MAX,
    AuditDecision,
    bounded,
    cut,
    line,
    resource,
)
from sharemesh.audit.folding import DIFFERENT_MAX, PRINCIPAL_MAX, WINDOW_MS, Folding
from sharemesh.domain.errors import ErrorCode
from tests.audit.events import Wall, change, lines, refusal, trail


def test_a_line_has_its_fields_and_no_character_that_controls_a_terminal():
    """AUD-5."""
    odd = "a\x1b]0;pwned\x07\nforged \u202e\ud800"
    text = line(refusal(odd, principal=f"User:{odd}", trace_id="0a"), "node-1", 1_800_000_000_123)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    assert text[:-1].decode().isprintable()
    read = json.loads(text)
    assert read["time"] == "2027-01-15T08:00:00.123Z"
    assert (read["log"], read["node"], read["kind"]) == ("audit", "node-1", "refusal")
    assert (read["error"], read["error_code"]) == ("TOPIC_AUTHORIZATION_FAILED", 29)
    assert (read["operation"], read["trace_id"]) == ("delete", "0a")
    assert read["principal"].startswith("User:a\x1b]0;pwned")


def test_texts_and_resources_are_bounded():
    kept = bounded(resource("topic", f"t{n}") for n in range(RESOURCES_MAX + 7))
    assert len(kept) == RESOURCES_MAX
    assert len(resource("topic", "x" * 10_000).name) == TEXT_MAX


def test_a_line_is_bounded_by_bytes_whatever_it_is_about():
    """AUD-5: each of these characters is six bytes in JSON."""
    odd = "\x01" * 10_000
    kept = bounded(resource("acl", odd, odd) for _ in range(RESOURCES_MAX))
    assert kept
    event = replace(refusal(), principal=cut(odd), peer=cut(odd), rpc=cut(odd), resources=kept)
    assert len(line(event, "n" * 100, 0)) <= 16 * 1024
    assert len(bounded(resource("topic", f"orders-{n}") for n in range(RESOURCES_MAX))) == 50


def test_what_anybody_can_cause_fills_half_of_the_queue_and_drops_no_change():
    """AUD-8: failures of principals without rights."""
    log = trail(queue_bytes_max=20_000)
    for number in range(500):
        failed = change(f"t{number}", decision=AuditDecision.FAILED)
        log.note(replace(failed, principal=f"User:{number}"))
    dropped = log.dropped
    assert dropped
    for number in range(20):
        log.note(change(f"done-{number}"))
    assert log.dropped == dropped
    assert [each["decision"] for each in lines(log)].count("done") == 20
    log.note(refusal())
    assert len(lines(log)) == 1, "there is room again"


def test_a_wall_clock_that_steps_back_keeps_no_minute_open():
    """AUD-6."""
    wall, now = Wall(), Wall()
    log = trail(wall, now)
    log.note(refusal())
    wall.now_ms -= 3_600_000
    log.note(refusal())
    now.now_ms += WINDOW_MS
    [first, again] = lines(log)
    assert again["repeated"] == 1
    assert again["first"] == again["last"] == again["time"] < first["time"]
    log.note(refusal())
    assert len(lines(log)) == 1


def test_a_hundred_thousand_equal_refusals_are_two_lines():
    """AUD-6: from whatever port, with whatever trace."""
    wall = Wall()
    log = trail(wall)
    began = time.perf_counter()
    for number in range(100_000):
        log.note(refusal(peer=f"ipv4:10.0.0.7:{number % 50_000}", trace_id=f"{number:032x}"))
        wall.now_ms += 0 if number % 10 else 1
    took = time.perf_counter() - began
    [first] = lines(log)
    assert "repeated" not in first
    wall.now_ms += WINDOW_MS
    [again] = lines(log)
    assert again["repeated"] == 99_999
    assert again["first"] < again["last"] < again["time"]
    assert (log.noted, log.folded, log.dropped) == (2, 99_999, 0)
    assert took < 20, "some ten microseconds for each"
    log.note(refusal())
    assert len(lines(log)) == 1, "a new minute begins with a line of its own"


def test_a_hundred_thousand_different_refusals_are_bounded_and_push_no_change_out():
    """AUD-6, AUD-7: names that an attacker invents, as one principal and as many."""
    wall = Wall()
    log = trail(wall)
    log.note(change())
    for number in range(50_000):
        log.note(refusal(f"topic-{number}"))
    for number in range(50_000):
        log.note(refusal(f"topic-{number}", principal=f"User:{number}"))
    log.note(change("payments"))
    at_once = lines(log)
    assert len(at_once) == DIFFERENT_MAX + 2
    assert sum(each["principal"] == "User:eve" for each in at_once) == PRINCIPAL_MAX
    assert sum(each["kind"] == "change" for each in at_once) == 2
    wall.now_ms += WINDOW_MS
    later = lines(log)
    assert len(later) <= DIFFERENT_MAX + len(ErrorCode)
    assert sum(each["repeated"] for each in later) == 100_000 - DIFFERENT_MAX
    assert log.dropped == 0


def test_memory_of_folding_is_bounded_and_given_back():
    folding = Folding()
    for number in range(5_000):
        folding.is_new(refusal(f"t{number}", principal=f"User:{number}", rpc=f"A/{number}"), 0, 0)
        folding.is_new(refusal(f"t{number}"), 0, 0)
    assert len(folding) <= 2 * DIFFERENT_MAX + 1
    assert folding.ended(WINDOW_MS - 1) == []
    assert folding.ended(WINDOW_MS)
    assert len(folding) == 0


def test_changes_are_never_folded_and_failures_are_apart_from_refusals():
    """AUD-6."""
    log = trail()
    for _ in range(3):
        log.note(change())
        log.note(change(decision=AuditDecision.UNKNOWN))
        log.note(change(decision=AuditDecision.FAILED, error="INVALID_CONFIG", error_code=40))
    for number in range(DIFFERENT_MAX * 2):
        log.note(refusal(principal=f"User:{number}"))
    log.note(change("other", decision=AuditDecision.FAILED, error="INVALID_CONFIG", error_code=40))
    found = [each for each in lines(log) if each["kind"] == "change"]
    assert [each["decision"] for each in found] == ["done", "unknown", "failed"] + [
        "done",
        "unknown",
    ] * 2 + ["failed"]


def test_what_is_folded_has_its_line_when_the_process_ends():
    log = trail()
    for _ in range(3):
        log.note(refusal())
    assert [each.get("repeated") for each in lines(log, ending=True)] == [None, 2]


def test_a_full_queue_drops_and_counts():
    """AUD-8."""
    log = trail(queue_bytes_max=2_000)
    for number in range(100):
        log.note(change(f"topic-{number}"))
    assert log.noted + log.dropped == 100
    assert log.dropped > 80
    kept = lines(log)
    assert [each["resources"][0]["name"] for each in kept] == [
        f"topic-{number}" for number in range(log.noted)
    ]
    log.note(change())
    assert len(lines(log)) == 1
