"""The driver as a program: every operation answers, bad input is an error line."""

import json
import subprocess
import sys

from tests.conformance.driver import Driver

BAD = (
    "",
    "no json",
    "[]",
    "7",
    "null",
    '{"id": 3}',
    '{"op": "nothing"}',
    '{"op": 5}',
    '{"op": "__init__"}',
    '{"op": "fetch"}',
    '{"op": "fetch", "member": 5}',
    '{"op": "fetch", "member": "m1", "mode": "x"}',
    '{"op": "fetch", "member": "m1", "max_records": "many"}',
    '{"op": "ack", "member": "m1"}',
    '{"op": "ack", "member": "m1", "batches": [[1, 2]]}',
    '{"op": "ack", "member": "m1", "batches": [[1, 2, "accept"]]}',
    '{"op": "append", "batches": [0]}',
    '{"op": "append", "batches": 3}',
    '{"op": "advance", "ms": -1}',
    '{"op": "advance"}',
    '{"op": "persister", "mode": "maybe"}',
    '{"op": "persister", "error": "NO_SUCH_ERROR"}',
    '{"op": "init", "persisted": {"start": 0, "batches": [[1, 2, 9, 1]]}}',
    '{"op": "config", "dlq": true}',
    '{"op": "end_txn", "producer_id": 1}',
)


def test_a_conversation():
    requests = [
        {"op": "ack", "member": "m1", "batches": [[0, 1, 1]], "id": "early"},
        {"op": "reset"},
        {"op": "init", "lock_ms": 1000, "id": 1, "batches_view": True},
        {"op": "append", "batches": [5, 5]},
        {"op": "append", "batches": [2], "producer_id": 7},
        {"op": "end_txn", "producer_id": 7, "commit": False},
        {"op": "gap", "n": 2},
        {"op": "compact", "first": 5, "last": 9},
        {"op": "fetch", "member": "m1", "batches_view": True},
        {"op": "persister", "mode": "hold"},
        {"op": "ack", "member": "m1", "batches": [[0, 4, [1, 2, 3, 4, 0]]]},
        {"op": "release", "member": "m1"},
        {"op": "futures", "dump": False},
        {"op": "persister", "complete": "ok"},
        {"op": "futures", "dump": False},
        {"op": "persister", "mode": "ok"},
        {"op": "lso", "offset": 3},
        {"op": "advance", "ms": 1000},
        {"op": "config", "max_inflight": 20},
        {"op": "restart", "mark_fenced": True},
        {"op": "dump"},
        {"op": "fence"},
    ]
    lines = "\n".join(json.dumps(each) for each in requests) + "\nrubbish\n"
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.driver"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(requests) + 1
    assert answers[0]["id"] == "early"
    assert answers[0]["exception"].startswith("RuntimeError: ")
    assert answers[2]["id"] == 1
    assert answers[2]["error"] is None
    assert answers[2]["state"]["batches"] == []
    assert answers[7]["removed"] == [[5, 9]]
    assert answers[8]["acquired"] == [[0, 12, 1]]
    assert answers[8]["state"]["batches"] == [[0, 12]]
    assert answers[10]["error"] == "PENDING"
    assert answers[10]["state"]["persisted"]["held"] == 1
    assert answers[11]["future"] == 2
    assert answers[12]["futures"] == {"1": "PENDING", "2": "PENDING"}
    assert answers[13]["completed"] == 2
    assert answers[14]["futures"] == {"1": None, "2": None}
    assert answers[-2]["state"]["partition"] == "FENCED"
    assert answers[-1]["exception"].startswith("JSONDecodeError: ")
    assert done.stderr == ""


def test_bad_input_gets_an_error_line_and_changes_nothing():
    driver = Driver()
    driver.answer('{"op": "init"}')
    driver.answer('{"op": "append", "batches": [5]}')
    driver.answer('{"op": "fetch", "member": "m1"}')
    before = driver.answer('{"op": "dump"}')
    for line in BAD:
        answer = driver.answer(line)
        assert set(answer) <= {"exception", "id"}, (line, answer)
        assert ": " in answer["exception"], line
    assert driver.answer('{"op": "dump"}') == before
