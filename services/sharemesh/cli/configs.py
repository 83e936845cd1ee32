"""``sharemesh configs``: describe, alter, explain."""

import argparse
from collections.abc import Mapping
from typing import Any

from sharemesh.cli.config_catalogue import CatalogueEntry, catalogue
from sharemesh.cli.formatting import nearest
from sharemesh.cli.session import (
    CommandError,
    CommandSession,
    connection_before,
    connection_flags,
    session_of,
)
from sharemesh.cli.topics import pairs
from sharemesh.client import AdminClient
from sharemesh.client.errors import InvalidConfigError

_EXAMPLES = """examples:
  sharemesh configs describe --group billing
  sharemesh configs alter --group billing share.record.lock.duration.ms=60000
  sharemesh configs alter --topic orders --reset retention.ms
  sharemesh configs explain share.delivery.count.limit"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "configs",
        help="describe, alter and explain configurations",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    connection_before(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text, run in (
        ("describe", "show values and where they come from", _describe),
        ("alter", "set or reset values", _alter),
    ):
        action = actions.add_parser(name, parents=[connection_flags()], help=text)
        of = action.add_mutually_exclusive_group(required=True)
        of.add_argument("--group", metavar="G")
        of.add_argument("--topic", metavar="T")
        of.add_argument("--cluster", action="store_true")
        if name == "alter":
            action.add_argument("changes", nargs="*", metavar="NAME=VALUE")
            action.add_argument(
                "--reset", action="append", default=[], metavar="NAME", help="back to the default"
            )
            action.add_argument("--validate-only", action="store_true", help="check only")
        action.set_defaults(run=run)
    explain = actions.add_parser("explain", help="tell what a configuration does")
    explain.add_argument("name", metavar="NAME", nargs="?", help="none: list all")
    explain.add_argument("--json", action="store_true", help="print JSON for programs")
    explain.set_defaults(run=_explain)


def _describe(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        if args.group:
            found = admin.describe_group_configs(args.group)
        else:
            found = admin.describe_configs(args.topic)
    rows = [{"name": each.name, "value": each.value, "source": each.source} for each in found]
    columns = {"name": "NAME", "value": "VALUE", "source": "SOURCE"}
    session.show(rows, columns, empty="no configuration is set")
    return 0


def _alter(args: argparse.Namespace) -> int:
    session = session_of(args)
    changes: dict[str, str | None] = dict(pairs(args.changes, "change"))
    changes.update(dict.fromkeys(args.reset))
    if not changes:
        raise CommandError("nothing to change: give NAME=VALUE or --reset NAME", code=2)
    with AdminClient(session.admin_settings) as admin:
        try:
            if args.group:
                admin.alter_group_configs(args.group, changes, validate_only=args.validate_only)
            else:
                admin.alter_configs(changes, args.topic, validate_only=args.validate_only)
        except InvalidConfigError as error:
            raise CommandError(f"{error}{_hint(changes, str(error))}") from error
    _done(session, changes, validate_only=args.validate_only)
    return 0


def _hint(changes: Mapping[str, str | None], message: str) -> str:
    """Name the nearest known configuration, unless the cluster's own words did."""
    known = [entry.name for entry in catalogue()]
    unknown = [name for name in changes if name not in known]
    return nearest(unknown[0], known) if unknown and "did you mean" not in message else ""


def _done(
    session: CommandSession, changes: Mapping[str, str | None], *, validate_only: bool
) -> None:
    if session.as_json:
        session.show_json({"changes": dict(changes), "validate_only": validate_only})
    for name, value in changes.items():
        verb = "would be" if validate_only else "is"
        session.say(f"{name} {verb} {'the default' if value is None else value}")


def _explain(args: argparse.Namespace) -> int:
    args.bootstrap, args.command_config, args.timeout = "unused:1", None, 1
    session = session_of(args)
    if args.name is None:
        rows = [_entry_row(entry) for entry in catalogue()]
        columns = {"name": "NAME", "of": "OF", "default": "DEFAULT", "range": "RANGE"}
        session.show(rows, columns, empty="")
        return 0
    found = [entry for entry in catalogue() if entry.name == args.name]
    if not found:
        names = [entry.name for entry in catalogue()]
        raise CommandError(f"unknown configuration {args.name!r}{nearest(args.name, names)}")
    for entry in found:
        if session.as_json:
            session.show_json(_entry_row(entry))
        else:
            session.say(f"{entry.name} (of a {entry.of})")
            session.say(f"  {entry.what}")
            session.say(f"  default: {entry.default}; allowed: {entry.allowed}")
    return 0


def _entry_row(entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "of": entry.of,
        "default": entry.default,
        "range": entry.allowed,
        "what": entry.what,
    }
