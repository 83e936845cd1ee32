"""``sharemesh-share-groups``: options, columns and messages of kafka-share-groups.sh (spec 23)."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sharemesh
from sharemesh.cli.failures import CommandError
from sharemesh.cli.groups import assignment_text, scenario_of
from sharemesh.cli.offset_plan import plan, scope_of
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import GroupDescription, GroupOffset
from sharemesh.client.config_sources import from_file
from sharemesh.client.errors import (
    GroupIdNotFoundError,
    NonEmptyGroupError,
    SharemeshError,
)

DEFAULT_TIMEOUT_MS = 30_000
MISSING = "-"
_ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 wrong usage."""
    parser = _parser()
    args = parser.parse_args(argv)
    _check(parser, args)
    try:
        settings: dict[str, Any] = {}
        if args.command_config:
            settings.update(from_file(Path(args.command_config)))
        settings["bootstrap.servers"] = args.bootstrap_server
        settings["default.api.timeout.ms"] = args.timeout
        with AdminClient(settings) as admin:
            return _carry_out(admin, args)
    except CommandError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.code
    except SharemeshError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sharemesh-share-groups",
        description="List, describe, delete share groups and reset their offsets.",
        epilog="examples:\n"
        "  sharemesh-share-groups --bootstrap-server localhost:9400 --list --state Empty\n"
        "  sharemesh-share-groups --bootstrap-server localhost:9400 --describe --group g --members",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=sharemesh.__version__)
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT[,…]")
    parser.add_argument("--command-config", metavar="FILE")
    parser.add_argument("--timeout", type=int, default=DEFAULT_TIMEOUT_MS, metavar="MS")
    action = parser.add_mutually_exclusive_group(required=True)
    for name in _ACTIONS:
        action.add_argument(f"--{name.replace('_', '-')}", action="store_true")
    parser.add_argument("--group", action="append", metavar="G", help="repeatable")
    parser.add_argument("--all-groups", action="store_true")
    parser.add_argument("--members", action="store_true")
    parser.add_argument("--offsets", action="store_true")
    parser.add_argument("--state", nargs="?", const="", metavar="S[,S]")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--topic", action="append", metavar="T[:p,p]", help="repeatable")
    parser.add_argument("--all-topics", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--execute", action="store_true")
    parser.add_argument("--to-earliest", action="store_true")
    parser.add_argument("--to-latest", action="store_true")
    parser.add_argument("--to-current", action="store_true")
    parser.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
    parser.add_argument("--to-offset", type=int, metavar="N")
    return parser


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse options that do not go together (spec CLI-2, 5, 6, 7)."""
    if args.describe:
        if bool(args.group) == args.all_groups:
            parser.error("--describe needs --group or --all-groups")
        if sum((args.members, args.offsets, args.state is not None)) > 1:
            parser.error("--describe takes at most one of --members, --offsets and --state")
        if args.state:
            parser.error("--state takes no value with --describe")
    if args.delete:
        if bool(args.group) == args.all_groups:
            parser.error("--delete needs --group or --all-groups")
        if args.topic or args.all_topics:
            parser.error("--delete takes no topic options; see --delete-offsets")
    if args.delete_offsets and (not args.group or not args.topic):
        parser.error("--delete-offsets needs --group and --topic")
    if args.reset_offsets:
        _check_reset(parser, args)


def _check_reset(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if not args.group or len(args.group) != 1:
        parser.error("--reset-offsets needs one --group")
    if args.dry_run == args.execute:
        parser.error("--reset-offsets needs exactly one of --dry-run and --execute")
    if bool(args.topic) == args.all_topics:
        parser.error("--reset-offsets needs exactly one of --topic and --all-topics")
    scenarios = (
        args.to_earliest,
        args.to_latest,
        args.to_current,
        args.to_datetime is not None,
        args.to_offset is not None,
    )
    if sum(scenarios) != 1:
        parser.error(
            "--reset-offsets needs exactly one of --to-earliest, --to-latest, --to-current, "
            "--to-datetime and --to-offset"
        )


def _carry_out(admin: AdminClient, args: argparse.Namespace) -> int:
    if args.list:
        return _list(admin, args)
    if args.describe:
        return _describe(admin, args)
    if args.delete:
        return _delete(admin, args)
    if args.reset_offsets:
        return _reset(admin, args)
    return _delete_offsets(admin, args)


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    if args.state is None:
        for each in admin.list_groups():
            print(each.group_id)
        return 0
    states = [state for state in args.state.split(",") if state]
    rows = [[each.group_id, each.state] for each in admin.list_groups(states=states)]
    _table(["GROUP", "STATE"], rows)
    return 0


def _groups(admin: AdminClient, args: argparse.Namespace) -> list[str]:
    return [each.group_id for each in admin.list_groups()] if args.all_groups else args.group


def _describe(admin: AdminClient, args: argparse.Namespace) -> int:
    failed = 0
    for group_id in _groups(admin, args):
        found = admin.describe_groups([group_id])[group_id]
        if isinstance(found, GroupIdNotFoundError):
            print(f"Error: Share group '{group_id}' does not exist.", file=sys.stderr)
            failed = 1
        elif not isinstance(found, GroupDescription):
            raise found
        elif args.members:
            _describe_members(found, verbose=args.verbose)
        elif args.state is not None:
            _describe_state(found, verbose=args.verbose)
        else:
            _describe_offsets(admin, group_id, verbose=args.verbose)
    return failed


def _describe_members(found: GroupDescription, *, verbose: bool) -> None:
    if not found.members:
        print(f"Share group '{found.group_id}' has no active members.")
        return
    extra = ["MEMBER-EPOCH"] if verbose else []
    head = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *extra, "ASSIGNMENT"]
    rows = [
        [
            found.group_id,
            each.member_id,
            each.client_host,
            each.client_id,
            sum(len(partitions) for partitions in each.assignment.values()),
            *([each.member_epoch] if verbose else []),
            assignment_text(each),
        ]
        for each in found.members
    ]
    _table(head, rows)


def _describe_state(found: GroupDescription, *, verbose: bool) -> None:
    head = ["GROUP", "COORDINATOR (ID)", "STATE"]
    row = [found.group_id, found.coordinator_id, found.state]
    extra: list[Any] = []
    if verbose:
        head += ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"]
        extra = [found.group_epoch, found.assignment_epoch]
    _table([*head, "#MEMBERS"], [[*row, *extra, len(found.members)]])


def _describe_offsets(admin: AdminClient, group_id: str, *, verbose: bool) -> None:
    offsets = admin.list_share_group_offsets(group_id)
    if not offsets:
        print(f"Share group '{group_id}' has no offset information.")
        return
    extra = ["LEADER-EPOCH"] if verbose else []
    rows: list[list[Any]] = []
    for where, found in sorted(offsets.items()):
        known = found if isinstance(found, GroupOffset) else None
        epoch = [known.leader_epoch if known else None] if verbose else []
        lag = known.lag if known and known.lag >= 0 else None
        start = known.start_offset if known else None
        rows.append([group_id, where.topic, where.partition, *epoch, start, lag])
    _table(["GROUP", "TOPIC", "PARTITION", *extra, "START-OFFSET", "LAG"], rows)


def _delete(admin: AdminClient, args: argparse.Namespace) -> int:
    groups = _groups(admin, args)
    problems = admin.delete_groups(groups)
    failures = {group: error for group, error in problems.items() if error is not None}
    if not failures:
        names = ", ".join(f"'{group}'" for group in groups)
        print(f"Deletion of requested share groups ({names}) was successful.")
        return 0
    print("Error: Deletion of some share groups failed:")
    for group, error in failures.items():
        print(f"* Share group '{group}' could not be deleted due to: {_why(group, error)}")
    done = [group for group in groups if group not in failures]
    if done:
        names = ", ".join(f"'{group}'" for group in done)
        print(f"\nThese share groups were deleted successfully: {names}")
    return 1


def _why(group: str, error: SharemeshError) -> str:
    if isinstance(error, NonEmptyGroupError):
        return f"Share group '{group}' is not EMPTY."
    if isinstance(error, GroupIdNotFoundError):
        return f"Group '{group}' is not a share group."
    return str(error)


def _reset(admin: AdminClient, args: argparse.Namespace) -> int:
    (group_id,) = args.group
    described = admin.describe_groups([group_id])[group_id]
    if isinstance(described, GroupDescription) and described.members:
        raise CommandError(f"Share group '{group_id}' is not empty.")
    scope = scope_of(admin, args.topic or (), of_group=group_id if args.all_topics else None)
    offsets = plan(admin, group_id, scope, scenario_of(args))
    problems: Mapping[Any, SharemeshError | None] = {}
    if args.execute and offsets:
        try:
            problems = admin.alter_share_group_offsets(group_id, offsets)
        except NonEmptyGroupError as error:
            raise CommandError(f"Share group '{group_id}' is not empty.") from error
    failures = {where: error for where, error in problems.items() if error is not None}
    rows = [
        [group_id, where.topic, where.partition, offset]
        for where, offset in offsets.items()
        if where not in failures
    ]
    _table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows)
    for where, failure in failures.items():
        print(f"Error: {where}: {failure}", file=sys.stderr)
    return int(bool(failures))


def _delete_offsets(admin: AdminClient, args: argparse.Namespace) -> int:
    failed = 0
    for group_id in args.group:
        try:
            problems = admin.delete_share_group_offsets(group_id, args.topic)
        except NonEmptyGroupError as error:
            raise CommandError(f"Share group '{group_id}' is not empty.") from error
        except GroupIdNotFoundError as error:
            raise CommandError(f"Share group '{group_id}' does not exist.") from error
        rows = []
        for topic, problem in problems.items():
            failed |= problem is not None
            rows.append([topic, "Successful" if problem is None else f"Error: {problem}"])
        _table(["TOPIC", "STATUS"], rows)
    return int(failed)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print columns as wide as their widest cell; unknown values as ``-`` (spec CLI-3)."""
    texts = [[MISSING if cell in (None, "") else str(cell) for cell in row] for row in rows]
    widths = [
        max([len(head[column]), *(len(row[column]) for row in texts)])
        for column in range(len(head))
    ]
    for line in [list(head), *texts]:
        print(
            " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


if __name__ == "__main__":
    sys.exit(main())
