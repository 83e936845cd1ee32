"""``sharemesh users``: create, list, delete users with passwords."""

import argparse
import getpass
import sys
from pathlib import Path

from sharemesh.cli.command_parser import Commands
from sharemesh.cli.session import CommandError, CommandSession, actions_of, add_admin_action
from sharemesh.client import AdminClient
from sharemesh.client.users import DEFAULT_ITERATIONS, PASSWORD_CHARS_MAX, SCRAM_MECHANISMS

_EXAMPLES = """examples:
  sharemesh users create alice
  sharemesh users create billing --password-file /run/secrets/billing
  sharemesh users list
  sharemesh users delete alice

With them clients of Kafka log in where kafka_listener_sasl_mechanisms is set; their principal is
User:NAME, which access rules and quotas name. The cluster keeps salted hashes of a password, and
never sees it."""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    actions = actions_of(
        commands.add_parser(
            "users", help="create, list and delete users with passwords", epilog=_EXAMPLES
        )
    )
    create = add_admin_action(actions, "create", _create, help="give a user a password")
    create.add_argument("name", metavar="NAME")
    create.add_argument(
        "--password-file",
        metavar="FILE",
        help="its first line is the password; -: standard input (default: you are asked for it)",
    )
    create.add_argument(
        "--mechanism",
        action="append",
        choices=SCRAM_MECHANISMS,
        help="for which it is good (default: all of them; PLAIN needs one of them)",
    )
    create.add_argument("--iterations", type=int, default=DEFAULT_ITERATIONS, metavar="N")
    create.add_argument("--replace", action="store_true", help="also if the user has a password")
    add_admin_action(actions, "list", _list, help="show users and their mechanisms")
    delete = add_admin_action(actions, "delete", _delete, help="take a user's passwords away")
    delete.add_argument("name", metavar="NAME")


def _create(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    if not args.replace and admin.describe_user_scram_credentials([args.name]):
        raise CommandError(
            f"user {args.name} has a password: give --replace to set another one", code=1
        )
    password = _password(args.password_file)
    wanted = args.mechanism or SCRAM_MECHANISMS
    changes = {args.name: dict.fromkeys(wanted, password)}
    problem = admin.alter_user_scram_credentials(changes, iterations=args.iterations)[args.name]
    if problem is not None:
        raise problem
    session.say(f"User:{args.name} has a password for {', '.join(wanted)}")
    if session.as_json:
        session.show_json({"user": args.name, "mechanisms": list(wanted)})
    return 0


def _list(session: CommandSession, admin: AdminClient, _args: argparse.Namespace) -> int:
    rows = [
        {"user": name, "mechanism": mechanism, "iterations": iterations}
        for name, found in admin.describe_user_scram_credentials().items()
        for mechanism, iterations in found.items()
    ]
    session.show(rows, "user, mechanism, iterations", empty="no user has a password")
    return 0


def _delete(session: CommandSession, admin: AdminClient, args: argparse.Namespace) -> int:
    found = admin.describe_user_scram_credentials([args.name]).get(args.name)
    if not found:
        raise CommandError(f"user {args.name} has no password: `sharemesh users list` shows all")
    changes = {args.name: dict.fromkeys(found)}
    problem = admin.alter_user_scram_credentials(changes)[args.name]
    if problem is not None:
        raise problem
    session.say(f"User:{args.name} cannot log in any more; connections that are open stay so")
    if session.as_json:
        session.show_json({"user": args.name, "mechanisms": []})
    return 0


def _password(file: str | None) -> str:
    """Return a password that no command line and no history shows."""
    if file is None:
        if not sys.stdin.isatty():
            raise CommandError("no terminal to ask on: give --password-file FILE, or -", code=2)
        password = getpass.getpass("password: ")
        if getpass.getpass("again: ") != password:
            raise CommandError("the two passwords differ", code=2)
    elif file == "-":
        password = sys.stdin.readline()
    else:
        try:
            password = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"--password-file {file} cannot be read: {error}", code=2) from None
    password = (password.splitlines() or [""])[0]
    if not 0 < len(password) <= PASSWORD_CHARS_MAX:
        raise CommandError(f"a password has 1 to {PASSWORD_CHARS_MAX} characters", code=2)
    return password
