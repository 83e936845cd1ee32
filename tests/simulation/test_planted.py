"""The simulation can fail: a planted bug is caught where its plan says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutants.plan import MUTANTS
from tests.simulation.patching import Patches

ROOT = Path(__file__).parents[2]
EXAMPLES = ("expiry_skips_parts", "a_late_delete_ends_the_next_life", "leaders_do_not_look")
SEEDS = 3


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_finds_what_it_replaces(name):
    patches = Patches()
    try:
        MUTANTS[name](patches)
    finally:
        patches.undo()


def test_planted_bugs_are_caught_by_seeds_that_are_clean_without_them():
    words = ["--jobs", "1", "--seeds", str(SEEDS), "--only", *EXAMPLES]
    process = subprocess.run(
        [sys.executable, "-m", "tests.simulation.mutants", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=240,
    )
    lines = process.stdout.splitlines()
    assert process.returncode == 0, process.stdout + process.stderr[-2_000:]
    assert lines[-1].startswith(f"mutants={len(EXAMPLES)} missed=0"), lines
