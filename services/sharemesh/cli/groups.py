"""``sharemesh groups``: list, describe, delete, offsets, reset offsets."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from threading import Event
from typing import Any

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import counted, nearest, utc
from sharemesh.cli.offset_plan import add_scenarios, plan, scope_of
from sharemesh.cli.session import (
    CommandError,
    CommandSession,
    actions_of,
    add_admin_action,
    any_failed,
)
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import GroupDescription, GroupOffset, MemberDescription
from sharemesh.client.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    SharemeshError,
)

INTERVAL_MIN_S = 0.1
INTERVAL_MAX_S = 3_600.0

PAUSED_NOTE = "; PAUSED: nothing more is delivered until `sharemesh groups resume`"

Pause = Callable[[float], object]

_EXAMPLES = """examples:
  sharemesh groups list
  sharemesh groups describe billing
  sharemesh groups describe billing --watch --interval 5
  sharemesh groups offsets billing
  sharemesh groups reset-offsets billing --topic orders --to-earliest --execute
  sharemesh groups pause billing
  sharemesh groups resume billing
  sharemesh groups delete-offsets billing --topic orders
  sharemesh groups delete billing"""
_ABOUT_PAUSES = (
    "A paused group (share.paused) is delivered nothing more. What its members hold they may "
    "acknowledge and renew as ever, locks end as ever, and lag grows with what is produced."
)
_ARCHIVED_BY = {"DELIVERY_LIMIT": "by the delivery limit", "REJECT": "rejected", "GAP": "gaps"}


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "groups",
            help="list, describe and delete share groups, and their offsets",
            epilog=_EXAMPLES,
        )
    )
    listing = add_admin_action(actions, "list", _list, help="list groups with their state")
    listing.add_argument("--state", metavar="S[,S]", default="", help="Empty, Stable, Dead")

    describe = add_admin_action(
        actions,
        "describe",
        _describe,
        help="state, members, offsets",
        description="START-OFFSET is the stored one. It is written with the next state, so it may "
        "stand at finished records for a while, as in Kafka: LAG counts only what is not finished.",
    )
    describe.add_argument("groups", nargs="+", metavar="GROUP")
    describe.add_argument("--watch", action="store_true", help="again and again, until Ctrl-C")
    describe.add_argument(
        "--interval",
        type=float,
        default=2.0,
        metavar="S",
        help="seconds from one to the next with --watch (default: %(default)g)",
    )

    for name, run, text in (
        ("pause", _pause, "deliver nothing more to groups"),
        ("resume", _resume, "deliver to groups again"),
    ):
        action = add_admin_action(actions, name, run, help=text, description=_ABOUT_PAUSES)
        action.add_argument("groups", nargs="+", metavar="GROUP")

    delete = add_admin_action(actions, "delete", _delete, help="delete empty groups")
    delete.add_argument("groups", nargs="+", metavar="GROUP")

    offsets = add_admin_action(actions, "offsets", _offsets, help="start offset and lag")
    offsets.add_argument("group", metavar="GROUP")
    offsets.add_argument("--topic", action="append", metavar="T", help="only this one; repeatable")

    reset = add_admin_action(actions, "reset-offsets", _reset, help="start at other offsets")
    reset.add_argument("group", metavar="GROUP")
    scope = reset.add_mutually_exclusive_group(required=True)
    scope.add_argument("--topic", action="append", metavar="T[:p,p]", help="repeatable")
    scope.add_argument("--all-topics", action="store_true", help="all topics of the group")
    add_scenarios(reset.add_mutually_exclusive_group(required=True))
    reset.add_argument("--execute", action="store_true", help="do it (default: only show)")

    forget = add_admin_action(actions, "delete-offsets", _delete_offsets, help="forget topics")
    forget.add_argument("group", metavar="GROUP")
    forget.add_argument("--topic", action="append", required=True, metavar="T", help="repeatable")


def _list(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    states = [each for each in args.state.split(",") if each]
    incomplete = False
    try:
        found = admin.list_groups(states=states)
    except CoordinatorNotAvailableError as error:
        incomplete = True
        session.complain(f"sharemesh: {error}")
        found = admin.list_groups(states=states, partial=True)
    rows = [
        {"group": each.group_id, "type": each.group_type, "state": each.state} for each in found
    ]
    nothing = "no share groups can be listed now" if incomplete else "there are no share groups"
    session.show(rows, "group, type, state", empty=nothing)
    return 1 if incomplete else 0


def _describe(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    if args.watch:
        watch(session, args.interval, lambda: _show_groups(session, admin, args.groups))
    return _show_groups(session, admin, args.groups)


def _wait(seconds: float) -> None:
    Event().wait(seconds)


def watch(
    session: CommandSession,
    interval_s: float,
    show: Callable[[], object],
    *,
    pause: Pause = _wait,
) -> None:
    """Call ``show`` every ``interval_s`` seconds; a terminal is cleared before.

    A cluster that does not answer is reported, and asked again; the first time it ends the command.

    Raises:
        CommandError: The interval is out of bounds.
        SharemeshError: The cluster does not answer at once.
    """
    if not INTERVAL_MIN_S <= interval_s <= INTERVAL_MAX_S:
        raise CommandError(
            f"--interval {interval_s:g}: must be {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds",
            code=2,
        )
    clock = SystemClock()
    first = True
    while True:
        if session.out.is_terminal and not session.as_json:
            session.out.clear()
        session.say(datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC).strftime("%H:%M:%S UTC"))
        try:
            show()
        except SharemeshError as error:
            if first:
                raise
            session.complain(f"sharemesh: {error}")
        first = False
        sys.stdout.flush()
        pause(interval_s)


def _show_groups(session: CommandSession, admin: AdminClient, group_ids: Sequence[str]) -> int:
    """Show each group; return 1 if one does not exist."""
    failed = 0
    for group_id, found in admin.describe_groups(group_ids).items():
        if not isinstance(found, GroupDescription):
            failed = 1
            session.complain_of(group_id, found, lambda: _known(admin))
            continue
        members = [_member_row(each) for each in found.members]
        offsets = admin.list_share_group_offsets(group_id)
        if session.as_json:
            session.show_json(
                {
                    "group": found.group_id,
                    "state": found.state,
                    "group_epoch": found.group_epoch,
                    "assignment_epoch": found.assignment_epoch,
                    "assignor": found.assignor,
                    "paused": found.paused,
                    "coordinator": found.coordinator_id,
                    "members": members,
                    "offsets": offset_rows(offsets),
                }
            )
            continue
        session.say(
            f"group {found.group_id}: {found.state}, {counted(len(members), 'member')}, group "
            f"epoch {found.group_epoch}, assignment epoch {found.assignment_epoch}, coordinator "
            f"{found.coordinator_id or '-'}{PAUSED_NOTE if found.paused else ''}"
        )
        session.show(members, "member, client, host, epoch, assignment", empty="no members")
        show_offsets(session, offsets)
    return failed


def _known(admin: AdminClient) -> list[str]:
    return [each.group_id for each in admin.list_groups(partial=True)]


def assignment_text(member: MemberDescription) -> str:
    """Return an assignment as ``topic:p,p;topic2:p`` (spec CLI-3)."""
    return ";".join(
        f"{topic}:{','.join(str(each) for each in sorted(partitions))}"
        for topic, partitions in sorted(member.assignment.items())
    )


def _member_row(member: MemberDescription) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.client_host,
        "epoch": member.member_epoch,
        "assignment": assignment_text(member),
    }


def _pause(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    return _change_pause(session, admin, args.groups, paused=True)


def _resume(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    return _change_pause(session, admin, args.groups, paused=False)


def _change_pause(
    session: CommandSession, admin: AdminClient, group_ids: Sequence[str], *, paused: bool
) -> int:
    """Pause or resume each group; a group that does not exist is pointed out."""
    problems: dict[str, SharemeshError | None] = {}
    for group_id in group_ids:
        try:
            if paused:
                admin.pause_group(group_id)
            else:
                admin.resume_group(group_id)
        except SharemeshError as error:
            problems[group_id] = error
            continue
        problems[group_id] = None
        if _missing(admin, group_id) is not None:
            begins = "begins so" if paused else "begins without a pause"
            hint = nearest(group_id, _known(admin))
            session.complain(f"sharemesh: there is no group {group_id!r} yet: it {begins}{hint}")
    done = "group {} is paused" if paused else "group {} is resumed"
    return session.report(problems, done, lambda: _known(admin))


def _offsets(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    offsets = admin.list_share_group_offsets(args.group, args.topic)
    if not any(_is_known(found) for found in offsets.values()):
        missing = _missing(admin, args.group)
        if missing is not None:
            session.complain_of(args.group, missing, lambda: _known(admin))
            return 1
    show_offsets(session, offsets)
    return 0


def _is_known(found: object) -> bool:
    """Whether an offset is stored, or its error says something better than that it is not."""
    return isinstance(found, SharemeshError) or (
        isinstance(found, GroupOffset) and found.start_offset >= 0
    )


def _missing(admin: AdminClient, group_id: str) -> GroupIdNotFoundError | None:
    """Return the error of a group that does not exist, else None."""
    found = admin.describe_groups([group_id])[group_id]
    return found if isinstance(found, GroupIdNotFoundError) else None


def _delete(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    problems = admin.delete_groups(args.groups)
    return session.report(problems, "group {} deleted", lambda: _known(admin))


def _reset(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    scope = scope_of(admin, args.topic or (), of_group=args.group if args.all_topics else None)
    offsets = plan(admin, args.group, scope, args)
    problems: Mapping[Any, SharemeshError | None] = {}
    if offsets and _missing(admin, args.group) is not None:
        verb = "is created now" if args.execute else "would be created by --execute"
        hint = nearest(args.group, _known(admin))
        session.complain(f"sharemesh: there is no group {args.group!r}: it {verb}{hint}")
    if args.execute and offsets:
        problems = admin.alter_share_group_offsets(args.group, offsets)
    rows = [
        {
            "group": args.group,
            "topic": where.topic,
            "partition": where.partition,
            "new_offset": offset,
            "error": None if problems.get(where) is None else str(problems[where]),
        }
        for where, offset in offsets.items()
    ]
    failed = any_failed(problems)
    columns = "group, topic, partition, new_offset" + (", error" if failed else "")
    session.show(rows, columns, empty="there is nothing to reset")
    if not args.execute and offsets:
        session.say("nothing was changed: add --execute")
    return failed


def _delete_offsets(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    problems = admin.delete_share_group_offsets(args.group, args.topic)
    rows = [
        {"topic": topic, "status": "deleted" if error is None else str(error)}
        for topic, error in problems.items()
    ]
    session.show(rows, "topic, status", empty="no topic was named")
    return any_failed(problems)


def offset_rows(offsets: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """Return one row a partition, for programs."""
    return [_offset_row(where, found) for where, found in sorted(offsets.items())]


def show_offsets(session: CommandSession, offsets: Mapping[Any, Any]) -> None:
    """Print the rows; what is archived is counted from COUNTED-SINCE on (ARC-4)."""
    rows = offset_rows(offsets)
    if not session.as_json:
        for row in rows:
            since_ms = row["archived_since_ms"]
            row["archived_text"] = _archived_text(row["archived"])
            row["counted_since"] = "-" if since_ms is None else utc(since_ms)
    session.show(
        rows,
        "topic, partition, start_offset, lag, leader_epoch, archived_text:ARCHIVED, counted_since",
        empty="no offsets yet",
    )


def _offset_row(where: Any, found: object) -> dict[str, Any]:  # noqa: ANN401
    known = found if isinstance(found, GroupOffset) else None
    return {
        "topic": where.topic,
        "partition": where.partition,
        "start_offset": known.start_offset if known else None,
        "lag": known.lag if known and known.lag >= 0 else None,
        "leader_epoch": known.leader_epoch if known else None,
        "archived": known.archived if known else None,
        "archived_since_ms": known.archived_since_ms if known else None,
        "error": str(found) if isinstance(found, SharemeshError) else None,
    }


def _archived_text(archived: Mapping[str, int] | None) -> str:
    """Return how many in all, and by what: ``7 (5 by the delivery limit, 2 rejected)``."""
    if archived is None:
        return "-"
    parts = [
        f"{count} {_ARCHIVED_BY.get(cause, cause.lower().replace('_', ' '))}"
        for cause, count in archived.items()
    ]
    total = sum(archived.values())
    return f"{total} ({', '.join(parts)})" if parts else "0"
