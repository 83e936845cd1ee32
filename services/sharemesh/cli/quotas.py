"""``sharemesh quotas``: list, describe, alter."""

import argparse
from collections.abc import Iterator

from sharemesh.cli.command_parser import CommandParser, Commands
from sharemesh.cli.session import CommandError, CommandSession, actions_of, add_admin_action
from sharemesh.cli.topics import pairs
from sharemesh.client import AdminClient
from sharemesh.client.quotas import EntityType, QuotaEntity, QuotaName, words_of
from sharemesh.domain.setting_values import SettingValueError, written_decimal

_EXAMPLES = """examples:
  sharemesh quotas list
  sharemesh quotas describe --user User:jane
  sharemesh quotas alter --user User:jane --set producer_byte_rate=1000000 --set streams=50
  sharemesh quotas alter --user-default --unset consumer_byte_rate
  sharemesh quotas alter --group billing --set record_rate=500"""
_OF_USERS = [each.value for each in QuotaName if each.entity_type is EntityType.USER]
_OF_GROUPS = [each.value for each in QuotaName if each.entity_type is EntityType.GROUP]
_NAMES = f"""quotas of users: {", ".join(_OF_USERS)}
quotas of groups: {", ".join(_OF_GROUPS)}

Each holds at one process. Who has no value of their own is bound by the default, if it is set."""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "quotas",
            help="list, describe and change how much principals and groups may use",
            epilog=f"{_EXAMPLES}\n\n{_NAMES}",
        )
    )
    add_admin_action(actions, "list", _list, help="show all stored quotas")
    describe = add_admin_action(
        actions, "describe", _describe, help="show what binds a principal or group, and why"
    )
    _add_entity(describe)
    alter = add_admin_action(actions, "alter", _alter, help="set or remove quotas, all or none")
    _add_entity(alter)
    alter.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="store a quota"
    )
    alter.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="remove a quota"
    )
    alter.add_argument("--validate-only", action="store_true", help="check only")


def _add_entity(action: CommandParser) -> None:
    of = action.add_mutually_exclusive_group(required=True)
    of.add_argument("--user", metavar="User:NAME", help="a principal")
    of.add_argument("--user-default", action="store_true", help="all other principals")
    of.add_argument("--group", metavar="G")
    of.add_argument("--group-default", action="store_true", help="all other groups")


def _list(session: CommandSession, admin: AdminClient, _args: argparse.Namespace) -> int:
    rows = [
        _row(entity, name, value)
        for entity, values in admin.describe_client_quotas().items()
        for name, value in values.items()
    ]
    session.show(rows, "entity, quota, value", empty="no quota is stored: nothing is bounded")
    return 0


def _describe(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    entity = _entity(args)
    of_all = QuotaEntity(entity.entity_type, None)
    found = {each: admin.describe_client_quotas(each).get(each, {}) for each in (entity, of_all)}
    rows = list(_in_force(entity, found))
    session.show(rows, "quota, value, source", empty="")
    return 0


def _alter(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    entity = _entity(args)
    changes: dict[str, float | None] = {
        name: _number(name, text) for name, text in pairs(args.set, "--set").items()
    }
    twice = [name for name in args.unset if name in changes]
    if twice:
        raise CommandError(f"quota {twice[0]} is both set and unset: give one of them", code=2)
    changes.update(dict.fromkeys(args.unset))
    if not changes:
        raise CommandError("nothing to change: give --set NAME=VALUE or --unset NAME", code=2)
    problem = admin.alter_client_quotas({entity: changes}, validate_only=args.validate_only)[entity]
    if problem is not None:
        raise problem
    if session.as_json:
        session.show_json({"changes": changes, "validate_only": args.validate_only})
    verb = "would be" if args.validate_only else "is"
    for name, value in changes.items():
        said = "not set" if value is None else _plain(value)
        session.say(f"{words_of(entity)}: {name} {verb} {said}")
    return 0


def _entity(args: argparse.Namespace) -> QuotaEntity:
    if args.user is not None or args.user_default:
        return QuotaEntity(EntityType.USER, args.user)
    return QuotaEntity(EntityType.GROUP, args.group)


def _number(name: str, text: str) -> float:
    try:
        return written_decimal(text)
    except SettingValueError as error:
        raise CommandError(f"--set {name}={text}: {text!r} {error}", code=2) from None


def _in_force(
    entity: QuotaEntity, found: dict[QuotaEntity, dict[str, float]]
) -> Iterator[dict[str, object]]:
    """Yield a row for each quota of this type of entity, also if nothing bounds it."""
    of_all = QuotaEntity(entity.entity_type, None)
    known = [each.value for each in QuotaName if each.entity_type is entity.entity_type]
    names = dict.fromkeys([*known, *found[entity], *found[of_all]])
    for name in names:
        source = next((each for each in (entity, of_all) if name in found[each]), None)
        value = None if source is None else found[source][name]
        words = "not bounded" if source is None else words_of(source)
        yield {**_row(entity, name, value), "source": words}


def _row(entity: QuotaEntity, name: str, value: float | None) -> dict[str, object]:
    return {
        "entity": words_of(entity),
        "entity_type": entity.entity_type.value,
        "name": entity.name,
        "quota": name,
        "value": None if value is None else _plain(value),
    }


def _plain(value: float) -> float | int:
    """Return a whole number without a point."""
    return int(value) if value.is_integer() else value
