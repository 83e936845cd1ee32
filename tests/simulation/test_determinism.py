"""A run is a function of the code and the seed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SEED = 44


ROOT = Path(__file__).parents[2]
PACKAGES = ("services", "spark", "operator")
PINNED = """
import os, runpy, sys
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(sys.argv.pop(1))]})
runpy.run_module("tests.simulation", run_name="__main__")
"""


def run(what: tuple[str, str], hash_seed: str, root: Path = ROOT, core: int = 0) -> list[str]:
    """Run one seed in a new process on one core; return its lines."""
    workload, engine = what
    words = ["--seed", str(SEED), "--workload", workload, "--engine", engine]
    places = [str(root), *(str(root / name) for name in PACKAGES)]
    process = subprocess.run(
        [sys.executable, "-c", PINNED, str(core), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(places),
        },
        timeout=240,
    )
    assert process.returncode == 0, process.stdout[-3_000:] + process.stderr[-2_000:]
    return process.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", [("mixed", "embedded"), ("short", "kafka")], ids=lambda what: what[1]
)
def test_a_copy_elsewhere_with_another_hash_seed_and_core_sees_the_same_events(tmp_path, what):
    for name in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    last_core = len(os.sched_getaffinity(0)) - 1
    one, other = run(what, "1"), run(what, "77", tmp_path, last_core)
    told = [[line for line in lines if "virtual hours in" not in line] for lines in (one, other)]
    assert told[0] == told[1]
    assert one[0].startswith(f"simulation: seeds {SEED}..{SEED}, Options(workload='{what[0]}'")
    assert one[-1].startswith("seeds=1 violations=0 hash=")
