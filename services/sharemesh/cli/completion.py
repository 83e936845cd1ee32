"""``sharemesh completion``: a script that lets a shell complete commands and options."""

import argparse
from typing import Any

from sharemesh.cli.command_parser import CommandParser

SHELLS = ("bash", "zsh")

_FILES = {"FILE", "SEGMENT"}
_DIRECTORIES = {"DIRECTORY", "DATA-DIRECTORY"}
_EXAMPLES = """examples:
  sharemesh completion bash > ~/.local/share/bash-completion/completions/sharemesh
  sharemesh completion zsh > ~/.zfunc/_sharemesh

bash reads that directory by itself, if the package bash-completion is installed; zsh reads
~/.zfunc with fpath+=(~/.zfunc) before compinit in ~/.zshrc. The script is that of this version:
make it anew after an upgrade."""


def register(subparsers: "argparse._SubParsersAction[Any]", program: CommandParser) -> None:
    """Add the command to the command line, for all commands of ``program``."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run, program=program)


def run(args: argparse.Namespace) -> int:
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
