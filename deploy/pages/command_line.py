"""docs/reference/cli.md: commands and options, from their parsers."""

import argparse
import re
from collections.abc import Iterator

from deploy.pages import REFERENCE
from sharemesh.cli import share_groups_command
from sharemesh.cli.commands import command_line
from sharemesh_spark.options import parser as spark_parser

PAGE = REFERENCE / "cli.md"
PROGRAMS = (command_line, share_groups_command.parser, spark_parser)
COMMON = "connection"
"""The group of options that most commands have: the page shows it once."""
HEAD = """# Command line

This page is made from the parsers of the commands: `make docs` writes it, and a test fails when it
does not fit. `--help` says the same in the terminal; `sharemesh completion bash` and `zsh` print
scripts that complete commands and options. [Exit codes](exit-codes.md) are the same for all.

## Connection

Every command that asks the cluster takes these options.

"""


def page() -> str:
    """Return the whole page."""
    parsers = [program() for program in PROGRAMS]
    parts = [HEAD + "\n".join(_options(_common(parsers[0])))]
    for parser in parsers:
        parts += [_section(each, mark) for each, mark in _commands(parser)]
    return "\n\n".join(parts) + "\n"


def _commands(
    parser: argparse.ArgumentParser, mark: str = "##"
) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    yield parser, mark
    for below in _choices(parser).values():
        yield from _commands(below, "###")


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the line of help of each command, as its program lists it."""
    return {
        f"{parser.prog} {choice.dest}": choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }


def _section(parser: argparse.ArgumentParser, mark: str) -> str:
    lines = [f"{mark} {parser.prog}", ""]
    if parser.description:
        lines += [_escaped(parser.description), ""]
    below = _helps(parser)
    if below:
        lines += ["| command | does |", "|---|---|"]
        for name, does in below.items():
            lines.append(f"| [{name}](#{name.replace(' ', '-')}) | {_escaped(does)} |")
        lines.append("")
    else:
        lines += ["```text", _usage(parser), "```", ""]
    lines += _options(_own(parser))
    examples = [each.strip() for each in (parser.epilog or "").splitlines() if each[:3] == "  s"]
    if examples and not below:
        lines += ["", "```sh", *examples, "```"]
    return "\n".join(lines).rstrip()


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return what a command needs; argparse breaks its own usage otherwise in each Python."""
    words = [parser.prog, "[OPTIONS]"]
    either = [each for each in parser._mutually_exclusive_groups if each.required]
    for group in either:
        words.append(f"({' | '.join(_written(each) for each in group._group_actions)})")
    grouped = [each for group in either for each in group._group_actions]
    actions = [each for each in parser._actions if each not in grouped]
    words += [_written(each) for each in actions if each.option_strings and each.required]
    words += [_positional(each) for each in actions if not each.option_strings]
    return " ".join(words)


def _positional(action: argparse.Action) -> str:
    name = _written(action)
    return {"+": f"{name} [{name} ...]", "*": f"[{name} ...]", "?": f"[{name}]"}.get(
        str(action.nargs), name
    )


def _own(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for group in parser._action_groups
        if group.title != COMMON
        for action in group._group_actions
    ]


def _common(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    for each, _ in _commands(parser):
        for group in each._action_groups:
            if group.title == COMMON and not _choices(each):
                return group._group_actions
    raise LookupError(COMMON)


def _options(actions: list[argparse.Action]) -> list[str]:
    rows = []
    for action in actions:
        hidden = action.help == argparse.SUPPRESS or "--help" in action.option_strings
        if hidden or isinstance(action, argparse._SubParsersAction):
            continue
        says = (action.help or "") % {"default": action.default, "prog": ""}
        rows.append(f"| `{_written(action)}` | {_escaped(says)} |")
    return ["| option | what it is |", "|---|---|", *rows] if rows else []


def _written(action: argparse.Action) -> str:
    """Return an option as one writes it; a bar would end the cell of the table."""
    if isinstance(action.metavar, tuple):
        value = " ".join(action.metavar)
    elif action.choices is not None and action.metavar is None:
        value = "{" + ",".join(str(each) for each in action.choices) + "}"
    else:
        value = action.metavar or action.dest.upper()
    if not action.option_strings:
        return value
    return action.option_strings[-1] + (f" {value}" if action.nargs != 0 else "")


def _escaped(text: str) -> str:
    """Return one line in which nothing is markup."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", " ".join(text.split()))
