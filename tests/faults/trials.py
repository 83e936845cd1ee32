"""Trials of one fault: run, count, write build/faults/PART.json; resumable by commit.

A trial is an async function of (trial number, seed) that returns what it saw. The file holds one
row a fault: name, trials, violations, p50_ms, p99_ms, and what is needed to go on or replay. Rows
of another commit, or of a tree with changes, are never taken over: all of a file is of one run, or
of several on the same clean commit.
"""

import json
import math
import os
import statistics
import subprocess
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one trial saw; ``recovery_ms`` is the time from the fault to the next progress."""

    violations: tuple[str, ...] = ()
    recovery_ms: tuple[float, ...] = ()
    notes: str = ""
    trials: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the report; a time above ``goal_ms`` is told, and is no violation."""

    name: str
    trials: int
    run: Callable[[int, int], Awaitable[Outcome]]
    goal_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A row whose trials share a cluster: ``run`` takes how many (up to ``at_once``) and a seed."""

    name: str
    trials: int
    run: Callable[[int, int], Awaitable[Outcome]]
    at_once: int = 5
    goal_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Kinds:
    """Rows that share a cluster: ``run`` takes the names of those to try and a seed."""

    names: tuple[str, ...]
    run: Callable[[Sequence[str], int], AsyncIterator[tuple[str, Outcome]]]


@dataclass(frozen=True, slots=True)
class SharedSeries:
    """Rows that share a cluster: ``run`` takes names, trials (up to ``at_once``) and a seed."""

    names: tuple[str, ...]
    trials: int
    run: Callable[[Sequence[str], int, int], AsyncIterator[tuple[str, Outcome]]]
    at_once: int = 5
    goal_ms: float | None = None


Trials = Fault | Series | Kinds | SharedSeries
"""One entry of a part."""


@dataclass(slots=True)
class Row:
    """The counts of one fault so far."""

    name: str
    trials: int = 0
    violations: int = 0
    times_ms: list[float] = field(default_factory=list)
    seeds_of_violations: list[int] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def as_json(self, commit: str) -> dict[str, object]:
        """Return the row as it is written."""
        return {
            "name": self.name,
            "trials": self.trials,
            "violations": self.violations,
            "p50_ms": round(statistics.median(self.times_ms), 1) if self.times_ms else None,
            "p99_ms": round(quantile(self.times_ms, 0.99), 1) if self.times_ms else None,
            "seeds_of_violations": self.seeds_of_violations,
            "times_ms": [round(t, 1) for t in self.times_ms],
            "load_average": [round(load, 1) for load in self.loads],
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "commit": commit,
        }


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def commit_id() -> str:
    """Return the commit that the trials ran on, marked when the tree has changes."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def load(path: Path, commit: str) -> dict[str, Row]:
    """Return rows of an earlier run on the same clean commit, to go on from."""
    if commit.endswith("+") or not path.exists():
        return {}
    rows = {}
    for row in json.loads(path.read_text()):
        if row["commit"] == commit:
            rows[row["name"]] = Row(
                row["name"],
                row["trials"],
                row["violations"],
                row["times_ms"],
                row["seeds_of_violations"],
                row["load_average"],
            )
    return rows


def _against_goal(goal_ms: float | None, written: dict[str, object]) -> str:
    found = written["p99_ms"]
    if goal_ms is None or not isinstance(found, float):
        return ""
    return f"  (goal {goal_ms:.0f} ms{'' if found <= goal_ms else ': MISSED'})"


async def _tried(fault: Fault | Series, number: int, seed: int) -> Outcome:
    """Run a trial; one that could not be carried through counts as a violation."""
    try:
        return await fault.run(number, seed)
    except Exception as error:
        traceback.print_exc()
        return _not_carried_through(error, number if isinstance(fault, Series) else 1)


def _not_carried_through(error: Exception, trials: int) -> Outcome:
    return Outcome((f"not carried through: {type(error).__name__}: {error}",), trials=trials)


