"""Tables of text: each column is as wide as its widest cell, so nothing is ever cut or folded."""

from collections.abc import Sequence

MISSING = "-"


def cell(value: object) -> str:
    """Return a value as text; unknown ones as ``-`` (spec CLI-3)."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in value)
    return str(value)


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
