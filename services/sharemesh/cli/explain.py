"""``sharemesh explain``: why a record is not delivered to a group, and what became of it."""

import argparse
from dataclasses import asdict
from typing import Any

from sharemesh.cli.formatting import nearest, utc
from sharemesh.cli.session import CommandError, CommandSession, connection_flags, session_of
from sharemesh.cli.topics import where_of
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import Explanation, RecordEvent
from sharemesh.client.errors import GroupIdNotFoundError

_EVENT_COLUMNS = {
    "time": "TIME",
    "cause": "CAUSE",
    "member": "MEMBER",
    "state": "STATE",
    "deliveries": "DELIVERIES",
    "start_offset": "START-OFFSET",
}
_TOLD_ABOVE = {
    "explanation",
    "reason",
    "delivery_state",
    "events",
    "events_note",
    "events_from_ms",
}


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    explain = subparsers.add_parser(
        "explain",
        parents=[connection_flags()],
        help="tell why a record is, or is not, being delivered to a group, and how it ended",
        epilog="examples:\n  sharemesh explain orders/0@42 --group billing",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_argument("where", metavar="TOPIC/PARTITION@OFFSET")
    explain.add_argument("--group", required=True, metavar="G")
    explain.set_defaults(run=_explain)


def _explain(args: argparse.Namespace) -> int:
    session = session_of(args)
    place, mark, offset = args.where.rpartition("@")
    if not mark or not offset.isdigit() or "/" not in place:
        raise CommandError(
            f"{args.where!r}: expected TOPIC/PARTITION@OFFSET, for example orders/0@42", code=2
        )
    where = where_of(place)
    with AdminClient(session.admin_settings) as admin:
        try:
            found = admin.explain(args.group, where.topic, where.partition, int(offset))
        except GroupIdNotFoundError as error:
            hint = nearest(args.group, [each.group_id for each in admin.list_groups()])
            raise CommandError(f"{error}{hint}") from error
    if session.as_json:
        facts = asdict(found)
        session.show_json({"topic": where.topic, "partition": where.partition, **facts})
        return 0
    known = dict.fromkeys(each for each in (found.delivery_state, found.reason) if each)
    session.say(f"{args.where} for group {args.group}: {', '.join(known)}")
    session.say(found.explanation)
    _show_facts(session, found)
    if found.events:
        session.show([_row(each) for each in found.events], _EVENT_COLUMNS, empty="")
    if found.events_note:
        session.say(found.events_note)
    return 0


def _show_facts(session: CommandSession, found: Explanation) -> None:
    """Show what is known: no number stands for one that is not."""
    rows = [
        {"fact": name.replace("_", " "), "value": value}
        for name in type(found).__dataclass_fields__
        if name not in _TOLD_ABOVE and (value := getattr(found, name)) not in (None, "")
    ]
    session.show(rows, {"fact": "FACT", "value": "VALUE"}, empty="")


def _row(event: RecordEvent) -> dict[str, Any]:
    return {
        "time": utc(event.timestamp_ms),
        "cause": event.cause,
        "member": event.member_id or "-",
        "state": event.delivery_state or "-",
        "deliveries": "-" if event.delivery_count is None else event.delivery_count,
        "start_offset": "-" if event.start_offset is None else event.start_offset,
    }
