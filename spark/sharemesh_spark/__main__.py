"""`sharemesh-spark`: the share state log, made small and made readable."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sharemesh_spark.java import NoJavaError
from sharemesh_spark.options import access_of_options, parser, spark_settings

if TYPE_CHECKING:
    from sharemesh_spark.kept_files import KeptFiles

FIGURES = "figures"
FIGURES_MAX = 100
PIPE_WIDTH = 10_000
"""Of output that is no terminal: no line of a table is longer, so nothing is cut or folded."""

_RUN_ID = "%Y%m%dT%H%M%S%f"


def main(argv: list[str] | None = None) -> int:
    """Run one command; exit 1 when the log or the proof is not good, 2 for wrong usage."""
    args = parser().parse_args(argv)
    out = console()
    if getattr(args, "commit", False) and not args.bootstrap:
        out.print("error: --commit needs --bootstrap host:port", style="red")
        return 2
    try:
        from sharemesh_spark.cluster_calls import NotAnsweredError
        from sharemesh_spark.generation.compact import NotCommittedError, NotProvenError
        from sharemesh_spark.history.explain import BadRecordError
        from sharemesh_spark.history.history import HistoryTakenError
        from sharemesh_spark.kept_files import KeptFilesError, RunTakenError, kept_in
        from sharemesh_spark.reader.data_directory import UnreadableLogError, shards
        from sharemesh_spark.session import SparkNotStartedError
    except ImportError as error:
        out.print(f"{error.name} is missing: pip install 'sharemesh[spark]'", style="red")
        return 2
    try:
        with kept_in(args.data, args.work) as files:
            args.data = files.directory
            if args.kafka:
                _find_topic(args.kafka, args.data)
            shards(args.data)  # before Spark's seconds of start-up
            figures = _explain(args, out) if args.command == "explain" else _run(args, files, out)
            files.publish()
    except (
        BadRecordError,
        HistoryTakenError,
        KeptFilesError,
        NoJavaError,
        NotAnsweredError,
        NotCommittedError,
        NotProvenError,
        RunTakenError,
        SparkNotStartedError,
        UnreadableLogError,
    ) as error:
        out.print(f"error: {error}", style="red", soft_wrap=True)
        return 1
    if args.command == "explain":
        if args.json:
            args.json.write_text(json.dumps(figures, indent=1))
        return 0
    _write_figures(args.json or _figures_file(args), figures)
    return 0


def _find_topic(brokers: str, data: Path) -> None:
    """Leave in the directory where the log is: tasks find it there."""
    from sharemesh_spark.reader.data_directory import KAFKA_FILE, UnreadableLogError
    from sharemesh_spark.reader.kafka_log import find_place
    from sharemesh_spark.reader.kafka_place import (
        BadKafkaPlaceError,
        access_of_brokers,
        encode_place,
    )

    try:
        place = find_place(access_of_brokers(brokers))
    except BadKafkaPlaceError as error:
        raise UnreadableLogError(str(error)) from error
    data.mkdir(parents=True, exist_ok=True)
    part = data / f"{KAFKA_FILE}.part"
    part.write_text(encode_place(place), encoding="utf-8")
    part.rename(data / KAFKA_FILE)


def console() -> Console:
    """Return where results go: without markup, as names may hold brackets; never cut in a pipe."""
    return Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def _work(args: argparse.Namespace) -> Path:
    work: Path = args.work or args.data / "run" / "spark"
    return work


def _figures_file(args: argparse.Namespace) -> Path:
    return _work(args) / FIGURES / f"{datetime.now(UTC):{_RUN_ID}}-{args.command}.json"


def _write_figures(path: Path, figures: dict[str, Any]) -> None:
    """Write the figures of a run; of those without a file name only the newest are kept."""
    if path.parent.name == FIGURES:
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in sorted(path.parent.glob("*.json"))[: -FIGURES_MAX + 1]:
            old.unlink(missing_ok=True)
    path.write_text(json.dumps(figures, indent=1))


def _run(args: argparse.Namespace, files: "KeptFiles", console: Console) -> dict[str, Any]:
    from sharemesh_spark.commands import COMMANDS, Run
    from sharemesh_spark.progress import progress
    from sharemesh_spark.session import start

    figures: dict[str, Any] = {}
    with progress(None, console, "starting Spark"):
        spark = start(
            "sharemesh-spark",
            work=_work(args),
            cores=args.cores,
            settings=spark_settings(args),
            verbose=args.verbose,
        )
    try:
        for name in ("compact", "report") if args.command == "run" else (args.command,):
            key, command = COMMANDS[name]
            figures[key] = command(Run(args, spark, console, datetime.now(UTC), files))
    finally:
        spark.stop()
    return figures


def _explain(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
    from sharemesh.domain.printable import escaped
    from sharemesh_spark.cluster_calls import cluster_calls
    from sharemesh_spark.history.explain import life_of, not_told_by, parse_record, topic_id_of

    topic, partition, offset = parse_record(args.record)
    if args.bootstrap:
        with cluster_calls(access_of_options(args)) as calls:
            found = TopicId(calls.topic_id(topic))
    else:
        found = topic_id_of(topic)
    key = SharePartitionKey(GroupId(args.group), found, partition)
    events = life_of(args.data, key, offset)
    beside = not_told_by(args.data, key, offset, events)
    for each in (*(event.line() for event in events), *beside):
        console.print(escaped(each), soft_wrap=True)
    if not events and not beside:
        console.print("nothing is recorded: no change of this record's state was ever written")
    return {"events": [asdict(event) for event in events], "beside": beside}


if __name__ == "__main__":
    sys.exit(main())
