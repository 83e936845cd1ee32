"""`python -m tests.domain_coverage`: every line and branch of the domain is run, or is listed.

It reads what the parts `domain` and `conformance` of the suite measured. What no test
reaches stands in tests/domain/unreached.toml with the reason, as long as the line is there.
"""

import ast
import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOMAIN = ROOT / "services" / "sharemesh" / "domain"
DATA = ROOT / "build" / "coverage"
LIST = ROOT / "tests" / "domain" / "unreached.toml"
Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Miss:
    """A line that no test runs, or from which no test takes one of its ways."""

    function: str
    line: str
    module: str = field(default="", compare=False)
    """Where it is now: modules move, and take their functions with them."""

    def __str__(self) -> str:
        return f"{self.module} {self.function}: {self.line}".strip()


def measured(data: Path = DATA) -> Report:
    """Return coverage's report of all parts together."""
    import coverage  # the list is checked where nothing is measured, too

    files = sorted(str(path) for path in data.glob("*.data"))
    if not files:
        raise SystemExit(f"coverage: nothing was measured in {data}: run `make test`")
    found = coverage.Coverage(data_file=str(data / "all"), config_file=str(ROOT / "pyproject.toml"))
    found.combine(files, strict=True, keep=True)
    path = data / "domain.json"
    found.json_report(outfile=str(path))
    report: Report = json.loads(path.read_text())
    return report


def misses(report: Report, domain: Path = DOMAIN) -> set[Miss]:
    """Return what was missed, by the text of the line: numbers change too often."""
    result = set()
    for name, file in report["files"].items():
        path = (ROOT / name).resolve()
        text = path.read_text()
        lines = text.splitlines()
        functions = function_of_each_line(text)
        numbers = {*file["missing_lines"], *(begin for begin, _ in file["missing_branches"])}
        module = path.relative_to(domain).as_posix()
        result |= {
            Miss(functions.get(number, ""), lines[number - 1].strip(), module) for number in numbers
        }
    return result


def function_of_each_line(text: str) -> dict[int, str]:
    """Return the innermost function of each line that lies in one."""
    found: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):  # outer ones come first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), node.name)
    return found


def listed(path: Path = LIST) -> dict[Miss, str]:
    """Return what need not be reached, and why."""
    entries = tomllib.loads(path.read_text()).get("unreached", [])
    return {Miss(entry["function"], entry["line"]): entry["reason"] for entry in entries}


def complaints(found: set[Miss], known: Mapping[Miss, str], domain: Path = DOMAIN) -> list[str]:
    """Return what is wrong, a line each."""
    there = {
        Miss(functions.get(number, ""), line.strip())
        for path in domain.rglob("*.py")
        for text in [path.read_text()]
        for functions in [function_of_each_line(text)]
        for number, line in enumerate(text.splitlines(), 1)
    }
    return [
        *(f"no test reaches all of {each}" for each in sorted(found - {*known})),
        *(f"{LIST.name} lists what is gone: {each}" for each in sorted({*known} - there)),
    ]


def main() -> int:
    """Print the figure and what is wrong; exit 1 if anything is."""
    report = measured()
    known = listed()
    wrong = complaints(misses(report), known)
    for each in wrong:
        print(each)
    totals = report["totals"]
    print(
        f"domain: {totals['covered_lines']} of {totals['num_statements']} lines,"
        f" {totals['covered_branches']} of {totals['num_branches']} branches;"
        f" {len(known)} listed as unreached"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
