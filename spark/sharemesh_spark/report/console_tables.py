"""Results as tables: whole numbers and whole names, on a terminal of any width and in a pipe."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table

from sharemesh.codec.generation import FOLDER, Manifest
from sharemesh.domain.printable import escaped
from sharemesh_spark.reader.data_directory import Range

ROWS_MAX = 40
"""On a terminal; a pipe gets all rows."""

MOMENTS = frozenset({"at_ms", "from_ms", "counts_from_ms"})
"""Columns of milliseconds since the epoch; others ending so are durations."""

_TEXT_WIDTH_MIN = 12
"""Narrower than this no name is folded."""

_GAP = 1
"""Blanks between columns."""

Row = Mapping[str, Any]


def generation(out: Console, data: Path, manifest: Manifest, seconds: float) -> None:
    """Print what a compaction made."""
    name = manifest.generation_id
    rows(
        out,
        f"generation {name}: same fold as the log, shard by shard",
        [
            {
                "shard": shard.shard,
                "records": shard.records,
                "share_partitions": shard.share_partitions,
                "proven": shard.proven,
                "end_offset": shard.end_offset,
                "hash": shard.content_hash[:16],
            }
            for shard in manifest.shards
        ],
    )
    out.print(
        f"{manifest.records:,} records, {manifest.log_bytes:,} bytes of log -> "
        f"{manifest.share_partitions:,} share partitions, {manifest.parquet_bytes:,} bytes, "
        f"{seconds:.1f} s: {data / FOLDER / name}",
        soft_wrap=True,
    )


def holes(out: Console, found: Mapping[int, Sequence[Range]]) -> None:
    """Say what was pruned before anything read it (spec REP-3)."""
    for shard, ranges in sorted(found.items()):
        out.print(
            f"shard {shard}: offsets {ranges_text(ranges)} of the state log were pruned before "
            "they were read; figures with a time in 'counts from' count from then on",
            style="yellow",
            soft_wrap=True,
        )


def ranges_text(ranges: Sequence[Range]) -> str:
    """Return ranges of offsets for people, both ends included."""
    return ", ".join(f"{low:,} to {high - 1:,}" for low, high in ranges)


def rows(out: Console, title: str, found: Sequence[Row]) -> None:
    """Print rows; on a terminal ``ROWS_MAX`` of them at most."""
    out.print()
    out.print(title, style="bold", soft_wrap=True)
    if not found:
        out.print("nothing")
        return
    chosen = found[:ROWS_MAX] if out.is_terminal else found
    names = told_columns(found)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    narrowest = 0
    for name in names:
        words = title_of(name).split()
        cells = [shown(name, row.get(name)) for row in chosen]
        is_text = any(isinstance(row.get(name), str) for row in chosen)
        longest = max(map(len, cells))
        width = max(min(longest, _TEXT_WIDTH_MIN) if is_text else longest, *map(len, words))
        narrowest += width + _GAP
        justify: JustifyMethod = "left" if is_text else "right"
        table.add_column(title_of(name), justify=justify, min_width=width, overflow="fold")
    if narrowest <= out.width:
        for row in chosen:
            table.add_row(*(shown(name, row.get(name)) for name in names))
        out.print(table)
    else:
        for row in chosen:
            out.print(_sentence(row, names), overflow="fold")
    if len(found) > len(chosen):
        out.print(f"{len(found) - len(chosen):,} more rows: see --json or --html")


def _sentence(row: Row, names: Sequence[str]) -> str:
    """Return a row for a terminal on which the table has no room."""
    told = ((title_of(name), shown(name, row.get(name))) for name in names)
    return "- " + ", ".join(f"{title} {value}" for title, value in told if value)


def told_columns(found: Sequence[Row]) -> list[str]:
    """Return the columns that say something: that are not empty in every row."""
    names = list(found[0]) if found else []
    return [name for name in names if any(row.get(name) is not None for row in found)]


def title_of(name: str) -> str:
    """Return a column's name for people."""
    name = name.removesuffix("_ms" if name in MOMENTS else "")
    return name.removesuffix("_id").replace("_", " ")


def shown(name: str, value: object) -> str:
    """Return a value of a column for people: moments as time of day (UTC)."""
    if value is None:
        return ""
    if name in MOMENTS and isinstance(value, int):
        return datetime.fromtimestamp(value / 1_000, UTC).strftime("%m-%d %H:%M:%S.%f")[:-3]
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else escaped(str(value))
