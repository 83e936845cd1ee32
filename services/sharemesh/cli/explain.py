"""``sharemesh explain``: why a record is not delivered to a group, and what became of it."""

import argparse
from dataclasses import asdict
from typing import Any

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import nearest, utc
from sharemesh.cli.session import CommandError, CommandSession, add_admin_action
from sharemesh.cli.topics import where_of
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import Explanation, RecordEvent
from sharemesh.client.errors import GroupIdNotFoundError
from sharemesh.domain.setting_values import is_written_whole

_SHOWN_APART = {
    "explanation",
    "reason",
    "delivery_state",
    "events",
    "events_note",
    "events_from_ms",
}


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    explain = add_admin_action(
        commands,
        "explain",
        _explain,
        help="say why a record is, or is not, being delivered to a group, and how it ended",
        epilog="examples:\n  sharemesh explain orders/0@42 --group billing",
    )
    explain.add_argument("where", metavar="TOPIC/PARTITION@OFFSET")
    explain.add_argument("--group", required=True, metavar="G")


def _explain(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    place, mark, offset = args.where.rpartition("@")
    if not mark or not is_written_whole(offset) or "/" not in place:
        raise CommandError(
            f"{args.where!r}: expected TOPIC/PARTITION@OFFSET, for example orders/0@42", code=2
        )
    where = where_of(place)
    try:
        found = admin.explain(args.group, where.topic, where.partition, int(offset))
    except GroupIdNotFoundError as error:
        hint = nearest(args.group, [each.group_id for each in admin.list_groups(partial=True)])
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
        columns = "time, cause, member, state, deliveries, start_offset"
        if any(each.not_before_ms for each in found.events):
            columns += ", not_before"
        if any(each.acquired_at_ms for each in found.events):
            columns += ", acquired"
        session.show([_row(each) for each in found.events], columns, empty="")
    if found.events_note:
        session.say(found.events_note)
    return 0


def _show_facts(session: CommandSession, found: Explanation) -> None:
    """Show what is known: no number stands for one that is not."""
    rows = [
        {"fact": name.replace("_", " "), "value": value}
        for name in type(found).__dataclass_fields__
        if name not in _SHOWN_APART and (value := getattr(found, name)) not in (None, "")
    ]
    session.show(rows, "fact, value", empty="")


def _row(event: RecordEvent) -> dict[str, Any]:
    return {
        "time": utc(event.timestamp_ms),
        "cause": event.cause,
        "member": event.member_id,
        "state": event.delivery_state,
        "deliveries": event.delivery_count,
        "start_offset": event.start_offset,
        "not_before": utc(event.not_before_ms) if event.not_before_ms else "",
        "acquired": utc(event.acquired_at_ms) if event.acquired_at_ms else "",
    }
