"""``sharemesh consume``: a member of a share group on the command line."""

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

from sharemesh.cli.failures import CommandError
from sharemesh.cli.nearest import nearest
from sharemesh.cli.session import Session, connection_flags, session_of
from sharemesh.client import AcknowledgeType, AdminClient, ConsumerRecord, ShareConsumer
from sharemesh.client.errors import (
    CorruptRecordError,
    GroupIdNotFoundError,
    InterruptError,
    RecordDeserializationError,
)

POLL_MS = 1_000
COMMIT_TIMEOUT_MS = 10_000
ACTIONS = ("accept", "release", "reject", "renew", "ask")

_TYPES = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
    "renew": AcknowledgeType.RENEW,
}
_LETTERS = {"a": "accept", "l": "release", "j": "reject", "n": "renew"}

_EXAMPLES = """examples:
  sharemesh consume orders --group billing --from-beginning
  sharemesh consume orders --group billing --max-records 10 --json
  sharemesh consume orders --group billing --action release --max-records 1
  sharemesh consume orders --group billing --action ask"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "consume",
        parents=[connection_flags()],
        help="consume topics in a share group and print the records",
        description="Prints each record. Ctrl-C ends: what was not printed is released.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    parser.add_argument("--group", required=True, metavar="G", help="the share group")
    parser.add_argument("--max-records", type=int, metavar="N", help="end after so many records")
    parser.add_argument(
        "--idle",
        type=int,
        metavar="MS",
        help="end when no record came for so long (default: never)",
    )
    parser.add_argument("--mode", choices=("implicit", "explicit"), help="default: explicit")
    parser.add_argument(
        "--action", choices=ACTIONS, default="accept", help="of each record (default: accept)"
    )
    parser.add_argument(
        "--from-beginning",
        action="store_true",
        help="a group that is new starts at the oldest record: sets share.auto.offset.reset of "
        "the group to earliest",
    )
    parser.add_argument(
        "--print", choices=("value", "all"), default="value", help="what to print of a record"
    )
    parser.set_defaults(run=run)


@dataclass(slots=True)
class _Count:
    records: int = 0
    redelivered: int = 0
    unreadable: int = 0


def run(args: argparse.Namespace) -> int:
    """Consume until told to end; return the exit code."""
    session = session_of(args)
    mode = args.mode or "explicit"
    if mode == "implicit" and args.action != "accept":
        raise CommandError(f"--action {args.action} needs --mode explicit", code=2)
    if args.max_records is not None and args.max_records < 1:
        raise CommandError(f"--max-records {args.max_records}: must be at least 1", code=2)
    _prepare(session, args)
    config: dict[str, Any] = {
        **session.settings,
        "group.id": args.group,
        "client.id": "sharemesh-consume",
        "share.acknowledgement.mode": mode,
    }
    if args.max_records is not None or args.action == "ask":
        limit = 1 if args.action == "ask" else min(args.max_records, 500)
        config |= {
            "share.acquire.mode": "record_limit",
            "max.poll.records": limit,
            "prefetch.records": 0,
        }
    count = _Count()
    consumer = ShareConsumer(config)
    try:
        consumer.subscribe(args.topics)
        _consume(session, args, consumer, count)
    except InterruptError:
        pass
    finally:
        consumer.close(COMMIT_TIMEOUT_MS)
    if not session.as_json:
        session.complain(
            f"{count.records} records, {count.redelivered} of them delivered before"
            + (f", {count.unreadable} unreadable" if count.unreadable else "")
        )
    return 0


def _prepare(session: Session, args: argparse.Namespace) -> None:
    """Check the topics and set the start of the group, before anything joins."""
    with AdminClient(session.admin_settings) as admin:
        known = admin.list_topics()
        for topic in args.topics:
            if topic not in known:
                raise CommandError(
                    f"topic {topic!r} does not exist{nearest(topic, known)}; create it with: "
                    f"sharemesh topics create {topic}"
                )
        if args.from_beginning:
            try:
                admin.alter_group_configs(args.group, {"share.auto.offset.reset": "earliest"})
            except GroupIdNotFoundError as error:
                raise CommandError(
                    f"cannot set where group {args.group} starts: {error}"
                ) from error


def _consume(
    session: Session, args: argparse.Namespace, consumer: ShareConsumer, count: _Count
) -> None:
    explicit = (args.mode or "explicit") == "explicit"
    idle_ms = 0
    while args.max_records is None or count.records < args.max_records:
        try:
            records = consumer.poll(POLL_MS if args.idle is None else min(POLL_MS, args.idle))
        except (RecordDeserializationError, CorruptRecordError) as error:
            count.unreadable += 1
            session.complain(f"sharemesh: {error}")
            continue
        if not records:
            idle_ms += POLL_MS
            if args.idle is not None and idle_ms >= args.idle:
                return
            continue
        idle_ms = 0
        for record in records:
            count.records += 1
            count.redelivered += record.delivery_count > 1
            _show(session, args, record)
            if explicit:
                consumer.acknowledge(record, _decide(args))
        # What was printed is confirmed now, not with the next poll that may never be.
        for where, problem in consumer.commit_sync(COMMIT_TIMEOUT_MS).items():
            if problem is not None:
                session.complain(f"sharemesh: {where}: not acknowledged: {problem}")


def _decide(args: argparse.Namespace) -> AcknowledgeType:
    if args.action != "ask":
        return _TYPES[args.action]
    while True:
        answer = input("  (a)ccept, re(l)ease, re(j)ect, re(n)ew? ").strip().lower()
        name = _LETTERS.get(answer, answer)
        if name in _TYPES:
            return _TYPES[name]


def _show(session: Session, args: argparse.Namespace, record: ConsumerRecord) -> None:
    value = _text(record.value)
    if session.as_json:
        session.show_json(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "delivery_count": record.delivery_count,
                "key": _text(record.key),
                "value": _json_or_text(value),
                "headers": {name: _text(data) for name, data in record.headers},
            }
        )
    elif args.print == "all":
        headers = ",".join(f"{name}={_text(data)}" for name, data in record.headers)
        print(
            f"{record.topic}/{record.partition}@{record.offset}\t{record.delivery_count}\t"
            f"{_text(record.key) or '-'}\t{headers or '-'}\t{value}"
        )
    else:
        print(value)
    sys.stdout.flush()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _json_or_text(text: str | None) -> object:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
