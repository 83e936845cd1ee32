"""What producers and consumers saw, one JSON line an event, safe against their own kill -9.

Times are CLOCK_MONOTONIC milliseconds, which all processes of one machine share. Offsets are
inclusive ranges. A line is written and flushed before the process goes on, so that a killed
process leaves all that it saw, and perhaps one torn last line, which is ignored.
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: who saw what, when."""

    time_ms: float
    who: str
    event: str
    fields: dict[str, Any]


def now_ms() -> float:
    """Return CLOCK_MONOTONIC in milliseconds."""
    return time.monotonic_ns() / 1e6


class Journal:
    """Writes one process's file."""

    def __init__(self, path: Path, who: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._who = who

    def write(self, event: str, **fields: Any) -> None:
        """Append one event and hand it to the kernel."""
        line = {"t": now_ms(), "w": self._who, "e": event, **fields}
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def produced(self, partition: str, first: int, last: int) -> None:
        """Say that the leader confirmed these offsets."""
        self.write("produced", p=partition, r=[[first, last]])

    def delivered(self, partition: str, epoch: int, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Say that records came: (first offset, last offset, delivery count) each."""
        self.write("delivered", p=partition, le=epoch, r=[list(r) for r in ranges])

    def acknowledged(
        self, partition: str, kind: str, ranges: Iterable[tuple[int, int]], error: str | None
    ) -> None:
        """Say how an acknowledgement ended: ``error`` None means confirmed."""
        self.write("acknowledged", p=partition, k=kind, r=[list(r) for r in ranges], error=error)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(paths: Iterable[Path]) -> Iterator[Entry]:
    """Yield all whole lines of all journals, in order of time."""
    entries = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").split("\n"):
            try:
                fields = json.loads(line)
            except ValueError:
                continue  # the torn last line of a killed process
            entries.append(
                Entry(fields.pop("t"), fields.pop("w"), fields.pop("e"), fields),
            )
    return iter(sorted(entries, key=lambda e: e.time_ms))
