"""What happened in one run: its events, their hash, and the counters."""

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from tests.history.journal import Entry

STORY_LINES_MAX = 20_000
VIOLATIONS_MAX = 20
RECORDS_TOLD_MAX = 3
_RECORD = re.compile(r"(\S+/\d+)@(\d+)")


class EventLog:
    """Every message, fault and verdict goes through here, in order."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._verbose = verbose
        self.counters: Counter[str] = Counter()
        self.violations: list[str] = []
        self.lines: deque[str] = deque(maxlen=STORY_LINES_MAX)

    def event(self, time_s: float, kind: str, *words: str, data: bytes = b"") -> None:
        """Take one event into the hash."""
        text = f"{time_s:.6f} {kind} {' '.join(words)} {len(data)}".encode()
        self._hash.update(text)
        self._hash.update(data)

    def tell(self, time_s: float, text: str, *, count: str = "") -> None:
        """Take an event that a reader wants to know."""
        self.event(time_s, "told", text)
        if count:
            self.counters[count] += 1
        line = f"{time_s:10.3f}s  {text}"
        self.lines.append(line)
        if self._verbose:
            print(line, flush=True)

    def aside(self, line: str) -> None:
        """Add a line that is no event."""
        self.lines.append(line)
        if self._verbose:
            print(line, flush=True)

    def violation(self, time_s: float, text: str) -> None:
        """Take a broken promise."""
        self.tell(time_s, f"VIOLATION {text}")
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(text)

    def violations_of(self, time_s: float, texts: Iterable[str]) -> None:
        """Take several."""
        for text in texts:
            self.violation(time_s, text)

    @property
    def event_hash(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()


def tell_of_records(event_log: EventLog, entries: Sequence[Entry]) -> None:
    """Tell what clients saw of the records that violations name."""
    named = [found for text in event_log.violations for found in _RECORD.findall(text)]
    for partition, offset_text in list(dict.fromkeys(named))[:RECORDS_TOLD_MAX]:
        offset = int(offset_text)
        event_log.aside(f"what clients saw of {partition}@{offset}:")
        for entry in entries:
            fields = entry.fields
            ranges = [r for r in fields["r"] if r[0] <= offset <= r[1]]
            if fields["p"] != partition or not ranges:
                continue
            text = f"{entry.who} {entry.event}"
            if entry.event == "delivered":
                text += f" leader epoch {fields['le']}, delivery count {ranges[0][2]}"
            elif entry.event == "acknowledged":
                text += f" {fields['k']}: {fields['error'] or 'confirmed'}"
            event_log.aside(f"{entry.time_ms / 1_000:10.3f}s  {text}")
