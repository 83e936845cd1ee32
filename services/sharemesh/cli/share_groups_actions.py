"""What each action of ``sharemesh-share-groups`` does and prints (spec CLI)."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sharemesh.cli.entry import INTERRUPTED
from sharemesh.cli.formatting import table_lines
from sharemesh.cli.groups import assignment_text, scenario_of
from sharemesh.cli.offset_file import offsets_as_csv, offsets_of_file
from sharemesh.cli.offset_plan import of_file, plan, scope_of
from sharemesh.cli.session import CommandError
from sharemesh.cli.share_groups_options import check, parser
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import GroupDescription, GroupOffset, TopicPartition
from sharemesh.client.config_sources import from_file
from sharemesh.client.errors import (
    GroupIdNotFoundError,
    NonEmptyGroupError,
    SharemeshError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        options = parser()
        args = options.parse_args(argv)
        check(options, args)
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
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


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
    offsets = _planned(admin, args, group_id)
    problems: Mapping[Any, SharemeshError | None] = {}
    if args.execute and offsets:
        try:
            problems = admin.alter_share_group_offsets(group_id, offsets)
        except NonEmptyGroupError as error:
            raise CommandError(f"Share group '{group_id}' is not empty.") from error
    failures = {where: error for where, error in problems.items() if error is not None}
    done = {where: offset for where, offset in offsets.items() if where not in failures}
    if args.export:
        print(offsets_as_csv(done), end="")
    else:
        rows = [[group_id, where.topic, where.partition, offset] for where, offset in done.items()]
        _table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows)
    for where, failure in failures.items():
        print(f"Error: {where}: {failure}", file=sys.stderr)
    return int(bool(failures))


def _planned(
    admin: AdminClient, args: argparse.Namespace, group_id: str
) -> dict[TopicPartition, int]:
    if args.from_file is not None:
        return of_file(admin, offsets_of_file(args.from_file))
    scope = scope_of(admin, args.topic or (), of_group=group_id if args.all_topics else None)
    return plan(admin, group_id, scope, scenario_of(args))


def _delete_offsets(admin: AdminClient, args: argparse.Namespace) -> int:
    (group_id,) = args.group
    try:
        problems = admin.delete_share_group_offsets(group_id, args.topic)
    except NonEmptyGroupError as error:
        raise CommandError(f"Share group '{group_id}' is not empty.") from error
    except GroupIdNotFoundError as error:
        raise CommandError(f"Share group '{group_id}' does not exist.") from error
    rows = [
        [topic, "Successful" if problem is None else f"Error: {problem}"]
        for topic, problem in problems.items()
    ]
    _table(["TOPIC", "STATUS"], rows)
    return int(any(problem is not None for problem in problems.values()))


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    print("\n".join(table_lines(head, rows)))
