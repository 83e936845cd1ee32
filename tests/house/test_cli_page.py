"""The reference of the command line says what the parsers say."""

import re

from sharemesh.cli.commands import command_line
from tests.house.cli_page import PAGE, page


def test_the_page_is_what_the_parsers_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_every_command_that_help_names_has_a_section():
    named = re.findall(r"^    ([a-z-]+)", command_line().format_help(), re.MULTILINE)
    assert len(named) > 10
    assert [name for name in named if f"### sharemesh {name}\n" not in page()] == []
