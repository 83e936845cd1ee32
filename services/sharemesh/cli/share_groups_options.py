"""The options of ``sharemesh-share-groups``, and which of them go together (spec CLI-1 to 7)."""

import argparse
from collections.abc import Mapping, Sequence

import sharemesh
from sharemesh.cli.command_parser import CommandParser

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
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    found.add_argument("--to-earliest", action="store_true")
    found.add_argument("--to-latest", action="store_true")
    found.add_argument("--to-current", action="store_true")
    found.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
    found.add_argument("--to-offset", type=int, metavar="N")
    found.add_argument("--shift-by", type=int, metavar="N", help="from where it stands; may be < 0")
    found.add_argument("--from-file", metavar="FILE", help="CSV of topic,partition,offset")
    return found


def check(found: CommandParser, args: argparse.Namespace) -> None:
    """End with exit code 2 if options do not go together."""
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
