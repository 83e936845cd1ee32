"""``sharemesh configs``: describe, alter, explain."""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import nearest
from sharemesh.cli.session import (
    CommandError,
    CommandSession,
    actions_of,
    add_admin_action,
    session_of,
)
from sharemesh.cli.topics import pairs
from sharemesh.client import AdminClient
from sharemesh.client.config import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    REJECTED_BY_SHARE_CONSUMERS,
    Setting,
    instead_of,
)
from sharemesh.client.errors import InvalidConfigError
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.definition import INT32_MAX, ConfigDefinition
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS
from sharemesh.domain.topics import INT64_MAX, TOPIC_CONFIGS
from sharemesh.serve.settings.settings import ServeSettings, UpSettings, names_of
from sharemesh.serve.settings.sources import ENVIRONMENT_PREFIX

_EXAMPLES = """examples:
  sharemesh configs describe --group billing
  sharemesh configs alter --group billing share.record.lock.duration.ms=60000
  sharemesh configs alter --topic orders --reset retention.ms
  sharemesh configs explain share.delivery.count.limit"""
_UNLIMITED = (None, INT32_MAX, INT64_MAX)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One name: what it belongs to, default, allowed values (bounds included), what it does."""

    name: str
    of: str
    default: str
    range: str
    what: str


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "configs", help="describe, alter and explain configurations", epilog=_EXAMPLES
        )
    )
    for name, text, run in (
        ("describe", "show values and where they come from", _describe),
        ("alter", "set or reset values", _alter),
    ):
        action = add_admin_action(actions, name, run, help=text)
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
    explain = actions.add_parser("explain", help="say what a configuration does")
    explain.add_argument("name", metavar="NAME", nargs="?", help="none: list all")
    explain.add_argument("--json", action="store_true", help="print JSON for programs")
    explain.set_defaults(run=_explain)


def _describe(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    if args.group:
        found = admin.describe_group_configs(args.group)
    else:
        found = admin.describe_configs(args.topic)
    rows = [{"name": each.name, "value": each.value, "source": each.source} for each in found]
    session.show(rows, "name, value, source", empty="no configuration is set")
    return 0


def _alter(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    changes: dict[str, str | None] = dict(pairs(args.changes, "change"))
    changes.update(dict.fromkeys(args.reset))
    if not changes:
        raise CommandError("nothing to change: give NAME=VALUE or --reset NAME", code=2)
    try:
        if args.group:
            admin.alter_group_configs(args.group, changes, validate_only=args.validate_only)
        else:
            admin.alter_configs(changes, args.topic, validate_only=args.validate_only)
    except InvalidConfigError as error:
        raise CommandError(f"{error}{_hint(changes, str(error))}") from error
    if session.as_json:
        session.show_json({"changes": changes, "validate_only": args.validate_only})
    verb = "would be" if args.validate_only else "is"
    for name, value in changes.items():
        session.say(f"{name} {verb} {'the default' if value is None else value}")
    return 0


def _hint(changes: Mapping[str, str | None], message: str) -> str:
    """Name the nearest known configuration, unless the cluster's own words did."""
    known = [entry.name for entry in catalogue()]
    unknown = [name for name in changes if name not in known]
    return nearest(unknown[0], known) if unknown and "did you mean" not in message else ""


def _explain(args: argparse.Namespace) -> int:
    args.bootstrap, args.command_config, args.timeout = "unused:1", None, 1
    args.token_file = None
    session = session_of(args)
    entries = catalogue()
    if args.name is None:
        session.show([asdict(each) for each in entries], "name, of, default, range", empty="")
        return 0
    found = [entry for entry in entries if entry.name == args.name]
    if not found:
        hint = nearest(args.name, [entry.name for entry in entries])
        raise CommandError(f"unknown configuration {args.name!r}{hint}")
    for entry in found:
        if session.as_json:
            session.show_json(asdict(entry))
        else:
            session.say(f"{entry.name} (of a {entry.of})")
            session.say(f"  {entry.what}")
            session.say(f"  default: {entry.default}; allowed: {entry.range}")
    return 0


def catalogue() -> list[CatalogueEntry]:
    """Return all settings, those of groups first."""
    return [
        *_defined(GROUP_CONFIGS, "group"),
        *_defined(CLUSTER_CONFIGS, "cluster"),
        *_defined(TOPIC_CONFIGS, "topic"),
        *_of_client(CONSUMER_SETTINGS, "share consumer"),
        *_of_client(PRODUCER_SETTINGS, "producer"),
        *_of_client(ADMIN_SETTINGS, "admin client"),
        *_of_process(ServeSettings, "process"),
        *_of_process(UpSettings, "local cluster"),
        *(
            CatalogueEntry(
                name, "share consumer", "none", "nothing", f"refused; {instead_of(name)}"
            )
            for name in REJECTED_BY_SHARE_CONSUMERS
        ),
    ]


def _defined(definitions: Mapping[str, ConfigDefinition], of: str) -> Iterable[CatalogueEntry]:
    for each in definitions.values():
        if each.unsupported:
            yield CatalogueEntry(each.name, of, "none", "nothing", each.unsupported)
            continue
        default = each.default or (f"the cluster's {each.fallback}" if each.fallback else "none")
        yield CatalogueEntry(each.name, of, default, _allowed(each), each.documentation)


def _allowed(each: ConfigDefinition) -> str:
    if each.choices:
        return ", ".join(each.choices)
    if each.kind.value != "integer":
        return f"a {each.kind.value}"
    if each.at_least:
        return f"{each.minimum} or more, from {each.at_least} to {each.at_most}"
    return _bounds(each.minimum, each.maximum)


def _bounds(least: int, most: int | None) -> str:
    return f"{least} or more" if most in _UNLIMITED else f"{least} to {most}"


def _of_client(settings: tuple[Setting, ...], of: str) -> Iterable[CatalogueEntry]:
    for each in settings:
        default = "none" if each.default in (None, "") else str(each.default)
        bounds = "any" if each.least is None else _bounds(each.least, each.most)
        yield CatalogueEntry(each.name, of, default, ", ".join(each.choices) or bounds, each.what)


def _of_process(
    record: type[ServeSettings] | type[UpSettings], of: str
) -> Iterable[CatalogueEntry]:
    for name in names_of(record):
        each = record.__dataclass_fields__[name]
        about = each.metadata
        bounds = "any"
        if about["minimum"] is not None:
            bounds = _bounds(about["minimum"], about["maximum"])
        default = "none" if each.default in (None, "", ()) else str(each.default)
        what = about["documentation"]
        if record is ServeSettings:
            what += f" (variable {ENVIRONMENT_PREFIX}{name.upper()})"
        yield CatalogueEntry(name, of, default, ", ".join(about["choices"]) or bounds, what)