async def _shared(
    fault: SharedSeries, rows: dict[str, Row], wanted: int, seed: int
) -> AsyncIterator[tuple[str, int, Outcome]]:
    """Run the missing trials of rows that share clusters."""
    while True:
        done = min(rows[name].trials for name in fault.names)
        if done >= wanted:
            return
        left = [name for name in fault.names if rows[name].trials == done]
        count, first = min(fault.at_once, wanted - done), seed + done
        try:
            async for name, outcome in fault.run(tuple(left), count, first):
                left.remove(name)
                yield name, first, outcome
        except Exception as error:
            traceback.print_exc()
            for name in left:
                yield name, first, _not_carried_through(error, count)


async def _outcomes(
    fault: Trials, rows: dict[str, Row], *, trials: int | None, seed: int
) -> AsyncIterator[tuple[str, int, Outcome]]:
    """Run the missing trials of one entry: name of the row, seed, and what it saw."""
    if isinstance(fault, SharedSeries):
        wanted = fault.trials if trials is None else trials
        async for told in _shared(fault, rows, wanted, seed):
            yield told
        return
    if isinstance(fault, Kinds):
        for number in range(trials or 1):
            missing = [name for name in fault.names if rows[name].trials <= number]
            try:
                async for name, outcome in fault.run(tuple(missing), seed + number):
                    missing.remove(name)
                    yield name, seed + number, outcome
            except Exception as error:
                traceback.print_exc()
                yield missing[0], seed + number, _not_carried_through(error, 1)
        return
    row = rows[fault.name]
    wanted = fault.trials if trials is None else trials
    while row.trials < wanted:
        number, trial_seed = row.trials, seed + row.trials
        if isinstance(fault, Series):
            number = min(fault.at_once, wanted - number)
        yield fault.name, trial_seed, await _tried(fault, number, trial_seed)


def named(faults: Sequence[Trials], wanted: str) -> list[Trials]:
    """Return the rows whose names contain what is wanted."""
    found: list[Trials] = []
    for fault in faults:
        if isinstance(fault, Kinds | SharedSeries):
            names = tuple(name for name in fault.names if wanted in name)
            if names:
                found.append(replace(fault, names=names))
        elif wanted in fault.name:
            found.append(fault)
    return found


async def run_part(part: str, faults: Sequence[Trials], *, trials: int | None, seed: int) -> int:
    """Run every fault's missing trials; return the number of violations."""
    path = ROOT / "build" / "faults" / f"{part}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    commit = commit_id()
    rows = load(path, commit)
    goals: dict[str, float | None] = {}
    for fault in faults:
        names = fault.names if isinstance(fault, Kinds | SharedSeries) else (fault.name,)
        for name in names:
            rows.setdefault(name, Row(name))
            goals[name] = None if isinstance(fault, Kinds) else fault.goal_ms
        async for name, trial_seed, outcome in _outcomes(fault, rows, trials=trials, seed=seed):
            row = rows[name]
            row.trials += outcome.trials
            row.times_ms.extend(outcome.recovery_ms)
            row.loads.append(os.getloadavg()[0])
            if outcome.violations:
                row.violations += len(outcome.violations)
                row.seeds_of_violations.append(trial_seed)
            shown = " ".join(f"{t:.0f} ms" for t in outcome.recovery_ms)
            print(
                f"{name} trial {row.trials} seed {trial_seed}: "
                f"{len(outcome.violations)} violations {shown} {outcome.notes}",
                flush=True,
            )
            for violation in outcome.violations[:10]:
                print(f"  {violation}", flush=True)
            written = [r.as_json(commit) for r in rows.values() if r.trials]
            path.write_text(json.dumps(written, indent=1))
    for name, goal_ms in goals.items():
        summary = rows[name].as_json(commit)
        print(
            f"{name:<28} {summary['trials']:>4} trials {summary['violations']:>4} violations"
            f"  p50 {summary['p50_ms']} ms  p99 {summary['p99_ms']} ms"
            f"{_against_goal(goal_ms, summary)}"
        )
    return sum(rows[name].violations for name in goals)
