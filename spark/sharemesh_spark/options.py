"""The options of `sharemesh-spark`; reading them needs neither Spark nor what Spark needs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sharemesh import __version__

if TYPE_CHECKING:
    from sharemesh_spark.cluster_calls import ClusterAccess

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
  sharemesh-spark compact s3://bucket/mesh --kafka sharemesh.toml --commit --bootstrap mesh:9600
                                                    of a cluster whose logs are in Kafka
"""
_DATA = (
    "the data directory of the cluster; with storage kafka what its setting generations names: a "
    "path, or a URI (file:, s3:, gs:)"
)
_KAFKA = (
    "with storage kafka: host:port of brokers, or the settings file of a process; needed once for "
    "a directory"
)
COMMANDS = ("compact", "history", "answers", "report", "run")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
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
        command.add_argument("data", metavar="DATA", help=_DATA)
        command.add_argument("--kafka", metavar="BROKERS", help=_KAFKA)
        _add_spark(command)
        command.add_argument(
            "--json", type=Path, help="figures of the run (default: WORK/figures/…)"
        )
        if name in ("compact", "run"):
            command.add_argument("--commit", action="store_true", help="commit the generation")
            command.add_argument(
                "--prove-all", action="store_true", help="prove every state of a large log too"
            )
        asks = "for the commit" if name == "compact" else "for the names of topics"
        asks = "for the commit, and the names of topics" if name == "run" else asks
        if name != "history":
            _add_access(command, f"host:port of a process of the cluster, {asks}")
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
    command.add_argument("--data", default="data", help=_DATA)
    command.add_argument("--kafka", metavar="BROKERS", help=_KAFKA)
    command.add_argument("--work", type=Path, help="where the copy of an object store is")
    _add_access(command, "host:port, to look a topic up by its name")
    command.add_argument("--json", type=Path, help="write the events here")
    return parser


def _add_spark(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--verbose", action="store_true", help="show what Spark itself says (else: WORK/spark.log)"
    )
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


def spark_settings(args: argparse.Namespace) -> dict[str, str]:
    """Return the settings of Spark that the options give."""
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


def access_of_options(args: argparse.Namespace) -> "ClusterAccess":
    """Return how to reach the cluster that the options name."""
    from sharemesh_spark.cluster_calls import access_of

    files = {name: getattr(args, f"tls_{name}") for name in ("authority", "certificate", "key")}
    return access_of(args.bootstrap, files=files, headers=args.header)
