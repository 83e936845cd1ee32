"""What `make test` runs: each part with its budget, then a table and one closing line.

A part that overruns its budget is named, and does not fail: two shared cores are noisy. The
whole suite has a hard limit of its own in `.ci/run`.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests import domain_coverage

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Part:
    """One command of the suite."""

    name: str
    command: tuple[str, ...]
    budget_s: int
    fast: bool
    covered: bool = False
    """Whether it measures what it reaches of the domain, for ``domain_coverage``."""

    @property
    def data(self) -> Path:
        """Where it leaves what it measured."""
        return domain_coverage.DATA / f"{self.name}.data"

    def environment(self) -> dict[str, str]:
        """Return the variables under which it runs."""
        measured = {"COVERAGE_FILE": str(self.data)}
        return {**os.environ, "PYTHONUNBUFFERED": "1", **(measured if self.covered else {})}


def pytest_part(
    name: str, marked: str, *words: str, budget_s: int, workers: int = 2, fast: bool = False
) -> Part:
    """Return a part that runs the tests so marked; a file stays whole within one worker."""
    how = ("-q", "-n", str(workers), "--dist", "loadfile", "-m", marked, *words)
    covered = "--cov" in words
    return Part(name, (sys.executable, "-m", "pytest", *how), budget_s, fast, covered)


# The rooms that state or drive the rules of the domain, apart: only they are measured, as that
# takes as long again as the tests.
DOMAIN_TESTS = (
    "tests/domain",
    "tests/conformance",
    "tests/group_coordinator",
    "tests/share_coordinator",
    "tests/persister",
    "tests/tokens",
    "tests/backends/kafka",
)
NOT_DOMAIN = tuple(f"--ignore={room}" for room in DOMAIN_TESTS)
OTHERWISE = "not integration and not spark and not kafka and not cluster and not scenario"
PARTS = (
    Part("format", (str(BIN / "ruff"), "format", "--check", "."), 10, fast=True),
    Part("style", (str(BIN / "ruff"), "check", "."), 10, fast=True),
    Part("layers", (str(BIN / "lint-imports"),), 20, fast=True),
    Part("types", (str(BIN / "mypy"),), 90, fast=True),
    pytest_part(
        "domain",
        f"not slow and {OTHERWISE}",
        *("--cov", "--cov-report=", *DOMAIN_TESTS),
        budget_s=150,
        fast=True,
    ),
    pytest_part("unit", f"not slow and {OTHERWISE}", *NOT_DOMAIN, budget_s=300, fast=True),
    pytest_part("slow and property", f"slow and {OTHERWISE}", budget_s=300),
    Part(
        "conformance",
        (sys.executable, "-m", "coverage", "run", "-m", "tests.conformance"),
        150,
        fast=False,
        covered=True,
    ),
    Part("coverage of the domain", (sys.executable, "-m", "tests.domain_coverage"), 20, fast=False),
    Part(
        "simulation",
        (sys.executable, "-m", "tests.simulation", "--seeds", "2", "--regressions"),
        120,
        fast=False,
    ),
    Part(
        "simulation of trimmed logs",
        (
            *(sys.executable, "-m", "tests.simulation", "--workload", "trimmed"),
            *("--seeds", "2", "--regressions"),
        ),
        60,
        fast=False,
    ),
    pytest_part("integration", "integration and not scenario", workers=3, budget_s=420),
    # Each alone leaves the cores half idle. Spark tests that are integration too run in that part.
    # The first test of a new machine fetches a broker's jars.
    pytest_part(
        "spark and kafka",
        "(spark and not integration) or (kafka and not jury)",
        "--timeout=300",
        budget_s=420,
    ),
)
JURIES = pytest_part("juries", "jury", workers=1, budget_s=1_800)
"""Suites and programs that others wrote: minutes each, so only `make nightly` runs them."""


def run(part: Part) -> tuple[bool, float, int, int]:
    """Run one part; return (passed, seconds, tests passed, tests failed)."""
    print(f"\n== {part.name}", flush=True)
    started = time.monotonic()
    process = subprocess.Popen(
        part.command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=part.environment(),
    )
    tail = ""
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        if line.strip():
            tail = line
    code = process.wait()
    passed = sum(int(n) for n in re.findall(r"(\d+) passed", tail))
    failed = sum(int(n) for n in re.findall(r"(\d+) (?:failed|error)", tail))
    return code == 0, time.monotonic() - started, passed, failed


def main() -> int:
    """Run the parts in order; exit 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite")
    parser.add_argument("--fast", action="store_true", help="only what takes under a minute or so")
    parser.add_argument("--only", default="", help="one part by name")
    args = parser.parse_args()
    parts = [p for p in PARTS if (not args.fast or p.fast) and args.only in ("", p.name)]
    if args.only == JURIES.name:
        parts = [JURIES]
    if not parts:
        names = ", ".join(p.name for p in (*PARTS, JURIES))
        print(f"no part is called {args.only!r}; there are: {names}")
        return 2
    domain_coverage.DATA.mkdir(parents=True, exist_ok=True)
    for part in parts:
        part.data.unlink(missing_ok=True)
    rows = [(part, *run(part)) for part in parts]
    print(f"\n{'part':<20}{'result':<9}{'seconds':>8}{'budget':>8}")
    for part, good, seconds, _, _ in rows:
        over = "  over budget" if seconds > part.budget_s else ""
        result = "passed" if good else "FAILED"
        print(f"{part.name:<20}{result:<9}{seconds:>8.0f}{part.budget_s:>8}{over}")
    bad = [part.name for part, good, *_ in rows if not good]
    passed = sum(max(row[3], 1 if row[1] else 0) for row in rows)
    failed = sum(max(row[4], 0 if row[1] else 1) for row in rows)
    if bad:
        print(f"failed: {', '.join(bad)}; run one alone with `make test ONLY='{bad[0]}'`")
    print(f"{passed} passed, {failed} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
