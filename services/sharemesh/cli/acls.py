"""``sharemesh acls``: add, list, remove access rules."""

import argparse
from typing import Any

from sharemesh.cli.session import (
    CommandError,
    CommandSession,
    connection_before,
    connection_flags,
    session_of,
)
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

_COLUMNS = {
    "principal": "PRINCIPAL",
    "permission": "PERMISSION",
    "operation": "OPERATION",
    "resource_type": "RESOURCE",
    "name": "NAME",
    "pattern": "PATTERN",
}


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "acls",
        help="add, list and remove access rules",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    connection_before(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text, run, needed in (
        ("add", "allow or deny something", _add, True),
        ("list", "show rules (no options: all)", _list, False),
        ("remove", "remove every rule that fits the options", _remove, False),
    ):
        action = actions.add_parser(name, parents=[connection_flags()], help=text)
        action.add_argument("--principal", required=needed, metavar="User:NAME")
        action.add_argument("--operation", required=needed, choices=OPERATIONS)
        on = action.add_mutually_exclusive_group(required=needed)
        on.add_argument("--topic", metavar="T")
        on.add_argument("--group", metavar="G")
        on.add_argument("--cluster", action="store_true")
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
        action.set_defaults(run=run)


def _add(args: argparse.Namespace) -> int:
    session = session_of(args)
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
    with AdminClient(session.admin_settings) as admin:
        problem = admin.create_acls([binding])[binding]
    if problem is not None:
        raise problem
    session.say(
        f"{binding.permission} {binding.principal} {binding.operation} {resource_type} {name}"
    )
    if session.as_json:
        session.show_json(_row(binding))
    return 0


def _list(args: argparse.Namespace) -> int:
    session = session_of(args)
    with AdminClient(session.admin_settings) as admin:
        found = admin.describe_acls(_filter(args))
    _show(session, found, "no access rule fits")
    return 0


def _remove(args: argparse.Namespace) -> int:
    session = session_of(args)
    wanted = _filter(args)
    if wanted == AclBindingFilter() and not args.all:
        raise CommandError("this would remove every rule: name some, or give --all", code=2)
    with AdminClient(session.admin_settings) as admin:
        removed = admin.delete_acls(wanted)
    if removed:
        session.say("removed:")
    _show(session, removed, "no access rule fits; nothing was removed")
    return 0


def _show(session: CommandSession, bindings: list[AclBinding], empty: str) -> None:
    session.show([_row(each) for each in bindings], _COLUMNS, empty=empty)


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
    return ("group", args.group) if args.group is not None else (None, None)
