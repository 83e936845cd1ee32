"""What became of the rows of ``sharemesh produce``: counted, to resume from, and shown meanwhile.

Progress is a bar on a terminal, elsewhere a line now and then.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sharemesh.cli.formatting import counted
from sharemesh.cli.rows import RowError
from sharemesh.cli.session import CommandSession
from sharemesh.client.producer.delivery import RecordMetadata

BAR_EVERY_S = 0.2
LINE_EVERY_S = 10.0


@dataclass(slots=True)
class Tally:
    """What happened to the rows; offsets by partition, both included.

    Rows are taken on one thread and settled on another; the sums are read when
    nothing is in flight any more.
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
    def resume_at(self) -> str:
        """Return from which line on the rows have to be sent again."""
        line = self.done_to_line
        words = f"every row up to line {line} is confirmed: " if line else "no row is confirmed: "
        words += f"resume from line {line + 1}"
        if self._open:
            words += " (some of them may be in the log already)"
        return words

    def summary(self, topic: str) -> str:
        """Return the totals as text."""
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


@contextmanager
def confirmed_so_far(
    session: CommandSession, count: Callable[[], int], *, line_every_s: float = LINE_EVERY_S
) -> Iterator[None]:
    """Show on stderr, for as long as the context lasts, how many records are confirmed."""
    if session.as_json or not session.err.is_terminal:
        with _each(
            line_every_s,
            count,
            lambda now: session.complain(f"{counted(now, 'record')} confirmed so far"),
        ):
            yield
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} records confirmed"),
        TimeElapsedColumn(),
        console=session.err,
    )
    task = bar.add_task("produced", total=None)
    with bar:
        with _each(BAR_EVERY_S, count, lambda now: bar.update(task, completed=now)):
            yield
        bar.update(task, completed=count())


@contextmanager
def _each(every_s: float, count: Callable[[], int], show: Callable[[int], None]) -> Iterator[None]:
    """Show a count when it changes, on a thread, since the command may wait for its input."""
    ended = threading.Event()

    def watch() -> None:
        shown = 0
        while not ended.wait(every_s):
            if (now := count()) != shown:
                show(now)
                shown = now

    thread = threading.Thread(target=watch, name="sharemesh-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1)
