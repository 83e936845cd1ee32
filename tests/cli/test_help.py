"""Every command tells what it does, with examples; all but ``serve`` print JSON for programs."""

import argparse
import re

import pytest

from sharemesh.cli.commands import command_line


def commands(parser: argparse.ArgumentParser):
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for each in action.choices.values():
            yield from commands(each)


ALL = list(commands(command_line()))


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.prog)
def test_help_has_examples_of_the_command(command):
    text = command.format_help()
    *_, shown = re.split(r"(example\w*:)\n", text, maxsplit=1)
    assert f"  {command.prog}" in shown


@pytest.mark.parametrize(
    "command",
    [
        each
        for each in ALL
        if each.prog not in ("sharemesh serve", "sharemesh completion")  # a log, a script
    ],
    ids=lambda command: command.prog,
)
def test_output_can_be_json(command):
    assert "--json" in command.format_help()
