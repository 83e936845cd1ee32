"""Results as tables for a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sharemesh_spark.generation_files import FOLDER, Manifest

ROWS_MAX = 40


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
        f"{seconds:.1f} s: {data / FOLDER / name}",
        highlight=False,
        soft_wrap=True,
    )


def rows(console: Console, title: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Print rows, ``ROWS_MAX`` of them at most."""
    table = Table(title=title)
    for name in found[0] if found else ("nothing",):
        table.add_column(name.replace("_", " "))
    for row in found[:ROWS_MAX]:
        table.add_row(*(_shown(value) for value in row.values()))
    console.print(table)
    if len(found) > ROWS_MAX:
        console.print(f"{len(found) - ROWS_MAX:,} more rows: see --json or --html")


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
