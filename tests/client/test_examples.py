"""Each example does what it says, against a cluster of real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sharemesh.client import connect
from tests.cli.local_up import LocalUp, local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("examples") / "data") as up:
        rows = "".join(f'{{"id": {n}}}\n' for n in range(20)) + '{"no": 1}\n'
        assert up.sharemesh("topics", "create", "orders", "--partitions", "2").returncode == 0
        assert up.sharemesh("produce", "orders", stdin=rows).returncode == 0
        yield up


def run(up: LocalUp, name: str, *arguments: str, warns: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), up.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert [line for line in said if not (warns and line.startswith(warns))] == []
    return done.stdout


def test_implicit_loop(up):
    assert len(run(up, "implicit_loop.py", "orders", "implicit", "21").splitlines()) == 21


def test_worker(up):
    assert len(run(up, "worker.py", "orders", "worker", "21").splitlines()) >= 21


def test_outage_worker(up):
    warns = "the circuit breaker of run is"
    out = run(up, "outage_worker.py", "orders", "outage", "21", warns=warns)
    assert out.count("sold") >= 20
    assert "wrong\n" in out
    assert "sold, delivery 3" not in out


def test_cl_46_a_graceful_worker_loses_nothing_at_sigterm(up):
    """CL-46: what it began is finished, and the rest comes again as if never delivered."""
    command = [sys.executable, str(EXAMPLES / "graceful_worker.py")]
    worker = subprocess.Popen(
        [*command, up.bootstrap, "orders", "graceful"], stdout=subprocess.PIPE, text=True
    )
    with worker:
        done = [worker.stdout.readline(), worker.stdout.readline()]
        worker.send_signal(signal.SIGTERM)
        done += worker.stdout.readlines()
        assert worker.wait(60) == 0
    assert done.pop() == "stopped\n"
    assert 2 <= len(done) < 21
    left = []
    with connect(up.bootstrap).share_consumer("graceful", ["orders"]) as consumer:
        while len(done) + len(left) < 21:
            left += consumer.poll(60_000)
    assert {each.delivery_count for each in left} == {1}
    finished = {line.split()[1] for line in done}
    assert not finished & {f"{each.topic_id_partition}@{each.offset}" for each in left}


def test_explicit_with_retry(up):
    out = run(up, "explicit_with_retry.py", "orders", "explicit", "21")
    assert out.count("failed: no id") == 3
    assert out.endswith("21 finished\n")


def test_renewing_worker(up):
    out = run(up, "renewing_worker.py", "orders", "renewing", "21")
    assert int(out.split()[0]) >= 21


def test_async_worker_pool(up):
    assert up.sharemesh("topics", "create", "jobs").returncode == 0
    out = run(up, "async_worker_pool.py", "jobs", "pool", "200")
    assert int(out.split()[0]) >= 200


def test_administer(up):
    out = run(up, "administer.py", "orders", "fresh")
    assert "exists already" in out
    assert "refused:" in out
    assert "orders/1 starts at 0" in out
