"""``sharemesh produce``: rows of a file or of stdin become records."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import counted
from sharemesh.cli.interrupts import interrupts
from sharemesh.cli.produce_tally import Tally, confirmed_so_far
from sharemesh.cli.rows import FORMATS, Parsed, RowError, RowReader
from sharemesh.cli.session import CommandError, CommandSession, add_action
from sharemesh.cli.topics import check_exist
from sharemesh.client import AdminClient, Producer
from sharemesh.client.errors import SharemeshError

BAD_ROWS_SHOWN = 20
LINGER_MS = 5
SETTLE_MS = 5_000
"""How long an interrupted command waits for what it has sent; Ctrl-C again ends that."""

_EXAMPLES = """examples:
  sharemesh produce orders orders.jsonl --key id
  sharemesh produce flights flights.csv --format csv --key origin --headers carrier
  tail -f app.log | sharemesh produce logs - --format text
  sharemesh produce orders rows.jsonl --on-error skip"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_action(
        commands,
        "produce",
        run,
        help="send rows of a file or stdin as records",
        description="Each row becomes one record. The command ends when all of them are on disk. "
        "Ctrl-C ends it earlier: it says up to which line every row is confirmed.",
        epilog=_EXAMPLES,
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


def run(session: CommandSession, args: argparse.Namespace) -> int:
    """Send the rows; return the exit code."""
    reader = RowReader(
        form=args.format or _format_of(args.file),
        key_field=args.key,
        header_fields=tuple(name for name in args.headers.split(",") if name),
        keep=not args.strip,
        value_field=args.value,
    )
    tally = Tally()
    problem = ""
    with interrupts() as interrupted:
        try:
            with _opened(args.file) as lines:
                _check_topic(session, args.topic, args.partition)
                problem = _send_all(session, args, reader.read(lines), tally)
        except KeyboardInterrupt:
            problem = ""
    _summary(session, args.topic, tally, interrupted.code)
    if problem:
        raise CommandError(problem)
    return interrupted.code


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


def _check_topic(session: CommandSession, topic: str, partition: int | None) -> None:
    with AdminClient(session.admin_settings) as admin:
        check_exist(admin, topic)
        found = admin.describe_topics([topic])[topic]
    if isinstance(found, SharemeshError):
        raise found
    if partition is not None and not 0 <= partition < len(found.partitions):
        raise CommandError(
            f"--partition {partition}: topic {topic!r} has partitions 0 to "
            f"{len(found.partitions) - 1}"
        )


def _send_all(
    session: CommandSession, args: argparse.Namespace, rows: Iterator[Parsed], tally: Tally
) -> str:
    """Send rows until the end or a problem, which is returned in words; all sent are settled."""
    config = {
        "linger.ms": LINGER_MS,
        "request.timeout.ms": max(session.timeout_ms - LINGER_MS, 1),
        "delivery.timeout.ms": max(session.timeout_ms, LINGER_MS + 1),
        **session.settings,
        "compression.type": args.compression,
    }
    producer = Producer(config)
    problem = ""
    with confirmed_so_far(session, lambda: tally.confirmed):
        try:
            problem = _send_rows(session, args, producer, rows, tally)
            producer.flush()
        except KeyboardInterrupt:
            session.complain(f"interrupted: {SETTLE_MS // 1_000} s for what is under way")
            producer.close(SETTLE_MS)
            raise
        finally:
            producer.close(session.timeout_ms)
    if not problem and tally.failed:
        problem = f"{counted(tally.failed, 'record')} not confirmed: {tally.first_failure}"
    return f"{problem}; {tally.resume_at}" if problem else ""


def _send_rows(
    session: CommandSession,
    args: argparse.Namespace,
    producer: Producer,
    rows: Iterator[Parsed],
    tally: Tally,
) -> str:
    """Send rows until the end, a failure, or a row that stops, which is returned in words."""
    name = args.file if args.file != "-" else "stdin"
    try:
        for row in rows:
            if not isinstance(row, RowError):
                tally.taken(row.line)
                producer.send(
                    args.topic,
                    row.value,
                    key=row.key,
                    headers=row.headers,
                    partition=args.partition,
                    callback=partial(tally.settled, row.line),
                )
            elif args.on_error == "skip":
                tally.skipped(row)
                _complain(session, tally, row)
            else:
                tally.malformed += 1
                return f"{name} {row}; correct that line, or use --on-error skip"
            if tally.failed:
                return ""
    except OSError as error:
        return f"cannot read {name} further: {error.strerror}"
    except SharemeshError as error:
        return str(error)
    return ""


def _complain(session: CommandSession, tally: Tally, error: RowError) -> None:
    if tally.malformed <= BAD_ROWS_SHOWN:
        session.complain(f"skipped {error}")
    if tally.malformed == BAD_ROWS_SHOWN:
        session.complain("further skipped rows are only counted")


def _summary(session: CommandSession, topic: str, tally: Tally, interrupted: int) -> None:
    if session.as_json:
        session.show_json({**tally.as_json(topic), "interrupted": bool(interrupted)})
        return
    words = tally.summary(topic)
    session.say(f"interrupted: {words}; {tally.resume_at}" if interrupted else words)
