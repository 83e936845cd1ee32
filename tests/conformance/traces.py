"""Replays what Apache Kafka 4.4.0 answered to random histories and compares every step."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.driver import Driver

TRACES = Path(__file__).parent / "data" / "kafka-traces.jsonl.gz"
# Kafka's own bookkeeping, and the split of writes, which is free; ``persisted`` is compared.
FREE = {"timers", "find_next", "notified", "writes"}
MISSING = "no such field"  # not the same as null


@dataclass(frozen=True)
class Difference:
    """The first step of a history in which this machine and Kafka disagree."""

    profile: str
    seed: int
    step: int
    request: dict[str, Any]
    field: str
    ours: Any
    kafka: Any

    def __str__(self) -> str:
        return (
            f"{self.profile} {self.seed} step {self.step} {json.dumps(self.request)}:"
            f" {self.field} is {self.ours!r}, Kafka {self.kafka!r}"
        )


def histories() -> Iterator[dict[str, Any]]:
    """Yield the recorded histories."""
    with gzip.open(TRACES, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def first_difference(history: dict[str, Any]) -> Difference | None:
    """Replay one history; stop where Kafka itself failed with an internal exception."""
    driver = Driver()
    for number, (request, theirs) in enumerate(history["steps"]):
        ours = driver.answer(json.dumps(request))
        if "exception" in theirs:
            return None
        for field, mine, kafka in _differences(ours, theirs):
            return Difference(
                history["profile"], history["seed"], number, request, field, mine, kafka
            )
    return None


def _differences(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in sorted((ours.keys() | theirs.keys()) - FREE - {"state", "exception"}):
        mine, kafka = _comparable(key, ours), _comparable(key, theirs)
        if mine != kafka:
            yield key, mine, kafka
    if "exception" in ours:
        yield "exception", ours["exception"], None
    mine, kafka = ours.get("state", {}), theirs.get("state", {})
    for key in sorted((mine.keys() | kafka.keys()) - FREE):
        if mine.get(key, MISSING) != kafka.get(key, MISSING):
            if key == "offsets":
                yield key, *_different_rows(mine.get(key), kafka.get(key))
            else:
                yield f"state.{key}", mine.get(key, MISSING), kafka.get(key, MISSING)


def _comparable(key: str, response: dict[str, Any]) -> Any:
    """Return a field; of errors, which are compared by name, only the name."""
    value = response.get(key, MISSING)
    if key == "error":
        return _name(value)
    if key == "futures" and isinstance(value, dict):
        return {number: _name(error) for number, error in value.items()}
    return value


def _different_rows(ours: Any, theirs: Any) -> tuple[Any, Any]:
    mine = {row[0]: row for row in ours or []}
    kafka = {row[0]: row for row in theirs or []}
    offsets = [o for o in sorted(mine.keys() | kafka.keys()) if mine.get(o) != kafka.get(o)]
    return [mine.get(o) for o in offsets[:5]], [kafka.get(o) for o in offsets[:5]]


def _name(error: str | None) -> str | None:
    return None if error is None else error.partition(":")[0]


def main() -> None:
    """Print the first difference of each history and how many agree."""
    agree = total = 0
    for history in histories():
        total += 1
        difference = first_difference(history)
        if difference is None:
            agree += 1
        else:
            print(difference)
    print(f"{agree} of {total} histories agree")


if __name__ == "__main__":
    main()
