"""`sharemesh-spark`: the share state log, made small and made readable."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from sharemesh import __version__
from sharemesh_spark.java import NoJavaError

EXAMPLES = """examples:
  sharemesh-spark compact data                      write and prove a generation
  sharemesh-spark compact data --commit --bootstrap localhost:9600
                                                    and let the coordinators load from it
  sharemesh-spark compact data --commit --bootstrap mesh:9600 --tls-authority ca.crt \\
      --tls-certificate spark.crt --tls-key spark.key --header sharemesh-cluster-secret=…
                                                    the same, where only known callers may
  sharemesh-spark history data                      add what is new to the history table
  sharemesh-spark answers data --html report.html   times, redeliveries, poison records, backlog
  sharemesh-spark explain AAAAAAAAAAAAAAAAAAAAAQ/0@17 --group g --data data
  sharemesh-spark report data                       how the records of each group ended
  sharemesh-spark run data --json out.json          compact and report, with figures as JSON
"""
FIGURES = "figures"
FIGURES_MAX = 100
_RUN_ID = "%Y%m%dT%H%M%S%f"
COMMANDS = ("compact", "history", "answers", "report", "run")


def main(argv: list[str] | None = None) -> int:
    """Run one command; exit 1 when the log or the proof is not good, 2 for wrong usage."""
    args = _parser().parse_args(argv)
    console = Console()
    if getattr(args, "commit", False) and not args.bootstrap:
        console.print("error: --commit needs --bootstrap host:port", style="red")
        return 2
    try:
        from sharemesh_spark.cluster_calls import NotAnsweredError
        from sharemesh_spark.commit import NotCommittedError
        from sharemesh_spark.compact import NotProvenError
        from sharemesh_spark.data_directory import UnreadableLogError, shards
        from sharemesh_spark.explain import BadRecordError
        from sharemesh_spark.history import HistoryTakenError
    except ImportError as error:
        console.print(f"{error.name} is missing: pip install 'sharemesh[spark]'", style="red")
        return 2
    try:
        shards(args.data)  # before Spark's seconds of start-up
        figures = _explain(args, console) if args.command == "explain" else _run(args, console)
    except (
        BadRecordError,
        HistoryTakenError,
        NoJavaError,
        NotAnsweredError,
        NotCommittedError,
        NotProvenError,
        UnreadableLogError,
    ) as error:
        console.print(f"error: {error}", style="red", highlight=False, soft_wrap=True)
        return 1
    if args.command == "explain":
        if args.json:
            args.json.write_text(json.dumps(figures, indent=1))
        return 0
    _write_figures(args.json or _figures_file(args), figures)
    return 0


def _work(args: argparse.Namespace) -> Path:
    work: Path = args.work or args.data / "run" / "spark"
    return work


def _figures_file(args: argparse.Namespace) -> Path:
    return _work(args) / FIGURES / f"{datetime.now(UTC):{_RUN_ID}}-{args.command}.json"


def _write_figures(path: Path, figures: dict[str, Any]) -> None:
    """Write the figures of a run; of those nobody named a file for, the newest are kept."""
    if path.parent.name == FIGURES:
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in sorted(path.parent.glob("*.json"))[: -FIGURES_MAX + 1]:
            old.unlink(missing_ok=True)
    path.write_text(json.dumps(figures, indent=1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sharemesh-spark",
        description="Compaction and delivery answers over the share state log.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sharemesh {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("data", type=Path, help="the data directory of the cluster")
        _add_spark(command)
        command.add_argument(
            "--json", type=Path, help="figures of the run (default: WORK/figures/…)"
        )
        if name in ("compact", "run"):
            command.add_argument("--commit", action="store_true", help="commit the generation")
            command.add_argument(
                "--prove-all", action="store_true", help="prove every state of a large log too"
            )
            _add_access(command, "host:port of a process of the cluster")
        if name == "answers":
            command.add_argument("--html", type=Path, help="write a self-contained report here")
            command.add_argument(
                "--every",
                type=_seconds,
                default=60,
                metavar="SECONDS",
                help="throughput and backlog in steps of so many seconds (default: 60)",
            )
    command = commands.add_parser("explain")
    command.add_argument("record", help="topic/partition@offset")
    command.add_argument("--group", required=True)
    command.add_argument("--data", type=Path, default=Path("data"))
    _add_access(command, "host:port, to look a topic up by its name")
    command.add_argument("--json", type=Path, help="write the events here")
    return parser


def _add_spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cores", type=int, help="local worker threads (default: all)")
    command.add_argument("--work", type=Path, help="scratch files (default: DATA/run/spark)")
    command.add_argument(
        "--master", help="where Spark runs (default: here; or what spark-submit, SPARK_MASTER say)"
    )
    command.add_argument("--driver-host", help="address at which executors reach this process")
    command.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_setting,
        help="a spark.* setting; may be repeated",
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form spark.name=value")
    return name, value


def _settings(args: argparse.Namespace) -> dict[str, str]:
    found = dict(args.conf)
    if args.master:
        found["spark.master"] = args.master
    if args.driver_host:
        found |= {"spark.driver.host": args.driver_host, "spark.driver.bindAddress": "0.0.0.0"}  # noqa: S104
    return found


def _seconds(text: str) -> int:
    seconds = int(text)
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"{seconds} is not 1 or more")
    return seconds


def _add_access(command: argparse.ArgumentParser, bootstrap: str) -> None:
    command.add_argument("--bootstrap", help=bootstrap)
    for name, what in (
        ("authority", "PEM file of the authority that signed the cluster's certificates"),
        ("certificate", "PEM file of this caller's certificate, for mTLS"),
        ("key", "PEM file of its key"),
    ):
        variable = f"SHAREMESH_TLS_{name.upper()}"
        command.add_argument(f"--tls-{name}", type=Path, help=f"{what} (or {variable})")
    command.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="metadata of every call; may be repeated (or lines of SHAREMESH_HEADERS)",
    )


def _access(args: argparse.Namespace) -> Any:
    from sharemesh_spark.cluster_calls import access_of

    files = {name: getattr(args, f"tls_{name}") for name in ("authority", "certificate", "key")}
    return access_of(args.bootstrap, files=files, headers=args.header)


def _run(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    from sharemesh_spark.session import start

    steps: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
        "compact": ("compaction", _compact),
        "report": ("report", _report),
        "history": ("history", _history),
        "answers": ("answers", _answers),
    }
    figures: dict[str, Any] = {}
    with console.status("starting Spark"):
        spark = start(
            "sharemesh-spark",
            work=_work(args),
            cores=args.cores,
            settings=_settings(args),
        )
    try:
        for name in ("compact", "report") if args.command == "run" else (args.command,):
            key, step = steps[name]
            figures[key] = step(args, spark, console)
    finally:
        spark.stop()
    return figures


def _compact(args: argparse.Namespace, spark: Any, console: Console) -> dict[str, Any]:
    from sharemesh_spark import printed
    from sharemesh_spark.cluster_calls import cluster_calls
    from sharemesh_spark.commit import commit
    from sharemesh_spark.compact import compact
    from sharemesh_spark.generation_files import FOLDER
    from sharemesh_spark.history import watermark
    from sharemesh_spark.leftovers import remove_leftovers
    from sharemesh_spark.progress import progress, whole_log
    from sharemesh_spark.shard_fold import peak_memory_bytes

    data = args.data
    now = datetime.now(UTC)
    remove_leftovers(data / FOLDER, now_s=now.timestamp())
    generation_id = now.strftime(_RUN_ID)
    started = perf_counter()
    with progress(spark, console, "compacting the share state log", whole_log(data)):
        manifest = compact(spark, data, generation_id=generation_id, prove_all=args.prove_all)
    seconds = perf_counter() - started
    printed.generation(console, data, manifest, seconds)
    committed: list[int] = []
    if args.commit:
        with cluster_calls(_access(args)) as calls:
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


def _history(args: argparse.Namespace, spark: Any, console: Console) -> dict[str, Any]:
    from sharemesh_spark.history import FOLDER, bytes_of, update_history
    from sharemesh_spark.leftovers import remove_leftovers
    from sharemesh_spark.progress import progress

    started = perf_counter()
    now = datetime.now(UTC)
    remove_leftovers(args.data / FOLDER, now_s=now.timestamp())
    with progress(spark, console, "adding to the history"):
        run = update_history(spark, args.data, attempt=f"{now:{_RUN_ID}}-{os.getpid()}")
    seconds = round(perf_counter() - started, 3)
    if run is None:
        console.print("the history is up to date")
        return {"run": None, "rows": 0, "bytes": 0, "seconds": seconds}
    console.print(f"history: run {run.run} added {run.rows:,} state changes in {seconds:.1f} s")
    for shard, (low, high) in run.gaps.items():
        console.print(
            f"gap in shard {shard}: offsets {low} to {high} were pruned before this run",
            style="yellow",
        )
    return {**asdict(run), "bytes": bytes_of(args.data, run), "seconds": seconds}


def _answers(args: argparse.Namespace, spark: Any, console: Console) -> dict[str, Any]:
    from sharemesh_spark import answers, printed
    from sharemesh_spark.history import history
    from sharemesh_spark.progress import progress
    from sharemesh_spark.report_page import report_page

    started = perf_counter()
    _history(args, spark, console)
    with progress(spark, console, "answering"):
        changes = history(spark, args.data).cache()
        batches = answers.produced(spark, args.data).cache()
        found = {
            "times": answers.times(changes, batches),
            "redeliveries": answers.redeliveries(changes),
            "archived": answers.archived(changes),
            "throughput": answers.throughput(changes, batches, bucket_ms=1_000 * args.every),
            "hot_partitions": answers.hot_partitions(changes),
        }
        tables = {name: [row.asDict() for row in each.collect()] for name, each in found.items()}
    for name, rows in tables.items():
        printed.rows(console, name.replace("_", " "), rows)
    if args.html:
        args.html.write_text(report_page(tables))
        console.print(f"report: {args.html}", soft_wrap=True)
    return {**tables, "seconds": round(perf_counter() - started, 3)}


def _explain(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
    from sharemesh_spark.cluster_calls import cluster_calls
    from sharemesh_spark.explain import life_of, parse_record, topic_id_of

    topic, partition, offset = parse_record(args.record)
    if args.bootstrap:
        with cluster_calls(_access(args)) as calls:
            found = TopicId(calls.topic_id(topic))
    else:
        found = topic_id_of(topic)
    events = life_of(args.data, SharePartitionKey(GroupId(args.group), found, partition), offset)
    for event in events:
        console.print(event.line(), highlight=False, soft_wrap=True)
    if not events:
        console.print("nothing is recorded: no change of this record's state was ever written")
    return {"events": [asdict(event) for event in events]}


def _report(args: argparse.Namespace, spark: Any, console: Console) -> dict[str, Any]:
    from sharemesh_spark import printed
    from sharemesh_spark.progress import progress
    from sharemesh_spark.report import by_cause, by_delivery_count, state_changes

    started = perf_counter()
    with progress(spark, console, "reading the log"):
        changes = state_changes(spark, args.data).cache()
        lines, counts = by_cause(changes), by_delivery_count(changes)
    shown = [
        {key: value for key, value in asdict(line).items() if not key.endswith("_ms")}
        for line in lines
    ]
    printed.rows(console, "what became of the records, and why", shown)
    ends = [dict(zip(("group", "delivery count", "records"), row, strict=True)) for row in counts]
    printed.rows(console, "deliveries that a record needed until it was finished", ends)
    return {
        "by_cause": [asdict(line) for line in lines],
        "by_delivery_count": [list(row) for row in counts],
        "seconds": round(perf_counter() - started, 3),
    }


if __name__ == "__main__":
    sys.exit(main())
