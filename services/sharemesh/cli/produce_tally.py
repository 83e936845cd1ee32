"""Counts what became of the rows of ``sharemesh produce``, so that one can go on from there."""

from dataclasses import dataclass, field

from sharemesh.cli.formatting import counted
from sharemesh.cli.rows import RowError
from sharemesh.client.producer.batches import RecordMetadata


@dataclass(slots=True)
class Tally:
    """What happened to the rows; offsets by partition, both included.

    Rows are taken on one thread and settled on another; what is told in the end is read when
    nothing is under way any more.
    """

    confirmed: int = 0
    failed: int = 0
    malformed: int = 0
    first_failure: str = ""
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    _last_line: int = 0
    _open: dict[int, None] = field(default_factory=dict)

    def taken(self, line: int) -> None:
        """Note a row that is about to be sent."""
        self._last_line = line
        self._open[line] = None

    def skipped(self, row: RowError) -> None:
        """Count a row that is no record."""
        self._last_line = row.line
        self.malformed += 1

    def settled(self, line: int, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Count one row's result."""
        if metadata is None:
            self.failed += 1
            self.first_failure = self.first_failure or str(error)
            return
        self._open.pop(line, None)
        self.confirmed += 1
        low, high = self.offsets.get(metadata.partition, (metadata.offset, metadata.offset))
        self.offsets[metadata.partition] = (
            min(low, metadata.offset),
            max(high, metadata.offset),
        )

    @property
    def done_to_line(self) -> int:
        """Return the last line up to which every row is confirmed (or was skipped); 0: none."""
        return next(iter(self._open), self._last_line + 1) - 1

    @property
    def where_to_go_on(self) -> str:
        """Return in words from which line on the rows have to be sent again."""
        line = self.done_to_line
        words = f"every row up to line {line} is confirmed: " if line else "no row is confirmed: "
        words += f"go on from line {line + 1}"
        if self._open:
            words += " (some of them may be in the log already)"
        return words

    def told(self, topic: str) -> str:
        """Return the sums in words."""
        where = ", ".join(f"{p}@{low}..{high}" for p, (low, high) in sorted(self.offsets.items()))
        return (
            f"{counted(self.confirmed, 'record')} confirmed in topic {topic}"
            + (f" ({where})" if where else "")
            + (f", {counted(self.malformed, 'malformed row')} not sent" if self.malformed else "")
        )

    def as_json(self, topic: str) -> dict[str, object]:
        """Return the sums for programs."""
        return {
            "topic": topic,
            "confirmed": self.confirmed,
            "failed": self.failed,
            "malformed": self.malformed,
            "offsets": {str(p): list(o) for p, o in sorted(self.offsets.items())},
            "done_to_line": self.done_to_line,
        }
