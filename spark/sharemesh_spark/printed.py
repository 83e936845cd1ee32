"""Results as tables for a terminal."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sharemesh_spark.generation_files import FOLDER, Manifest

ROWS_MAX = 40
MOMENTS = frozenset({"at_ms", "from_ms"})
"""Columns of milliseconds since the epoch; others ending so are durations."""


def generation(console: Console, data: Path, manifest: Manifest, seconds: float) -> None:
    """Print what a compaction made."""
    name = manifest.generation_id
    table = Table(title=f"generation {name}: same fold as the log, shard by shard")
    for column in ("shard", "records", "share partitions", "proven", "end offset", "hash"):
        table.add_column(column, justify="left" if column == "hash" else "right")
    for shard in manifest.shards:
        table.add_row(
            str(shard.shard),
            f"{shard.records:,}",
            f"{shard.share_partitions:,}",
            f"{shard.proven:,}",
            f"{shard.end_offset:,}",
            shard.content_hash[:16],
        )
    console.print(table)
    console.print(
        f"{manifest.records:,} records, {manifest.log_bytes:,} bytes of log -> "
        f"{manifest.share_partitions:,} share partitions, {manifest.parquet_bytes:,} bytes, "
        f"{seconds:.1f} s ({manifest.records / max(seconds, 0.001):,.0f} records/s): "
        f"{data / FOLDER / name}",
        highlight=False,
        soft_wrap=True,
    )


def rows(console: Console, title: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Print rows, ``ROWS_MAX`` of them at most."""
    table = Table(title=title)
    for name in found[0] if found else ("nothing",):
        table.add_column(title_of(name))
    for row in found[:ROWS_MAX]:
        table.add_row(*(shown(name, value) for name, value in row.items()))
    console.print(table)
    if len(found) > ROWS_MAX:
        console.print(f"{len(found) - ROWS_MAX:,} more rows: see --json or --html")


def title_of(name: str) -> str:
    """Return a column's name for people."""
    return name.removesuffix("_ms" if name in MOMENTS else "").replace("_", " ")


def shown(name: str, value: object) -> str:
    """Return a value of a column for people: moments as time of day (UTC)."""
    if value is None:
        return ""
    if name in MOMENTS and isinstance(value, int):
        return datetime.fromtimestamp(value / 1_000, UTC).strftime("%m-%d %H:%M:%S.%f")[:-3]
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
