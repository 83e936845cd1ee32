"""How the command line prints tables, JSON, times and counts, and finds the nearest name."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sharemesh.domain import setting_values
from sharemesh.domain.printable import escaped


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known name, or an empty text."""
    near = setting_values.nearest(name, known, cutoff=0.5)
    return f"; did you mean {near!r}?" if near else ""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 record``, ``2 records``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def utc(timestamp_ms: int) -> str:
    """Return ms since the epoch as a time of day in UTC."""
    moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


MISSING = "-"


def cell(value: object) -> str:
    """Return a value as text on one line (BND-24); unknown ones as ``-`` (spec CLI-3)."""
    if value in (None, "", [], ()):
        return MISSING
    if isinstance(value, list | tuple):
        return escaped(",".join(str(each) for each in value))
    return escaped(str(value))


def json_line(thing: object) -> str:
    """Return JSON on one line, readable in any terminal (BND-24)."""
    return escaped(json.dumps(thing, default=str, ensure_ascii=False))


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[object]], *, gap: int = 1
) -> list[str]:
    """Return the lines of a table, headings first, without blanks at their ends."""
    lines = [list(head), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        (" " * gap)
        .join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        .rstrip()
        for line in lines
    ]
