"""``sharemesh acls``: add, list, remove access rules."""

import argparse

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.session import CommandError, CommandSession, actions_of, add_admin_action
from sharemesh.client import AdminClient
from sharemesh.client.acls import CLUSTER_NAME, OPERATIONS, AclBinding, AclBindingFilter

_EXAMPLES = """examples:
  sharemesh acls add --principal User:alice --operation read --topic orders
  sharemesh acls add --principal User:alice --operation read --group billing- --prefixed
  sharemesh acls add --principal User:mallory --operation all --topic '*' --deny
  sharemesh acls list --principal User:alice
  sharemesh acls remove --principal User:alice --topic orders

A consumer needs read on its group and on its topics, a producer write on its topics.
The cluster's processes must run with authorizer = acl."""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser("acls", help="add, list and remove access rules", epilog=_EXAMPLES)
    )
    for name, text, run, needed in (
        ("add", "allow or deny something", _add, True),
        ("list", "show rules (no options: all)", _list, False),
        ("remove", "remove every rule that fits the options", _remove, False),
    ):
        action = add_admin_action(actions, name, run, help=text)
        action.add_argument("--principal", required=needed, metavar="User:NAME")
        action.add_argument("--operation", required=needed, choices=OPERATIONS)
        on = action.add_mutually_exclusive_group(required=needed)
        on.add_argument("--topic", metavar="T")
        on.add_argument("--group", metavar="G")
        on.add_argument("--cluster", action="store_true")
        on.add_argument("--transactional-id", metavar="ID")
        action.add_argument(
            "--prefixed",
            action="store_true",
            default=False if needed else None,
            help="all whose names begin so",
        )
        permission = action.add_mutually_exclusive_group()
        for word in ("allow", "deny"):
            permission.add_argument(
                f"--{word}", dest="permission", action="store_const", const=word
            )
        if name == "remove":
            action.add_argument("--all", action="store_true", help="without other options: all")


def _add(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    resource_type, name = _resource(args)
    assert resource_type is not None  # argparse asks for one
    assert name is not None
    binding = AclBinding(
        args.principal,
        args.operation,
        resource_type,
        name,
        args.prefixed,
        args.permission or "allow",
    )
    problem = admin.create_acls([binding])[binding]
    if problem is not None:
        raise problem
    session.say(
        f"{binding.permission} {binding.principal} {binding.operation} {resource_type} {name}"
    )
    if session.as_json:
        session.show_json(_row(binding))
    return 0


def _list(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    _show(session, admin.describe_acls(_filter(args)), "no access rule fits")
    return 0


def _remove(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    wanted = _filter(args)
    if wanted == AclBindingFilter() and not args.all:
        raise CommandError("this would remove every rule: name some, or give --all", code=2)
    removed = admin.delete_acls(wanted)
    if removed:
        session.say("removed:")
    _show(session, removed, "no access rule fits; nothing was removed")
    return 0


def _show(session: CommandSession, bindings: list[AclBinding], empty: str) -> None:
    columns = "principal, permission, operation, resource_type:RESOURCE, name, pattern"
    session.show([_row(each) for each in bindings], columns, empty=empty)


def _row(binding: AclBinding) -> dict[str, object]:
    return {
        "principal": binding.principal,
        "permission": binding.permission,
        "operation": binding.operation,
        "resource_type": binding.resource_type,
        "name": binding.name,
        "pattern": "prefixed" if binding.prefixed else "literal",
    }


def _filter(args: argparse.Namespace) -> AclBindingFilter:
    resource_type, name = _resource(args)
    return AclBindingFilter(
        args.principal, args.operation, resource_type, name, args.prefixed, args.permission
    )


def _resource(args: argparse.Namespace) -> tuple[str | None, str | None]:
    if args.cluster:
        return "cluster", CLUSTER_NAME
    if args.topic is not None:
        return "topic", args.topic
    if args.transactional_id is not None:
        return "transactional_id", args.transactional_id
    return ("group", args.group) if args.group is not None else (None, None)
