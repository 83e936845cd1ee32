"""Scenario ids: the list, the mark that a test carries, and what is left out."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

SCENARIOS = Path(__file__).parent / "scenarios.jsonl"
Test = TypeVar("Test", bound=Callable[..., object])

NO_DLQ = "left out: the dead-letter queue is not in this version"
NO_OFFLOAD = "left out: assignment is not off-loaded"
NO_OTHER_GROUPS = "left out: there are no other group types"
NO_CSV = "left out: no CSV files"

LEFT_OUT = {
    **{
        f"DLQ-S{number:02}": NO_DLQ
        for number in (1, 3, 4, 5, 7, 8, 12, 13, 14, 15, 16)  # S02 and S11 hold without a queue
    },
    "GC-S25": NO_OFFLOAD,
    "GC-S29": NO_OTHER_GROUPS,
    "CLI-S10": NO_CSV,
}


@dataclass(frozen=True)
class Scenario:
    """One scenario of the shared list."""

    id: str
    section: str
    title: str
    text: str
    part: str = ""


def scenarios() -> dict[str, Scenario]:
    """Return all scenarios by id, in the order of the list."""
    with SCENARIOS.open() as lines:
        rows = [Scenario(**json.loads(line)) for line in lines]
    return {row.id: row for row in rows}


def scenario(*ids: str) -> Callable[[Test], Test]:
    """Mark a test as the check of these scenarios: it must assert every value after ``T:``.

    A scenario counts as passed if every test that carries its id passed.
    """
    return pytest.mark.scenario(*ids)
