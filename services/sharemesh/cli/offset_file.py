"""Start offsets as CSV, a row for each partition: topic,partition,offset (spec CLI-7)."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from sharemesh.cli.session import CommandError
from sharemesh.client.admin_results import TopicPartition

ROWS_MAX = 100_000
BYTES_MAX = 32 * 1024 * 1024
OFFSET_MAX = 2**63 - 1


def offsets_as_csv(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the rows, without a heading, by topic and partition."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for where, offset in sorted(offsets.items()):
        writer.writerow((where.topic, where.partition, offset))
    return out.getvalue()


def offsets_of_file(name: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file.

    Raises:
        CommandError: It cannot be read, is too long, has another form, or names a partition twice.
    """
    try:
        with Path(name).open(encoding="utf-8", newline="") as file:
            text = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise CommandError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{name} is no UTF-8 text: {error.reason}") from error
    if len(text) > BYTES_MAX:
        raise CommandError(f"{name} is longer than {BYTES_MAX} characters; split it")
    found: dict[TopicPartition, int] = {}
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in rows:
            if row:
                _take(row, found, f"{name}, line {rows.line_num}")
    except csv.Error as error:
        raise CommandError(f"{name}, line {rows.line_num}: not CSV ({error})") from error
    if not found:
        raise CommandError(f"{name} holds no row of topic,partition,offset")
    return found


def _take(row: list[str], found: dict[TopicPartition, int], place: str) -> None:
    if len(found) == ROWS_MAX:
        raise CommandError(f"{place}: more than {ROWS_MAX} rows; split the file")
    cells = [cell.strip() for cell in row]
    if len(cells) != 3 or not cells[0] or not all(_is_number(cell) for cell in cells[1:]):
        raise CommandError(f"{place}: {','.join(row)!r}: expected topic,partition,offset")
    where, offset = TopicPartition(cells[0], int(cells[1])), int(cells[2])
    if offset > OFFSET_MAX:
        raise CommandError(f"{place}: offset {offset} is larger than any offset can be")
    if where in found:
        raise CommandError(f"{place}: {where} stands in the file twice")
    found[where] = offset


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(OFFSET_MAX))
