"""For each rule of the reference that the core carries out, a reader finds the place by its id."""

import re
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services" / "sharemesh"
# sections 2 to 10, 13, 18 and 19 of the reference: prefix and how many rules there are
RULES = {
    "RS": 16,
    "T": 16,  # rows of the transition table
    "IFB": 7,
    "INI": 15,
    "OFF": 22,
    "ACQ": 22,
    "THR": 7,
    "ISO": 5,
    "ACK": 22,
    "REL": 6,
    "LK": 10,
    "PER": 12,
    "ROT": 5,
    "CMB": 12,
    "OLD": 10,
}
NOT_IN_THE_PRODUCT = {
    "PER-12": "a persister for tests that keeps nothing: tests/conformance has one that keeps",
    "ROT-2": "examples of ROT-1, in the tests of sessions",
    "OLD-10": "a worked example: tests/conformance/test_p_worked_example.py",
}


def rule_ids() -> list[str]:
    return [
        f"T{number}" if prefix == "T" else f"{prefix}-{number}"
        for prefix, count in RULES.items()
        for number in range(1, count + 1)
    ]


@pytest.fixture(scope="module")
def cited() -> set[str]:
    text = "\n".join(path.read_text() for path in SERVICES.rglob("*.py"))
    return set(re.findall(r"\b(?:T\d+|[A-Z]{2,3}-\d+)\b", text))


def test_each_rule_id_is_found_in_the_product(cited):
    assert set(rule_ids()) - cited == set(NOT_IN_THE_PRODUCT)


def test_no_rule_is_cited_that_does_not_exist(cited):
    ours = {each for each in cited if each.split("-")[0] in RULES and "-" in each}
    assert ours - set(rule_ids()) <= {"ISO-8601"}  # a standard, no rule
