"""A run that is resumed answers for all its seeds, and only for the commit that they ran at."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.progress import NoCommitError, Progress
from tests.simulation.run import Outcome
from tests.simulation.world import Options

ROOT = Path(__file__).parents[2]
REACHED = {"faults": 5, "acknowledgements": 2_000}


def git(*words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *identity, *words], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A work tree at a commit, and the current directory."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    (tmp_path / ".gitignore").write_text("build/\n")
    git("add", ".gitignore")
    git("commit", "-qm", "one")
    return tmp_path


def outcome(seed: int, *violations: str) -> Outcome:
    return Outcome(seed, violations, f"{seed:016x}", Counter(REACHED), 700.0)


def resumed(seeds: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tests.simulation", "--resume", "--seeds", str(seeds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def test_kept_outcomes_are_read_back_whole(tree):
    Progress(Options()).add(outcome(3, "it broke"))
    assert Progress(Options()).done == {3: outcome(3, "it broke")}
    assert Progress(Options(workload="short")).done == {}


def test_a_seed_that_failed_before_fails_the_resumed_run(tree):
    progress = Progress(Options())
    progress.add(outcome(1))
    progress.add(outcome(2, "flights/0@7 was lost"))
    again = resumed(2)
    assert again.returncode == 1
    assert "broken seeds: [2]" in again.stdout
    assert again.stdout.splitlines()[-1].startswith("seeds=2 violations=1 hash=")


def test_a_resumed_run_of_clean_seeds_passes_with_the_hash_of_all(tree):
    progress = Progress(Options())
    progress.add(outcome(1))
    one = resumed(1).stdout.splitlines()[-1]
    progress.add(outcome(2))
    both = resumed(2)
    assert both.returncode == 0
    assert both.stdout.splitlines()[-1].startswith("seeds=2 violations=0 hash=")
    assert both.stdout.splitlines()[-1].split("hash=")[1] != one.split("hash=")[1]


def test_a_line_that_a_killed_run_left_torn_is_run_again(tree):
    progress = Progress(Options())
    progress.add(outcome(1))
    with progress.path.open("a") as file:
        file.write('{"seed": 2, "viol')
    again = Progress(Options())
    assert again.done == {1: outcome(1)}
    again.add(outcome(2))
    assert Progress(Options()).done == {1: outcome(1), 2: outcome(2)}


def test_outcomes_of_a_changed_tree_are_not_resumed(tree):
    (tree / ".gitignore").write_text("build/\nother/\n")
    with pytest.raises(NoCommitError, match=r"has changes \(M .gitignore\): commit them"):
        Progress(Options())
    refused = resumed(1)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "commit them, or run without RESUME=1" in refused.stderr


def test_outside_a_clone_a_run_is_not_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(NoCommitError, match="run in a clone"):
        Progress(Options())
