"""``sharemesh groups``: list, describe, delete, offsets, reset offsets."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from sharemesh.cli.formatting import counted, nearest
from sharemesh.cli.offset_plan import Scenario, plan, scope_of, timestamp_ms
from sharemesh.cli.offset_table import offset_rows, show_offsets
from sharemesh.cli.session import (
    CommandError,
    CommandSession,
    connection_before,
    connection_flags,
    session_of,
)
from sharemesh.cli.watch import watch
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import GroupDescription, GroupOffset, MemberDescription
from sharemesh.client.errors import GroupIdNotFoundError, SharemeshError

_EXAMPLES = """examples:
  sharemesh groups list
  sharemesh groups describe billing
  sharemesh groups describe billing --watch --interval 5
  sharemesh groups offsets billing
  sharemesh groups reset-offsets billing --topic orders --to-earliest --execute
  sharemesh groups delete-offsets billing --topic orders
  sharemesh groups delete billing"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "groups",
        help="list, describe and delete share groups, and their offsets",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    connection_before(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    common = connection_flags()

    listing = actions.add_parser("list", parents=[common], help="list groups with their state")
    listing.add_argument("--state", metavar="S[,S]", default="", help="Empty, Stable, Dead")
    listing.set_defaults(run=_list)

    describe = actions.add_parser(
        "describe",
        parents=[common],
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
    describe.set_defaults(run=_describe)

    delete = actions.add_parser("delete", parents=[common], help="delete empty groups")
    delete.add_argument("groups", nargs="+", metavar="GROUP")
    delete.set_defaults(run=_delete)

    offsets = actions.add_parser("offsets", parents=[common], help="start offset and lag")
    offsets.add_argument("groups", nargs=1, metavar="GROUP")
    offsets.add_argument("--topic", action="append", metavar="T", help="only this one; repeatable")
    offsets.set_defaults(run=_offsets)

    reset = actions.add_parser("reset-offsets", parents=[common], help="start anew elsewhere")
    reset.add_argument("groups", nargs=1, metavar="GROUP")
    scope = reset.add_mutually_exclusive_group(required=True)
    scope.add_argument("--topic", action="append", metavar="T[:p,p]", help="repeatable")
    scope.add_argument("--all-topics", action="store_true", help="all topics of the group")
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true")
    to.add_argument("--to-latest", action="store_true")
    to.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
    to.add_argument("--to-offset", type=int, metavar="N")
    to.add_argument("--to-current", action="store_true")
    to.add_argument("--shift-by", type=int, metavar="N", help="from where it stands; may be < 0")
    reset.add_argument("--execute", action="store_true", help="do it (default: only show)")
    reset.set_defaults(run=_reset)

    forget = actions.add_parser("delete-offsets", parents=[common], help="forget topics")
    forget.add_argument("groups", nargs=1, metavar="GROUP")
    forget.add_argument("--topic", action="append", required=True, metavar="T", help="repeatable")
    forget.set_defaults(run=_delete_offsets)


def scenario_of(args: argparse.Namespace) -> Scenario:
    """Return the scenario that the options name.

    Raises:
        CommandError: The time cannot be read, or the offset is negative.
    """
    if args.to_earliest:
        return Scenario("earliest")
    if args.to_latest:
        return Scenario("latest")
    if args.to_current:
        return Scenario("current")
    if args.shift_by is not None:
        return Scenario("shift", args.shift_by)
    if args.to_datetime is not None:
        return Scenario("time", timestamp_ms(args.to_datetime))
    if args.to_offset < 0:
        raise CommandError(f"--to-offset {args.to_offset}: must not be negative", code=2)
    return Scenario("offset", args.to_offset)


def _list(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        found = admin.list_groups(states=[each for each in args.state.split(",") if each])
    rows = [
        {"group": each.group_id, "type": each.group_type, "state": each.state} for each in found
    ]
    columns = {"group": "GROUP", "type": "TYPE", "state": "STATE"}
    session.show(rows, columns, empty="there are no share groups")
    return 0


def _describe(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        if args.watch:
            watch(session, args.interval, lambda: _show_groups(session, admin, args.groups))
        return _show_groups(session, admin, args.groups)


def _show_groups(session: CommandSession, admin: AdminClient, group_ids: Sequence[str]) -> int:
    """Show each group; return 1 if one does not exist."""
    failed = 0
    for group_id, found in admin.describe_groups(group_ids).items():
        if not isinstance(found, GroupDescription):
            failed = 1
            _complain(session, admin, group_id, found)
            continue
        offsets = admin.list_share_group_offsets(group_id)
        if session.as_json:
            session.show_json(_as_json(found, offsets))
        else:
            _print_group(session, found, offsets)
    return failed


def _complain(
    session: CommandSession, admin: AdminClient, group_id: str, error: SharemeshError
) -> None:
    hint = ""
    if isinstance(error, GroupIdNotFoundError):
        hint = nearest(group_id, [each.group_id for each in admin.list_groups()])
    session.complain(f"sharemesh: {error}{hint}")


def _as_json(found: GroupDescription, offsets: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "group": found.group_id,
        "state": found.state,
        "group_epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "assignor": found.assignor,
        "coordinator": found.coordinator_id,
        "members": [_member_row(each) for each in found.members],
        "offsets": offset_rows(offsets),
    }


def _print_group(
    session: CommandSession, found: GroupDescription, offsets: Mapping[Any, Any]
) -> None:
    session.say(
        f"group {found.group_id}: {found.state}, {counted(len(found.members), 'member')}, "
        f"group epoch {found.group_epoch}, assignment epoch {found.assignment_epoch}, coordinator "
        f"{found.coordinator_id or '-'}"
    )
    columns = {
        "member": "MEMBER",
        "client": "CLIENT",
        "host": "HOST",
        "epoch": "EPOCH",
        "assignment": "ASSIGNMENT",
    }
    session.show([_member_row(each) for each in found.members], columns, empty="no members")
    show_offsets(session, offsets)


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


def _offsets(args: argparse.Namespace) -> int:
    session = session_of(args)
    (group_id,) = args.groups
    with AdminClient(session.admin_settings) as admin:
        offsets = admin.list_share_group_offsets(group_id, args.topic)
        if not any(_is_known(found) for found in offsets.values()):
            missing = _missing(admin, group_id)
            if missing is not None:
                _complain(session, admin, group_id, missing)
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


def _delete(args: argparse.Namespace) -> int:
    session = session_of(args)
    failed = 0
    with AdminClient(session.admin_settings) as admin:
        problems = admin.delete_groups(args.groups)
        if session.as_json:
            session.show_json({g: None if e is None else str(e) for g, e in problems.items()})
        for group_id, error in problems.items():
            if error is None:
                session.say(f"group {group_id} deleted")
            else:
                failed = 1
                _complain(session, admin, group_id, error)
    return failed


def _reset(args: argparse.Namespace) -> int:
    session = session_of(args)
    (group_id,) = args.groups
    with AdminClient(session.admin_settings) as admin:
        scope = scope_of(admin, args.topic or (), of_group=group_id if args.all_topics else None)
        offsets = plan(admin, group_id, scope, scenario_of(args))
        problems: Mapping[Any, SharemeshError | None] = {}
        missing = _missing(admin, group_id) if offsets else None
        if missing is not None:
            hint = nearest(group_id, [each.group_id for each in admin.list_groups()])
            verb = "is created now" if args.execute else "would be created by --execute"
            session.complain(f"sharemesh: there is no group {group_id!r}: it {verb}{hint}")
        if args.execute and offsets:
            problems = admin.alter_share_group_offsets(group_id, offsets)
    rows = [
        {
            "group": group_id,
            "topic": where.topic,
            "partition": where.partition,
            "new_offset": offset,
            "error": None if problems.get(where) is None else str(problems[where]),
        }
        for where, offset in offsets.items()
    ]
    columns = {
        "group": "GROUP",
        "topic": "TOPIC",
        "partition": "PARTITION",
        "new_offset": "NEW-OFFSET",
    }
    if any(error is not None for error in problems.values()):
        columns["error"] = "ERROR"
    session.show(rows, columns, empty="there is nothing to reset")
    if not args.execute and offsets:
        session.say("nothing was changed: add --execute")
    return int(any(error is not None for error in problems.values()))


def _delete_offsets(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        problems = admin.delete_share_group_offsets(args.groups[0], args.topic)
    rows = [
        {"topic": topic, "status": "deleted" if error is None else str(error)}
        for topic, error in problems.items()
    ]
    session.show(rows, {"topic": "TOPIC", "status": "STATUS"}, empty="nothing was asked for")
    return int(any(error is not None for error in problems.values()))
