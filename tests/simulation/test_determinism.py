"""A run is a function of the code and the seed."""

import os
import subprocess
import sys

import pytest

SEED = 5


def run(hash_seed: str) -> list[str]:
    """Run one short seed in a new process; return its last line."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", str(SEED), "--workload", "short"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        timeout=240,
    )
    assert process.returncode == 0, process.stdout[-3_000:] + process.stderr[-2_000:]
    return process.stdout.splitlines()


@pytest.mark.slow
def test_two_processes_with_other_hash_seeds_see_the_same_events():
    one, other = run("1"), run("77")
    assert one[-1] == other[-1]
    assert "hash=" in one[-1]


@pytest.mark.slow
def test_a_replay_says_what_it_runs_first_and_what_it_saw_last():
    lines = run("3")
    assert lines[0].startswith(f"simulation: seeds {SEED}..{SEED}, Options(workload='short'")
    assert lines[-1].startswith("seeds=1 violations=0 hash=")
