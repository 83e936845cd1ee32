"""What each command of `sharemesh-spark` does once Spark runs; `__main__` reads the options."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sharemesh.codec.generation import FOLDER as GENERATIONS
from sharemesh_spark.cluster_calls import cluster_calls, named, topic_names
from sharemesh_spark.generation.compact import commit, compact, remove_leftovers
from sharemesh_spark.generation.shard_fold import peak_memory_bytes
from sharemesh_spark.history import queries
from sharemesh_spark.history.history import FOLDER as HISTORY
from sharemesh_spark.history.history import bytes_of, update_history, watermark
from sharemesh_spark.history.known import Known, read_known
from sharemesh_spark.kept_files import KeptFiles
from sharemesh_spark.options import access_of_options
from sharemesh_spark.progress import progress, whole_log
from sharemesh_spark.report import console_tables
from sharemesh_spark.report.report_page import About, report_page

RUN_ID = "%Y%m%dT%H%M%S%f"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command."""

    args: argparse.Namespace
    spark: SparkSession
    console: Console
    now: datetime
    files: KeptFiles

    @property
    def data(self) -> Path:
        """The data directory, or what stands for it where the log is a topic."""
        return self.files.directory


def compact_command(run: Run) -> dict[str, Any]:
    """Write, prove and perhaps commit a generation."""
    args, data, console = run.args, run.data, run.console
    remove_leftovers(data / GENERATIONS, now_s=run.now.timestamp())
    generation_id = run.now.strftime(RUN_ID)
    started = perf_counter()
    with progress(run.spark, console, "compacting the share state log", whole_log(data)):
        manifest = compact(run.spark, data, generation_id=generation_id, prove_all=args.prove_all)
    seconds = perf_counter() - started
    console_tables.generation(console, data, manifest, seconds)
    committed: list[int] = []
    run.files.publish()  # coordinators read it as soon as it is committed
    if args.commit:
        with cluster_calls(access_of_options(args)) as calls:
            ask = partial(calls.commit, shards=len(manifest.shards))
            committed = commit(data, manifest, ask, history=watermark(data) or None)
        console.print(f"committed in {len(committed)} shards; coordinators load from it")
    return {
        **asdict(manifest),
        "seconds": round(seconds, 3),
        "records": manifest.records,
        "log_bytes": manifest.log_bytes,
        "ratio": round(manifest.log_bytes / max(1, manifest.parquet_bytes), 2),
        "driver_peak_bytes": peak_memory_bytes(),
        "committed_shards": committed,
    }


def history_command(run: Run) -> dict[str, Any]:
    """Add what is new to the history table."""
    data, console = run.data, run.console
    started = perf_counter()
    remove_leftovers(data / HISTORY, now_s=run.now.timestamp())
    with progress(run.spark, console, "adding to the history"):
        attempt = f"{run.now:{RUN_ID}}-{os.getpid()}"
        added = update_history(run.spark, data, attempt=attempt)
        if added is not None:
            run.files.claim_run(added.run, attempt, now_s=run.now.timestamp())
            run.files.publish()
    seconds = round(perf_counter() - started, 3)
    if added is None:
        console.print("the history is up to date")
        return {"run": None, "rows": 0, "bytes": 0, "seconds": seconds}
    console.print(f"history: run {added.run} added {added.rows:,} state changes in {seconds:.1f} s")
    for shard, (low, high) in added.gaps.items():
        console.print(
            f"gap in shard {shard}: offsets {low} to {high - 1} were pruned before this run",
            style="yellow",
        )
    return {**asdict(added), "bytes": bytes_of(data, added), "seconds": seconds}


def answers_command(run: Run) -> dict[str, Any]:
    """Bring the history up to date and answer from it."""
    args, console = run.args, run.console
    started = perf_counter()
    history_command(run)
    with progress(run.spark, console, "answering") as tell:
        known = read_known(run.spark, run.data, appended=True, tell=tell)
        found = {
            "groups": queries.groups(known),
            "archived": queries.archived(known),
            "redeliveries": queries.redeliveries(known),
            "times": queries.times(known),
            "throughput": queries.throughput(known, bucket_ms=1_000 * args.every),
            "hot_partitions": queries.hot_partitions(known),
        }
        tables = {}
        for name, each in found.items():
            tell(f"adding up {name.replace('_', ' ')}")
            tables[name] = _collected(each)
    for name in ("redeliveries", "times", "hot_partitions", "throughput"):
        tables[name] = queries.labelled(tables[name], tables["groups"])
    names = _names(run)
    told = {name: named(rows, names) for name, rows in tables.items()}
    for name, rows in told.items():
        console_tables.rows(console, name.replace("_", " "), rows)
    console_tables.holes(console, known.holes)
    if args.html:
        about = About(str(run.data.resolve()), run.now, args.every, known.holes)
        args.html.write_text(report_page(told, about), encoding="utf-8")
        console.print(f"report: {args.html}", soft_wrap=True)
    return {**tables, **_about(known, names), "seconds": round(perf_counter() - started, 3)}


def report_command(run: Run) -> dict[str, Any]:
    """Tell how the records of each group ended."""
    console = run.console
    started = perf_counter()
    with progress(run.spark, console, "reporting") as tell:
        known = read_known(run.spark, run.data, appended=False, tell=tell)
        groups = _collected(queries.groups(known))
        lines = queries.labelled(_collected(queries.by_cause(known)), groups)
        counts = queries.by_delivery_count(known)
    names = _names(run)
    console_tables.rows(
        console, "groups, and from when on their figures count", named(groups, names)
    )
    shown = [
        {key: value for key, value in line.items() if key not in ("first_ms", "last_ms")}
        for line in lines
    ]
    console_tables.rows(console, "what became of the records, and why", named(shown, names))
    console_tables.rows(
        console, "deliveries that a record needed until it was finished", _ends(counts)
    )
    console_tables.holes(console, known.holes)
    return {
        "groups": groups,
        "by_cause": lines,
        "by_delivery_count": [list(row) for row in counts],
        **_about(known, names),
        "seconds": round(perf_counter() - started, 3),
    }


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.collect()]


def _ends(counts: Sequence[tuple[str, int | None, int]]) -> list[dict[str, Any]]:
    return [
        {
            "group_id": group,
            "deliveries": "not recorded" if count is None else f"{count:,}",
            "records": records,
        }
        for group, count, records in counts
    ]


def _about(known: Known, names: Mapping[str, str]) -> dict[str, Any]:
    return {"pruned_unread": known.holes, "topic_names": dict(names)}


def _names(run: Run) -> dict[str, str]:
    access = access_of_options(run.args) if run.args.bootstrap else None
    return topic_names(run.data, access)


COMMANDS = {
    "compact": ("compaction", compact_command),
    "report": ("report", report_command),
    "history": ("history", history_command),
    "answers": ("answers", answers_command),
}
"""Command to its name in the figures and what does it."""
