"""``sharemesh-share-groups``: options, which go together, what each action prints (CLI-1 to 8)."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import sharemesh
from sharemesh.cli.command_parser import CommandParser
from sharemesh.cli.formatting import table_lines
from sharemesh.cli.groups import assignment_text, offset_rows
from sharemesh.cli.offset_plan import (
    add_scenarios,
    of_file,
    offsets_as_csv,
    offsets_of_file,
    plan,
    scope_of,
)
from sharemesh.cli.session import CommandError, any_failed, ended
from sharemesh.client import AdminClient
from sharemesh.client.admin_results import GroupDescription, TopicPartition
from sharemesh.client.config_sources import from_file
from sharemesh.client.errors import (
    GroupIdNotFoundError,
    NonEmptyGroupError,
    SharemeshError,
)
from sharemesh.domain.printable import escaped

DEFAULT_TIMEOUT_MS = 30_000

ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
SCENARIOS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_datetime",
    "to_offset",
    "shift_by",
    "from_file",
)
_GROUPS = ("group", "all_groups")
_SCOPE = ("topic", "all_topics")

_TAKES: Mapping[str, Sequence[str]] = {
    "list": ("state", "all_groups"),
    "describe": (*_GROUPS, "members", "offsets", "state", "verbose"),
    "delete": _GROUPS,
    "reset_offsets": ("group", *_SCOPE, "dry_run", "execute", "export", *SCENARIOS),
    "delete_offsets": ("group", "topic"),
}
"""What may stand beside each action; Kafka's tool refuses the rest too."""

_OPTIONS = sorted({name for names in _TAKES.values() for name in names})

_EPILOG = """examples:
  sharemesh-share-groups --bootstrap-server localhost:9400 --list --state Empty
  sharemesh-share-groups --bootstrap-server localhost:9400 --describe --group g --members
  sharemesh-share-groups --bootstrap-server localhost:9400 --reset-offsets --group g \\
    --all-topics --to-current --export --dry-run > offsets.csv
  sharemesh-share-groups --bootstrap-server localhost:9400 --reset-offsets --group g \\
    --from-file offsets.csv --execute"""


def parser() -> CommandParser:
    """Return the parser of the tool's options."""
    found = CommandParser(
        prog="sharemesh-share-groups",
        description="List, describe, delete share groups and reset their offsets.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    found.add_argument("--version", action="version", version=sharemesh.__version__)
    found.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT[,…]")
    found.add_argument("--command-config", metavar="FILE")
    found.add_argument("--timeout", type=int, default=DEFAULT_TIMEOUT_MS, metavar="MS")
    action = found.add_mutually_exclusive_group(required=True)
    for name in ACTIONS:
        action.add_argument(_flag(name), action="store_true")
    found.add_argument("--group", action="append", metavar="G", help="repeatable")
    found.add_argument("--all-groups", action="store_true")
    found.add_argument("--members", action="store_true")
    found.add_argument("--offsets", action="store_true")
    found.add_argument("--state", nargs="?", const="", metavar="S[,S]")
    found.add_argument("--verbose", action="store_true")
    found.add_argument("--topic", action="append", metavar="T[:p,p]", help="repeatable")
    found.add_argument("--all-topics", action="store_true")
    found.add_argument("--dry-run", action="store_true")
    found.add_argument("--execute", action="store_true")
    found.add_argument("--export", action="store_true", help="print the new offsets as CSV")
    add_scenarios(found)
    found.add_argument("--from-file", metavar="FILE", help="CSV of topic,partition,offset")
    return found


def check(found: CommandParser, args: argparse.Namespace) -> str:
    """Return the action that is given; end with exit code 2 if options do not go together."""
    action = next(name for name in ACTIONS if getattr(args, name))
    _check_each(found, args, action)
    if action == "describe":
        _check_describe(found, args)
    elif action == "delete":
        if bool(args.group) == args.all_groups:
            found.error("--delete needs --group or --all-groups")
    elif action == "delete_offsets":
        _check_delete_offsets(found, args)
    elif action == "reset_offsets":
        _check_reset(found, args)
    return action


def _check_each(found: CommandParser, args: argparse.Namespace, action: str) -> None:
    if action == "delete" and (args.topic or args.all_topics):
        found.error("--delete takes no topic options; see --delete-offsets")
    for name in _OPTIONS:
        if name not in _TAKES[action] and getattr(args, name) not in (None, False):
            takers = [_flag(each) for each in ACTIONS if name in _TAKES[each]]
            found.error(f"{_flag(action)} takes no {_flag(name)}; it goes with {_or(takers)}")


def _check_describe(found: CommandParser, args: argparse.Namespace) -> None:
    if bool(args.group) == args.all_groups:
        found.error("--describe needs --group or --all-groups")
    if sum((args.members, args.offsets, args.state is not None)) > 1:
        found.error("--describe takes at most one of --members, --offsets and --state")
    if args.state:
        found.error("--state takes no value with --describe")


def _check_delete_offsets(found: CommandParser, args: argparse.Namespace) -> None:
    if not args.group or not args.topic:
        found.error("--delete-offsets needs --group and --topic")
    if len(args.group) > 1:
        found.error("--delete-offsets takes one --group; give the command once for each")


def _check_reset(found: CommandParser, args: argparse.Namespace) -> None:
    if not args.group or len(args.group) != 1:
        found.error("--reset-offsets needs one --group")
    if args.dry_run == args.execute:
        found.error("--reset-offsets needs exactly one of --dry-run and --execute")
    given = [name for name in SCENARIOS if getattr(args, name) not in (None, False)]
    if len(given) != 1:
        found.error(
            f"--reset-offsets needs exactly one of {_or([_flag(each) for each in SCENARIOS])}"
        )
    if given == ["from_file"]:
        if args.topic or args.all_topics:
            found.error("--from-file names the topics itself: leave out --topic and --all-topics")
    elif bool(args.topic) == args.all_topics:
        found.error("--reset-offsets needs exactly one of --topic and --all-topics")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return ended(lambda: _run(argv), prefix="Error")


def _run(argv: Sequence[str] | None) -> int:
    options = parser()
    args = options.parse_args(argv)
    action = check(options, args)
    settings: dict[str, Any] = {}
    if args.command_config:
        settings.update(from_file(Path(args.command_config)))
    settings["bootstrap.servers"] = args.bootstrap_server
    settings["default.api.timeout.ms"] = args.timeout
    actions = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "reset_offsets": _reset,
        "delete_offsets": _delete_offsets,
    }
    with AdminClient(settings) as admin:
        return actions[action](admin, args)


