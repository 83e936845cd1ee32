"""``sharemesh consume``: a member of a share group on the command line."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import counted
from sharemesh.cli.interrupts import Interrupts, interrupts
from sharemesh.cli.session import CommandError, CommandSession, add_action
from sharemesh.cli.topics import check_exist
from sharemesh.client import (
    AcknowledgeType,
    AdminClient,
    ConsumerRecord,
    ShareConsumer,
    TopicIdPartition,
)
from sharemesh.client.errors import (
    CorruptRecordError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    RecordDeserializationError,
    WakeupError,
)

POLL_MS = 1_000
RESET = "share.auto.offset.reset"
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


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_action(
        commands,
        "consume",
        run,
        help="consume topics in a share group and print the records",
        description="Prints each record. Ctrl-C ends: what was not printed is released, and the "
        "last line on stderr says how many of the printed ones are confirmed.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    parser.add_argument("--group", required=True, metavar="G", help="the share group")
    parser.add_argument("--max-records", type=int, metavar="N", help="end after N records")
    parser.add_argument(
        "--idle",
        type=int,
        metavar="MS",
        help="end when no record came for MS milliseconds (default: never)",
    )
    parser.add_argument(
        "--mode", choices=("implicit", "explicit"), default="explicit", help="default: explicit"
    )
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


@dataclass(slots=True)
class _Count:
    """What was printed, and what became of it at the cluster."""

    records: int = 0
    redelivered: int = 0
    unreadable: int = 0
    confirmed: int = 0
    _open: set[tuple[str, int, int]] = field(default_factory=set)

    def printed(self, record: ConsumerRecord) -> None:
        """Count a record that is on the output now."""
        self.records += 1
        self.redelivered += record.delivery_count > 1
        self._open.add((record.topic, record.partition, record.offset))

    def settled(
        self, offsets: Mapping[TopicIdPartition, set[int]], error: Exception | None
    ) -> None:
        """Count acknowledgements that have taken effect."""
        for where, each in offsets.items():
            settled = {(where.topic, where.partition, offset) for offset in each} & self._open
            self._open -= settled
            self.confirmed += 0 if error is not None else len(settled)

    @property
    def words(self) -> str:
        """Return the sums; what is not confirmed may be delivered again."""
        left = self.records - self.confirmed
        return (
            f"{counted(self.records, 'record')}, {self.redelivered} of them delivered before, "
            f"{self.confirmed} confirmed"
            + (f", {left} not confirmed: they may come again" if left else "")
            + (f", {self.unreadable} unreadable" if self.unreadable else "")
        )

    def as_json(self, *, interrupted: bool) -> str:
        """Return the sums for programs."""
        return json.dumps(
            {
                "records": self.records,
                "redelivered": self.redelivered,
                "confirmed": self.confirmed,
                "unreadable": self.unreadable,
                "interrupted": interrupted,
            }
        )


def run(session: CommandSession, args: argparse.Namespace) -> int:
    """Consume until a limit or a signal ends it; return the exit code."""
    if args.mode == "implicit" and args.action != "accept":
        raise CommandError(f"--action {args.action} needs --mode explicit", code=2)
    if args.max_records is not None and args.max_records < 1:
        raise CommandError(f"--max-records {args.max_records}: must be at least 1", code=2)
    count = _Count()
    with interrupts() as interrupted:
        _prepare(session, args)
        try:
            _Consumption(session, args, count, interrupted).run()
        except KeyboardInterrupt:
            pass  # what was printed and is not confirmed is said below
        finally:
            words = count.as_json(interrupted=bool(interrupted.code))
            if not session.as_json:
                words = f"interrupted: {count.words}" if interrupted.code else count.words
            session.complain(words)
    return interrupted.code


def _prepare(session: CommandSession, args: argparse.Namespace) -> None:
    """Check the topics and set the start of the group, before anything joins."""
    with AdminClient(session.admin_settings) as admin:
        check_exist(admin, *args.topics)
        if args.from_beginning:
            _start_at_the_oldest(admin, args.group)


def _start_at_the_oldest(admin: AdminClient, group_id: str) -> None:
    """Set where a new group starts, unless it is set so and may not be set by this user."""
    try:
        admin.alter_group_configs(group_id, {RESET: "earliest"})
    except GroupIdNotFoundError as error:
        raise CommandError(f"cannot set where group {group_id} starts: {error}") from error
    except GroupAuthorizationFailedError as error:
        try:
            found = {each.name: each.value for each in admin.describe_group_configs(group_id)}
            now = found.get(RESET, "")
        except GroupAuthorizationFailedError:
            now = "unknown without DESCRIBE_CONFIGS"
        if now != "earliest":
            raise CommandError(
                f"--from-beginning sets {RESET} of group {group_id!r} to earliest, for which "
                f"ALTER_CONFIGS on the group is missing (it is {now}): let somebody who may say "
                f"'sharemesh configs alter --group {group_id} {RESET}=earliest', and leave "
                "--from-beginning out"
            ) from error


@dataclass(frozen=True, slots=True)
class _Consumption:
    """A consumer's life: it polls, prints, and confirms what was printed."""

    session: CommandSession
    args: argparse.Namespace
    count: _Count
    interrupted: Interrupts

    def run(self) -> None:
        """Consume; in the end send what was decided, and release the rest."""
        consumer = ShareConsumer(self._config())
        try:
            with self.interrupted.first_only_noted(consumer.wakeup):
                consumer.set_acknowledgement_commit_callback(self.count.settled)
                consumer.subscribe(self.args.topics)
                self._consume(consumer)
        finally:
            if self.interrupted.count < 2:  # after a second one nobody waits for anything
                consumer.close(COMMIT_TIMEOUT_MS)

    def _config(self) -> dict[str, Any]:
        args = self.args
        config: dict[str, Any] = {
            **self.session.settings,
            "group.id": args.group,
            "client.id": "sharemesh-consume",
            "share.acknowledgement.mode": args.mode,
        }
        if args.max_records is not None or args.action == "ask":
            limit = 1 if args.action == "ask" else min(args.max_records, 500)
            config |= {
                "share.acquire.mode": "record_limit",
                "max.poll.records": limit,
                "prefetch.records": 0,
            }
        return config

    def _consume(self, consumer: ShareConsumer) -> None:
        most, idle = self.args.max_records, self.args.idle
        idle_ms = 0
        while not self.interrupted.code and (most is None or self.count.records < most):
            try:
                records = consumer.poll(POLL_MS if idle is None else min(POLL_MS, idle))
            except WakeupError:
                return
            except (RecordDeserializationError, CorruptRecordError) as error:
                self.count.unreadable += 1
                self.session.complain(f"sharemesh: {error}")
                continue
            if not records:
                idle_ms += POLL_MS
                if idle is not None and idle_ms >= idle:
                    return
                continue
            idle_ms = 0
            self._take(consumer, records)

    def _take(self, consumer: ShareConsumer, records: Sequence[ConsumerRecord]) -> None:
        """Print records and confirm those that were printed."""
        explicit = self.args.mode == "explicit"
        for record in records:
            if self.interrupted.code:
                break
            _show(self.session, record, whole=self.args.print == "all")
            self.count.printed(record)
            if explicit:
                consumer.acknowledge(record, self._decision())
        if not explicit and self.interrupted.code:
            return  # all of them or none: none
        # What was printed is confirmed now, not with the next poll that may never be.
        try:
            results = consumer.commit_sync(COMMIT_TIMEOUT_MS)
        except WakeupError:
            return  # closing waits for the answers
        for where, problem in results.items():
            if problem is not None:
                self.session.complain(f"sharemesh: {where}: not acknowledged: {problem}")

    def _decision(self) -> AcknowledgeType:
        name = self.args.action
        if name != "ask":
            return _TYPES[name]
        with self.interrupted.raised():
            while name not in _TYPES:
                answer = input("  (a)ccept, re(l)ease, re(j)ect, re(n)ew? ").strip().lower()
                name = _LETTERS.get(answer, answer)
        return _TYPES[name]


def _show(session: CommandSession, record: ConsumerRecord, *, whole: bool) -> None:
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
    elif whole:
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
