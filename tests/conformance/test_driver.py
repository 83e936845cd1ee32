"""The driver as a program: every operation answers, bad input is an error line."""

import json
import os
import subprocess
import sys

import pytest

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
    '{"op": "end_txn", "producer_id": 1, "commit": "no"}',
    '{"op": "dump", "id": NaN}',
    '{"op": "dump", "id": 1e999}',
    '{"op": "dump", "dump": "false"}',
    '{"op": "dump", "batches_view": 1}',
    '{"op": ["dump"]}',
    '{"op": "dump"} {"op": "dump"}',
    '{"op": "ack", "member": "m1", "batches": [[0, 1.0, 1]]}',
    '{"op": "ack", "member": "m1", "batches": [[true, 1, 1]]}',
    '{"op": "ack", "member": "m1", "batches": [[0, 1, [1, null]]]}',
    '{"op": "ack", "member": "m1", "batches": {}}',
    '{"op": "ack", "member": "m1", "batches": "abc"}',
    '{"op": "ack", "member": "m1", "batches": [[0, 99999999999999999999, 1]]}',
    '{"op": "ack", "member": null, "batches": [[0, 4, 1]]}',
    '{"op": "release", "member": ""}',
    '{"op": "fetch", "member": "m1", "mode": ["batch_optimized"]}',
    '{"op": "fetch", "member": "m1", "max_records": -1}',
    '{"op": "fetch", "member": "m1", "batch_size": 0}',
    '{"op": "fetch", "member": "m1", "max_batches": -1, "force": true}',
    '{"op": "fetch", "member": "m1", "fetch_offset": 9223372036854775808}',
    '{"op": "fetch", "member": "m1", "force": "yes"}',
    '{"op": "append", "batches": [true]}',
    '{"op": "append", "batches": [3, 0]}',
    '{"op": "append", "batches": [1000001]}',
    '{"op": "append", "batches": [600000, 600000]}',
    '{"op": "gap", "n": -4}',
    '{"op": "gap", "n": 1e3}',
    '{"op": "lso", "offset": -1}',
    '{"op": "lso", "offset": 9223372036854775808}',
    '{"op": "advance", "ms": 1e400}',
    '{"op": "persister", "mode": "hold", "error": "NONE"}',
    '{"op": "persister", "error": "NOT_COORDINATOR", "mode": "maybe"}',
    '{"op": "persister", "mode": "hold", "complete": "maybe"}',
    '{"op": "persister", "complete": "ok", "n": -1}',
    '{"op": "persister", "complete": "ok", "n": "x"}',
    '{"op": "config", "lock_ms": 0}',
    '{"op": "config", "max_delivery": 3, "max_inflight": -1}',
    '{"op": "config", "renew": "false"}',
    '{"op": "config", "reset": ["earliest"]}',
    '{"op": "init", "persisted": []}',
    '{"op": "init", "persisted": {"batches": []}}',
    '{"op": "init", "persisted": {"start": 0, "batches": [[0, 3, 0, -1]]}}',
    '{"op": "init", "persisted": {"start": 0, "batches": [[0, 4611686018427387904, 0, 1]]}}',
    '{"op": "init", "log_start": -4}',
    "[" * 100_000,
    "1" * 5_000,
    '{"op": "' + "a" * 100_000 + '"}',
    "\x00",
    "\ufffd",
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
    assert answers[-1]["exception"].startswith("BadRequestError: ")
    assert done.stderr == ""


RAW = (b"", b"  ", b"\xff\xfe", b'{"op": "\xff"}', b'{"op": "du', b"\xef\xbb\xbf{}", b"\r")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_every_line_gets_one_line_whatever_its_bytes(locale):
    probe = b'{"op": "dump", "id": "probe"}'
    lines = [line for each in (*RAW, *(bad.encode() for bad in BAD)) for line in (each, probe)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.driver"],
        input=b"\n".join(lines),
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0"},
    )
    answers = [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    for answer in answers[::2]:
        assert ": " in answer["exception"]
    assert all(answer == {"id": "probe"} for answer in answers[1::2])
    assert done.stderr == b""


def test_more_offsets_than_can_be_listed_are_counted():
    driver = Driver()
    driver.answer('{"op": "init", "max_inflight": 100000000}')
    for _ in range(3):
        driver.answer('{"op": "append", "batches": [1000000], "dump": false}')
    fetch = '{"op": "fetch", "member": "m1", "max_records": 3000000}'
    state = driver.answer(fetch)["state"]
    assert "offsets" not in state
    assert state["offsets_error"] == "3000000 offsets are cached: too many to be listed"


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
