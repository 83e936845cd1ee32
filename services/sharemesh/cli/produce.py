"""``sharemesh produce``: rows of a file or of stdin become records."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sharemesh.cli.failures import CommandError
from sharemesh.cli.nearest import nearest
from sharemesh.cli.rows import FORMATS, Row, RowError, RowReader
from sharemesh.cli.session import Session, connection_flags, session_of
from sharemesh.client import AdminClient, Producer
from sharemesh.client.errors import SharemeshError
from sharemesh.client.produce_batches import RecordMetadata

BAD_ROWS_SHOWN = 20
PROGRESS_EVERY_ROWS = 500
LINGER_MS = 5

_EXAMPLES = """examples:
  sharemesh produce orders orders.jsonl --key id
  sharemesh produce flights flights.csv --format csv --key origin --headers carrier
  tail -f app.log | sharemesh produce logs - --format text
  sharemesh produce orders rows.jsonl --on-error skip"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "produce",
        parents=[connection_flags()],
        help="send rows of a file or stdin as records",
        description="Each row becomes one record. The command ends when all of them are on disk.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="- (default): stdin")
    parser.add_argument(
        "--format", choices=FORMATS, help="default: by the file's ending, else jsonl"
    )
    parser.add_argument("--key", metavar="FIELD", help="field that becomes the key")
    parser.add_argument("--headers", metavar="FIELD[,…]", default="", help="fields for headers")
    parser.add_argument("--value", metavar="FIELD", help="field that is the value (default: row)")
    parser.add_argument(
        "--strip", action="store_true", help="leave key and header fields out of the value"
    )
    parser.add_argument("--partition", type=int, help="send all to this partition")
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="at a malformed row: stop (those before it are sent), or skip it (default: stop)",
    )
    parser.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="of record batches (default: none)",
    )
    parser.set_defaults(run=run)


@dataclass(slots=True)
class _Tally:
    """What happened to the rows; offsets by partition, both included."""

    sent: int = 0
    confirmed: int = 0
    failed: int = 0
    malformed: int = 0
    first_failure: str = ""
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def settled(self, result: "Future[RecordMetadata]") -> None:
        """Count one record's result."""
        error = result.exception()
        if error is not None:
            self.failed += 1
            self.first_failure = self.first_failure or str(error)
            return
        self.confirmed += 1
        where = result.result()
        low, high = self.offsets.get(where.partition, (where.offset, where.offset))
        self.offsets[where.partition] = (min(low, where.offset), max(high, where.offset))


def run(args: argparse.Namespace) -> int:
    """Send the rows; return the exit code."""
    session = session_of(args)
    reader = RowReader(
        form=args.format or _format_of(args.file),
        key_field=args.key,
        header_fields=tuple(name for name in args.headers.split(",") if name),
        keep=not args.strip,
        value_field=args.value,
    )
    tally = _Tally()
    with _opened(args.file) as lines:
        _check_topic(session, args.topic, args.partition)
        stopped = _send_all(session, args, reader, lines, tally)
    _summary(session, args.topic, tally)
    if stopped is not None:
        raise CommandError(
            f"{args.file if args.file != '-' else 'stdin'} {stopped}; the {tally.confirmed} rows "
            "before it are confirmed: correct that line and send from there, or use --on-error skip"
        )
    if tally.failed:
        raise CommandError(f"{tally.failed} records were not confirmed: {tally.first_failure}")
    return 0


def _format_of(name: str) -> str:
    ending = Path(name).suffix.lower()
    return {".csv": "csv", ".txt": "text", ".log": "text"}.get(ending, "jsonl")


@contextlib.contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    if name == "-":
        # Bytes that are no UTF-8 become lone surrogates, which the row reader refuses by line.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
        yield sys.stdin
        return
    try:
        file = Path(name).open(encoding="utf-8", errors="surrogateescape", newline="")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"cannot read {name}: {error.strerror}") from error
    with file:
        yield file


def _check_topic(session: Session, topic: str, partition: int | None) -> None:
    with AdminClient(session.admin_settings) as admin:
        known = admin.list_topics()
        if topic not in known:
            raise CommandError(
                f"topic {topic!r} does not exist{nearest(topic, known)}; create it with: sharemesh "
                f"topics create {topic}"
            )
        found = admin.describe_topics([topic])[topic]
    if isinstance(found, SharemeshError):
        raise found
    if partition is not None and not 0 <= partition < len(found.partitions):
        raise CommandError(
            f"--partition {partition}: topic {topic!r} has partitions 0 to "
            f"{len(found.partitions) - 1}"
        )


def _send_all(
    session: Session,
    args: argparse.Namespace,
    reader: RowReader,
    lines: TextIO,
    tally: _Tally,
) -> RowError | None:
    """Send rows until the end or the first malformed one that stops; all sent are settled."""
    config = {
        "linger.ms": LINGER_MS,
        "request.timeout.ms": max(session.timeout_ms - LINGER_MS, 1),
        "delivery.timeout.ms": max(session.timeout_ms, LINGER_MS + 1),
        **session.settings,
        "compression.type": args.compression,
    }
    with Producer(config) as producer, _progress(session) as progress:
        task = progress.add_task("produced", total=None)
        for parsed in reader.read(lines):
            if isinstance(parsed, RowError):
                tally.malformed += 1
                if args.on_error == "stop":
                    producer.flush()
                    _advance(progress, task, tally)
                    return parsed
                _complain(session, tally, parsed)
                continue
            _send(producer, args, parsed, tally)
            if tally.sent % PROGRESS_EVERY_ROWS == 0:
                _advance(progress, task, tally)
            if tally.failed:
                break
        producer.flush()
        _advance(progress, task, tally)
    return None


def _send(producer: Producer, args: argparse.Namespace, row: Row, tally: _Tally) -> None:
    future = producer.send(
        args.topic, row.value, key=row.key, headers=row.headers, partition=args.partition
    )
    tally.sent += 1
    future.add_done_callback(tally.settled)


def _progress(session: Session) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} records confirmed"),
        TimeElapsedColumn(),
        console=session.err,
        disable=session.as_json or not session.err.is_terminal,
    )


def _advance(progress: Progress, task: TaskID, tally: _Tally) -> None:
    progress.update(task, completed=tally.confirmed)


def _complain(session: Session, tally: _Tally, error: RowError) -> None:
    if tally.malformed <= BAD_ROWS_SHOWN:
        session.complain(f"skipped {error}")
    if tally.malformed == BAD_ROWS_SHOWN:
        session.complain("further skipped rows are only counted")


def _summary(session: Session, topic: str, tally: _Tally) -> None:
    if session.as_json:
        session.show_json(
            {
                "topic": topic,
                "confirmed": tally.confirmed,
                "failed": tally.failed,
                "malformed": tally.malformed,
                "offsets": {str(p): list(o) for p, o in sorted(tally.offsets.items())},
            }
        )
        return
    where = ", ".join(f"{p}@{low}..{high}" for p, (low, high) in sorted(tally.offsets.items()))
    session.say(
        f"{tally.confirmed} records confirmed in topic {topic}"
        + (f" ({where})" if where else "")
        + (f", {tally.malformed} malformed rows not sent" if tally.malformed else "")
    )
