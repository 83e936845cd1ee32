"""Every command line in README and docs is one that the program takes."""

import re
import shlex
from pathlib import Path

import pytest

from sharemesh.cli import share_groups_command
from sharemesh.cli.commands import command_line
from sharemesh_spark.options import parser as spark_parser

ROOT = Path(__file__).parents[2]
MADE_FROM_THE_PARSERS = ROOT / "docs" / "reference" / "cli.md"
PAGES = [
    *(ROOT / "README.md", ROOT / "ARCHITECTURE.md"),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page != MADE_FROM_THE_PARSERS),
]
PARSERS = {
    "sharemesh": command_line,
    "sharemesh-share-groups": share_groups_command.parser,
    "sharemesh-spark": spark_parser,
}
NUMBERS = {"OFFSET", "N", "S", "MS", "PORT"}
"""Placeholders that stand for a number."""

BEGIN = re.compile(rf"\s*(?:{'|'.join(PARSERS)})\s+[^\s|]")


def command_lines(page: Path) -> list[str]:
    """Return the command lines of a page: in fenced code, and in the text between backquotes."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    shell = [part for block in fenced for line in block.splitlines() for part in line.split(" | ")]
    inline = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", prose)]
    return [each.strip().strip("'") for each in (*shell, *inline) if BEGIN.match(each)]


ALL = [(page.relative_to(ROOT).as_posix(), line) for page in PAGES for line in command_lines(page)]


def words_of(line: str) -> list[str]:
    """Return the words up to a redirection, with numbers in place of placeholders."""
    words = shlex.split(line, comments=True)
    ends = [number for number, word in enumerate(words) if word in {"&", ">", "<", "&&", "…"}]
    words = words[: min(ends, default=len(words))]
    return ["1" if word in NUMBERS else word.replace("@OFFSET", "@1") for word in words]


def names_only(words: list[str]) -> bool:
    """Tell whether a line names a command, as `sharemesh explain` does, without its arguments."""
    return all(re.fullmatch("[a-z-]+", word) and not word.startswith("-") for word in words)


def problem_of(line: str, capsys) -> str:
    program, *words = words_of(line)
    try:
        PARSERS[program]().parse_args(words)
    except SystemExit as ended:
        said = capsys.readouterr().err
        named = "arguments are required" in said and names_only(words)
        return "" if ended.code == 0 or named else said
    return ""


@pytest.mark.parametrize(("page", "line"), ALL, ids=[f"{page}: {line}" for page, line in ALL])
def test_a_documented_command_line_is_parsed(page, line, capsys):
    assert problem_of(line, capsys) == ""


@pytest.mark.parametrize(
    "line",
    [
        "sharemesh explain G T P OFFSET",
        "sharemesh describe cluster",
        "sharemesh topics creat T",
        "sharemesh-share-groups --describe",
        "sharemesh-spark reprot DATA",
    ],
)
def test_a_command_line_that_does_not_exist_is_found(line, capsys):
    assert problem_of(line, capsys)


def test_the_pages_do_hold_command_lines():
    assert len(ALL) >= 40
    assert {line.split()[0] for _, line in ALL} == set(PARSERS)
