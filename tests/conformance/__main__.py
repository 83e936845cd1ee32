"""`make conformance`: runs the scenarios and Kafka's histories, writes build/conformance.json.

Usage: python -m tests.conformance [test path ...]; without a path, all of tests/conformance. Exit
code 1 unless every scenario passed or is left out and every history agrees.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.conformance.scenario import LEFT_OUT, scenarios
from tests.conformance.traces import first_difference, histories

RESULT = Path("build/conformance.json")
NOT_COVERED = "not covered"


class Outcomes:
    """A pytest plugin that notes what became of each scenario id."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.ran: set[str] = set()
        self._ids: dict[str, list[str]] = defaultdict(list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which test carries which ids."""
        for item in session.items:
            for mark in item.iter_markers("scenario"):
                self._ids[item.nodeid].extend(mark.args)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of each phase of each test."""
        ids = self._ids.get(report.nodeid, [])
        if report.when == "call":
            self.ran.update(ids)
        if report.outcome != "passed":
            self.failed.update(ids)


def replay() -> tuple[int, int, list[str]]:
    """Return how many histories agree, of how many, and the first differences."""
    differences = []
    total = 0
    for history in histories():
        total += 1
        difference = first_difference(history)
        if difference is not None:
            differences.append(str(difference))
    return total - len(differences), total, differences


def verdicts(outcomes: Outcomes) -> dict[str, str]:
    """Return what is asked for by each scenario id."""
    result = {}
    for each in scenarios():
        if each in LEFT_OUT:
            result[each] = LEFT_OUT[each]
        elif each in outcomes.failed:
            result[each] = "failed"
        elif each in outcomes.ran:
            result[each] = "passed"
        else:
            result[each] = NOT_COVERED
    return result


def main(arguments: list[str]) -> int:
    """Run, print a table by section and return the exit code."""
    outcomes = Outcomes()
    paths = arguments or [str(Path(__file__).parent)]
    pytest.main(["-q", "--no-header", "-m", "scenario", *paths], plugins=[outcomes])
    result = verdicts(outcomes)
    agree, total, differences = replay()
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    document = {"scenarios": result, "kafka_traces": {"agree": agree, "of": total}}
    RESULT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    for section, title, counts in by_section(result):
        print(
            f"{section}  {counts['passed']:3} passed {counts['failed']:3} failed"
            f" {counts[NOT_COVERED]:3} not covered {counts['left out']:3} left out  {title}"
        )
    for each, verdict in result.items():
        if verdict in {"failed", NOT_COVERED}:
            print(f"{verdict}: {each}")
    for difference in differences:
        print(f"differs: {difference}")
    print(f"kafka traces: {agree} of {total} histories agree in every step")
    complete = all(verdict == "passed" or verdict.startswith("left") for verdict in result.values())
    return 0 if complete and agree == total else 1


def by_section(result: dict[str, str]) -> list[tuple[str, str, Counter[str]]]:
    """Return (section, title, counts of verdicts) in the order of the list."""
    counts: dict[str, Counter[str]] = {}
    titles = {}
    for row in scenarios().values():
        titles[row.section] = row.title
        verdict = result[row.id]
        counts.setdefault(row.section, Counter())[
            "left out" if verdict.startswith("left") else verdict
        ] += 1
    return [(section, titles[section], count) for section, count in counts.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
