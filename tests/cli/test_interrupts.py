"""Produce and consume say what is confirmed when they are interrupted, so that one can go on."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminate"]
)


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("interrupts") / "data") as up:
        yield up


@contextlib.contextmanager
def running(up, *arguments: str):
    """Run a command with pipes; it does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sharemesh.cli", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SHAREMESH_BOOTSTRAP": up.bootstrap},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def records_in(up, topic: str) -> int:
    """Return how many records a topic holds, asked of a group that has consumed none."""
    reset = ("groups", "reset-offsets", "counting", "--topic", topic, "--to-latest", "--json")
    rows = json.loads(up.sharemesh(*reset).stdout)
    return sum(row["new_offset"] for row in rows)


def until_records(up, topic: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while (there := records_in(up, topic)) < count:
        assert time.monotonic() < deadline, f"{there} of {count} records"


@SIGNALS
@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_produce_says_up_to_which_line_all_is_confirmed(up, number, code, as_json):
    topic = f"waits-{code}-{as_json}"
    up.sharemesh("topics", "create", topic, "--partitions", "3")
    flags = ["--json"] if as_json else []
    with running(up, "produce", topic, "--key", "id", *flags) as process:
        for row in range(700):
            process.stdin.write(f'{{"id": {row}}}\n')
        process.stdin.flush()
        until_records(up, topic, 700)
        process.send_signal(number)
        process.stdin.flush()  # stays open: it is the signal that ends the command
        process.wait(30)
        out, err = process.stdout.read(), process.stderr.read()
    assert process.returncode == code, err
    assert "Traceback" not in err
    if as_json:
        told = json.loads(out)
        assert (told["confirmed"], told["done_to_line"], told["interrupted"]) == (700, 700, True)
    else:
        assert out.startswith(f"interrupted: 700 records confirmed in topic {topic} (0@0..")
        assert out.strip().endswith("every row up to line 700 is confirmed: resume from line 701")


def test_a_produce_that_is_interrupted_while_records_flow_loses_count_of_none(up):
    up.sharemesh("topics", "create", "flows", "--partitions", "3")
    with running(up, "produce", "flows", "--key", "id", "--json") as process:
        fed = threading.Event()

        def feed() -> None:
            with contextlib.suppress(BrokenPipeError):
                for row in range(2_000_000):
                    process.stdin.write(f'{{"id": {row}}}\n')
                    if row == 20_000:
                        fed.set()

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        assert fed.wait(60)
        process.send_signal(signal.SIGINT)
        told = json.loads(process.stdout.readline())
        assert process.wait(30) == 130
        err = process.stderr.read()
        feeder.join(10)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    assert "Traceback" not in err
    assert told["confirmed"] == told["done_to_line"] == records_in(up, "flows")
    assert told["confirmed"] > 1_000
    assert told["interrupted"]


@pytest.mark.parametrize("flowing", [True, False])
@SIGNALS
def test_an_interrupted_consume_says_how_many_of_the_printed_records_are_confirmed(
    up, number, code, flowing
):
    topic, total = f"read-{code}-{flowing}", 20_000 if flowing else 30
    up.sharemesh("topics", "create", topic, "--partitions", "2")
    rows = "".join(f"{row}\n" for row in range(total))
    assert up.sharemesh("produce", topic, "--format", "text", stdin=rows).returncode == 0
    consume = ("consume", topic, "--group", f"g-{topic}", "--from-beginning", "--json")
    with running(up, *consume) as process:
        lines = [process.stdout.readline() for _ in range(100 if flowing else total)]
        process.send_signal(number)
        lines += process.stdout.readlines()
        err = process.stderr.read()
        process.wait(60)
    assert process.returncode == code, err
    told = json.loads(err.splitlines()[-1])
    assert told["records"] == len(lines)
    assert told["interrupted"]
    rest = up.sharemesh(*consume, "--max-records", str(total), "--idle", "4000")
    again = [json.loads(line) for line in rest.stdout.splitlines()]
    assert len(again) == total - told["confirmed"]
    seen = {(line["partition"], line["offset"]) for line in map(json.loads, lines)}
    twice = seen & {(line["partition"], line["offset"]) for line in again}
    assert len(twice) == told["records"] - told["confirmed"]


def test_the_summary_of_consume_in_words(up):
    up.sharemesh("topics", "create", "words")
    up.sharemesh("produce", "words", "--format", "text", stdin="x\n")
    with running(up, "consume", "words", "--group", "w", "--from-beginning") as process:
        assert process.stdout.readline() == "x\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "interrupted: 1 record, 0 of them delivered before, 1 confirmed\n"
