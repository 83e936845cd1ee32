"""All commands of ``sharemesh``, how each ends, and the script by which a shell completes them."""

import argparse
from collections.abc import Sequence

import sharemesh
from sharemesh.cli import (
    acls,
    audit,
    cluster,
    configs,
    consume,
    explain,
    groups,
    processes,
    produce,
    quotas,
    shards,
    state_log,
    topics,
    transactions,
    users,
)
from sharemesh.cli.command_parser import CommandParser, Commands
from sharemesh.cli.session import CommandError, connection_before, ended, origin_of_address
from sharemesh.client.errors import ConnectionFailedError, SharemeshError

_MODULES = (
    processes,
    topics,
    transactions,
    produce,
    consume,
    groups,
    configs,
    acls,
    quotas,
    users,
    cluster,
    shards,
    explain,
    audit,
    state_log,
)
_EXAMPLES = """examples:
  sharemesh up
  sharemesh topics create orders --partitions 4
  sharemesh produce orders orders.jsonl --key id
  sharemesh consume orders --group billing --from-beginning
  sharemesh groups describe billing

exit codes: 0 done, 1 failed (the reason is on stderr), 2 wrong usage, 130 interrupted"""
SHELLS = ("bash", "zsh")

_FILES = {"FILE", "SEGMENT"}
_DIRECTORIES = {"DIRECTORY", "DATA-DIRECTORY"}
_COMPLETION_EXAMPLES = """examples:
  sharemesh completion bash > ~/.local/share/bash-completion/completions/sharemesh
  sharemesh completion zsh > ~/.zfunc/_sharemesh

bash reads that directory by itself, if the package bash-completion is installed; zsh reads
~/.zfunc with fpath+=(~/.zfunc) before compinit in ~/.zshrc. The script is that of this version:
make it again after an upgrade."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return ended(lambda: _run(argv), prefix="sharemesh")


def _run(argv: Sequence[str] | None) -> int:
    args = command_line().parse_args(argv)
    try:
        return int(args.run(args))
    except SharemeshError as error:
        origin = origin_of_address(args) if isinstance(error, ConnectionFailedError) else ""
        code = 2 if isinstance(error, ValueError) else 1
        raise CommandError(f"{error}{origin}", code=code) from error


def command_line() -> CommandParser:
    """Return the parser of all commands."""
    parser = CommandParser(
        prog="sharemesh",
        description="Share groups (queues) over a partitioned log.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"sharemesh {sharemesh.__version__}")
    connection_before(parser)
    commands = parser.commands(dest="command", required=True, metavar="COMMAND")
    for each in _MODULES:
        each.register(commands)
    _register_completion(commands, parser)
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


def _register_completion(commands: Commands, program: CommandParser) -> None:
    """Add the command that prints a completion script for all commands of ``program``."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        epilog=_COMPLETION_EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_complete, program=program)


def _complete(args: argparse.Namespace) -> int:
    """Print the script; return the exit code."""
    import shtab

    _name_files(args.program, shtab.FILE, shtab.DIRECTORY)
    print(shtab.complete(args.program, shell=args.shell))
    return 0


def _name_files(parser: CommandParser, file: object, directory: object) -> None:
    """Let the arguments that are files or directories be completed as such."""
    for action in parser._actions:
        if action.metavar in _FILES:
            action.complete = file  # type: ignore[attr-defined] # shtab looks for it
        elif action.metavar in _DIRECTORIES:
            action.complete = directory  # type: ignore[attr-defined]
    for below in parser.subcommands.values():
        _name_files(below, file, directory)
