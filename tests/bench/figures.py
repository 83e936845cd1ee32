"""What every part of `make bench` uses: figures, medians of alternating rounds, the result file."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROUNDS = 5  # at least; of the baseline and of the measured thing, alternating
RESULTS = Path("build/bench")


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of build/bench/PART.json.

    ``floor`` bounds ``ratio`` from below, or, with ``at_most``, ``ratio`` (or ``value`` if there
    is no ratio) from above; None: only reported. ``goal`` only warns.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    floor: float | None = None
    at_most: bool = False
    goal: float | None = None

    @property
    def judged(self) -> float:
        """What the floor is about."""
        return self.value if self.ratio is None else self.ratio

    @property
    def met(self) -> bool:
        """Whether the floor is met; no floor is always met."""
        return self._reaches(self.floor)

    @property
    def goal_met(self) -> bool:
        """Whether the goal for a quiet machine is met."""
        return self._reaches(self.goal)

    def _reaches(self, bound: float | None) -> bool:
        if bound is None:
            return True
        return self.judged <= bound if self.at_most else self.judged >= bound


@dataclass(frozen=True, slots=True)
class Medians:
    """Medians of alternating rounds."""

    baseline: float
    measured: float

    @property
    def ratio(self) -> float:
        """Measured over baseline."""
        return self.measured / self.baseline


def alternate(
    baseline: Callable[[], float], measured: Callable[[], float], rounds: int = ROUNDS
) -> Medians:
    """Run both in turn, ``rounds`` times each (at least 5), and return the medians.

    Each function does its work once and returns its figure, for example records per second.
    """
    rounds = max(ROUNDS, rounds)
    of_baseline, of_measured = [], []
    for _ in range(rounds):
        of_baseline.append(baseline())
        of_measured.append(measured())
    return Medians(statistics.median(of_baseline), statistics.median(of_measured))


def write(part: str, figures: Sequence[Figure]) -> int:
    """Write build/bench/PART.json, print a table, and return 1 if a floor is missed, else 0."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    fields = ("name", "value", "unit", "baseline", "ratio", "floor")
    rows = [{key: value for key, value in asdict(f).items() if key in fields} for f in figures]
    (RESULTS / f"{part}.json").write_text(json.dumps(rows, indent=1) + "\n")
    for figure in figures:
        print(_line(figure))
    return 0 if all(figure.met for figure in figures) else 1


def _line(figure: Figure) -> str:
    parts = [f"{figure.name:30} {figure.value:14,.2f} {figure.unit:10}"]
    if figure.baseline is not None:
        parts.append(f"baseline {figure.baseline:14,.2f}")
    if figure.ratio is not None:
        parts.append(f"ratio {figure.ratio:.2f}")
    if figure.floor is not None:
        bound = "at most" if figure.at_most else "floor"
        parts.append(f"{bound} {figure.floor:g}")
    if not figure.met:
        parts.append("MISSED")
    elif not figure.goal_met:
        parts.append(f"(goal {figure.goal:g} not met)")
    return "  ".join(parts)
