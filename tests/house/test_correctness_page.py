"""docs/correctness.md names every checker of the simulation, and the number of planted bugs."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "correctness.md").read_text(encoding="utf-8")


def planted() -> set[str]:
    """Return the names in both plans; importing them would need pytest's conformance."""
    source = (ROOT / "tests/simulation/mutants/plan.py").read_text(encoding="utf-8")
    plans = {
        ast.unparse(node.target): node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign)
    }
    names: set[str] = set()
    for name in ("PLAN", "PLAN_ON_KAFKA"):
        plan = plans[name]
        assert isinstance(plan, ast.Dict)
        for bugs in plan.values:
            listed = bugs.keys if isinstance(bugs, ast.Dict) else bugs.elts
            names |= {ast.unparse(each) for each in listed}
    return names


def test_every_checker_is_named_and_no_other():
    checkers = {path.name for path in (ROOT / "tests/simulation/checkers").glob("*.py")}
    assert len(checkers) > 10
    assert set(re.findall(r"^\| `(\w+\.py)` \|", PAGE, re.MULTILINE)) == checkers


def test_the_number_of_planted_bugs_is_that_of_the_plan():
    (told,) = re.findall(r"(\d+) bugs in \[`tests/simulation/mutants`\]", PAGE)
    assert int(told) == len(planted())
