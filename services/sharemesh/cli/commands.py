"""All commands of ``sharemesh``, and how each ends."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import sharemesh
from sharemesh.cli import (
    acls,
    cluster,
    completion,
    configs,
    consume,
    explain,
    groups,
    produce,
    state_log,
    topics,
)
from sharemesh.cli.command_parser import CommandParser
from sharemesh.cli.entry import INTERRUPTED
from sharemesh.cli.session import CommandError, connection_before, origin_of_address
from sharemesh.client.errors import ConnectionFailedError, SharemeshError

_PROCESS_COMMANDS = {
    "up": ("sharemesh.cli.up", "run a whole cluster on this machine", "local"),
    "serve": ("sharemesh.cli.serve", "run one role process", "server"),
}
_EXAMPLES = """examples:
  sharemesh up
  sharemesh topics create orders --partitions 4
  sharemesh produce orders orders.jsonl --key id
  sharemesh consume orders --group billing --from-beginning
  sharemesh groups describe billing

exit codes: 0 done, 1 failed (the reason is on stderr), 2 wrong usage, 130 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        args = command_line().parse_args(argv)
        return int(args.run(args))
    except CommandError as error:
        print(f"sharemesh: {error}", file=sys.stderr)
        return error.code
    except ConnectionFailedError as error:
        print(f"sharemesh: {error}{origin_of_address(args)}", file=sys.stderr)
        return 1
    except SharemeshError as error:
        print(f"sharemesh: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def command_line() -> CommandParser:
    """Return the parser of all commands."""
    parser = CommandParser(
        prog="sharemesh",
        description="Share groups (queues) over a partitioned log.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sharemesh {sharemesh.__version__}")
    connection_before(parser)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, text, extra) in _PROCESS_COMMANDS.items():
        _register_process_command(subparsers, name, module, text, extra)
    for each in (topics, produce, consume, groups, configs, acls, cluster, explain, state_log):
        each.register(subparsers)
    completion.register(subparsers, parser)
    _share_examples(parser)
    return parser


def _share_examples(parser: argparse.ArgumentParser) -> None:
    """Give each action without examples of its own those of its command that show it."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for below in action.choices.values():
            _share_examples(below)
            if below.epilog is None and parser.epilog is not None:
                lines = [
                    each
                    for each in parser.epilog.splitlines()
                    if each.startswith(f"  {below.prog}")
                ]
                below.epilog = "\n".join(["examples:", *lines])
                below.formatter_class = argparse.RawDescriptionHelpFormatter


def _register_process_command(
    subparsers: "argparse._SubParsersAction[Any]", name: str, module: str, text: str, extra: str
) -> None:
    """Add a command of the server side; a client-only install says what it needs."""
    try:
        importlib.import_module(module).register(subparsers)
    except ImportError as missing:
        needed = f"'sharemesh {name}' needs more: pip install 'sharemesh[{extra}]' ({missing})"

        def run(_: argparse.Namespace) -> int:
            raise CommandError(needed)

        parser = subparsers.add_parser(name, help=f"{text} (needs sharemesh[{extra}])")
        parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        parser.set_defaults(run=run)
