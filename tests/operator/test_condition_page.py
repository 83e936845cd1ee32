"""docs/reference/conditions.md knows every reason that the operator gives, and no other."""

import ast
import re
from pathlib import Path

from sharemesh_operator.resources.problems import NOT_OPENED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "conditions.md"
CAMEL = re.compile(r"[A-Z][A-Za-z]+")
PLACES = {
    **dict.fromkeys(("true", "false", "unknown", "tell"), 1),
    **dict.fromkeys(
        (
            "Problem",
            "problem",
            "ClusterConnectionError",
            "ClusterGoneError",
            "OperationError",
            "done",
            "failed",
            "under_way",
        ),
        0,
    ),
}


def reasons_in_code():
    found = set()
    for path in (ROOT / "operator" / "sharemesh_operator").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                found |= set(_reasons(node))
    return found | {
        "UpToDate",
        NOT_OPENED,
        "SharedClaim",
        "SingleNode",
        "AllElected",
        "Electing",
        "WithinCap",
        "AboveCap",
    }


def _reasons(call):
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    at = PLACES.get(name)
    given = [call.args[at]] if at is not None and len(call.args) > at else []
    given += [each.value for each in call.keywords if each.arg == "reason"]
    for each in given:
        if isinstance(each, ast.Constant) and CAMEL.fullmatch(str(each.value)):
            yield each.value


def reasons_on_page():
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {reason for cells in rows for reason in re.findall(r"`([A-Z][A-Za-z]+)`", cells[1])}


def test_the_page_and_the_code_name_the_same_reasons():
    assert reasons_on_page() == reasons_in_code()
