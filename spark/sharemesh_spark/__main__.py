"""`sharemesh-spark compact|report DATA`: the share state log, made small and made readable."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table

from sharemesh import __version__
from sharemesh_spark.java import NoJavaError

EXAMPLES = """examples:
  sharemesh-spark compact data            write and prove a generation under data/generations
  sharemesh-spark report data             how the records of each group ended
  sharemesh-spark run data --json out.json   both, with the figures as JSON
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command; exit 1 when the log or the proof is not good, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="sharemesh-spark",
        description="Compaction and delivery answers over the share state log.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sharemesh {__version__}")
    parser.add_argument("command", choices=("compact", "report", "run"))
    parser.add_argument("data", type=Path, help="the data directory of the cluster")
    parser.add_argument("--cores", type=int, help="local worker threads (default: all)")
    parser.add_argument("--json", type=Path, help="write the figures of the run here")
    args = parser.parse_args(argv)
    console = Console()
    try:
        from sharemesh_spark.compact import NotProvenError
        from sharemesh_spark.data_directory import UnreadableLogError, shards
    except ImportError as error:
        console.print(f"{error.name} is missing: pip install 'sharemesh[spark]'", style="red")
        return 2
    try:
        shards(args.data)  # before Spark's seconds of start-up
        figures = _run(args, console)
    except (NotProvenError, UnreadableLogError, NoJavaError) as error:
        console.print(f"error: {error}", style="red", highlight=False, soft_wrap=True)
        return 1
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))
    return 0


def _run(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    from sharemesh_spark.session import start

    figures: dict[str, Any] = {}
    with console.status("starting Spark"):
        spark = start("sharemesh-spark", work=args.data / "run" / "spark", cores=args.cores)
    try:
        if args.command in ("compact", "run"):
            figures["compaction"] = _compact(args.data, spark, console)
        if args.command in ("report", "run"):
            figures["report"] = _report(args.data, spark, console)
    finally:
        spark.stop()
    return figures


def _compact(data: Path, spark: Any, console: Console) -> dict[str, Any]:
    from sharemesh_spark.compact import compact
    from sharemesh_spark.generation_files import FOLDER

    generation_id = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    started = perf_counter()
    with console.status("compacting the share state log"):
        manifest = compact(spark, data, generation_id=generation_id)
    seconds = perf_counter() - started
    table = Table(title=f"generation {generation_id}: same fold as the log, shard by shard")
    for column in ("shard", "records", "share partitions", "end offset", "hash"):
        table.add_column(column, justify="left" if column == "hash" else "right")
    for shard in manifest.shards:
        table.add_row(
            str(shard.shard),
            f"{shard.records:,}",
            f"{shard.share_partitions:,}",
            f"{shard.end_offset:,}",
            shard.content_hash[:16],
        )
    console.print(table)
    console.print(
        f"{manifest.records:,} records, {manifest.log_bytes:,} bytes of log -> "
        f"{manifest.share_partitions:,} share partitions, {manifest.parquet_bytes:,} bytes, "
        f"{seconds:.1f} s: {data / FOLDER / generation_id}",
        highlight=False,
        soft_wrap=True,
    )
    return {**asdict(manifest), "seconds": round(seconds, 3), "records": manifest.records}


def _report(data: Path, spark: Any, console: Console) -> dict[str, Any]:
    from sharemesh_spark.report import by_cause, by_delivery_count, state_changes

    started = perf_counter()
    with console.status("reading the history"):
        changes = state_changes(spark, data).cache()
        lines, counts = by_cause(changes), by_delivery_count(changes)
    table = Table(title="what became of the records, and why")
    for column in ("group", "topic id", "cause", "became", "records", "highest delivery count"):
        table.add_column(column)
    for line in lines:
        table.add_row(
            line.group_id,
            line.topic_id,
            line.cause,
            line.delivery_state,
            f"{line.records:,}",
            str(line.highest_delivery_count),
        )
    console.print(table)
    ends = Table(title="deliveries that a record needed until it was finished")
    for column in ("group", "delivery count", "records"):
        ends.add_column(column)
    for group, count, records in counts:
        ends.add_row(group, str(count), f"{records:,}")
    console.print(ends)
    return {
        "by_cause": [asdict(line) for line in lines],
        "by_delivery_count": [list(row) for row in counts],
        "seconds": round(perf_counter() - started, 3),
    }


if __name__ == "__main__":
    sys.exit(main())