def _list(admin: AdminClient, args: argparse.Namespace) -> int:
    if args.state is None:
        for each in admin.list_groups():
            _say(each.group_id)
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
            _say(f"Error: Share group '{group_id}' does not exist.", file=sys.stderr)
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
        _say(f"Share group '{found.group_id}' has no active members.")
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
        _say(f"Share group '{group_id}' has no offset information.")
        return
    extra = ["LEADER-EPOCH"] if verbose else []
    columns = ["topic", "partition", *(["leader_epoch"] if verbose else []), "start_offset", "lag"]
    rows = [[group_id, *(row[name] for name in columns)] for row in offset_rows(offsets)]
    _table(["GROUP", "TOPIC", "PARTITION", *extra, "START-OFFSET", "LAG"], rows)


def _delete(admin: AdminClient, args: argparse.Namespace) -> int:
    groups = _groups(admin, args)
    problems = admin.delete_groups(groups)
    failures = {group: error for group, error in problems.items() if error is not None}
    if not failures:
        names = ", ".join(f"'{group}'" for group in groups)
        _say(f"Deletion of requested share groups ({names}) was successful.")
        return 0
    print("Error: Deletion of some share groups failed:")
    for group, error in failures.items():
        _say(f"* Share group '{group}' could not be deleted due to: {_why(group, error)}")
    done = [group for group in groups if group not in failures]
    if done:
        names = ", ".join(f"'{group}'" for group in done)
        print()
        _say(f"These share groups were deleted successfully: {names}")
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
        _say(f"Error: {where}: {failure}", file=sys.stderr)
    return int(bool(failures))


def _planned(
    admin: AdminClient, args: argparse.Namespace, group_id: str
) -> dict[TopicPartition, int]:
    if args.from_file is not None:
        return of_file(admin, offsets_of_file(args.from_file))
    scope = scope_of(admin, args.topic or (), of_group=group_id if args.all_topics else None)
    return plan(admin, group_id, scope, args)


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
    return any_failed(problems)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    print("\n".join(table_lines(head, rows)))


def _say(text: str, *, file: TextIO | None = None) -> None:
    """Print one line, whatever a group is called (BND-24); default is stdout."""
    print(escaped(text), file=file)
