"""Tables are never cut or folded, however narrow the terminal and however wide the values."""

import io

import pytest
from rich.console import Console

from sharemesh.cli.formatting import table_lines
from sharemesh.cli.session import CommandSession

ROWS = [
    {"group": "rr17953320" + "9" * 40, "topic": "orders", "start": 437_812_345_678, "lag": None},
    {"group": "[bold]g[/bold]", "topic": "y" * 250, "start": 0, "lag": 17},
]
COLUMNS = "group, topic, start:START-OFFSET, lag"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [20, 80])
def test_numbers_and_names_stay_whole(terminal, width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, no_color=True)
    CommandSession({}, False, 1, console, console).show(ROWS, COLUMNS, empty="none")
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert len(lines) == 3
    assert lines[1] == [ROWS[0]["group"], "orders", "437812345678", "-"]
    assert lines[2] == ["[bold]g[/bold]", "y" * 250, "0", "17"]


def test_sentences_are_not_folded_into_lines():
    out = io.StringIO()
    console = Console(file=out, width=20)
    session = CommandSession({}, False, 1, console, console)
    session.say("a sentence of many more words than fit " * 10)
    session.complain("[another] one " * 40)
    assert len(out.getvalue().splitlines()) == 2


def test_a_column_is_as_wide_as_its_widest_cell():
    assert table_lines(["A", "LONG", "C"], [["xyz", [1, 2], "e"]], gap=2) == [
        "A    LONG  C",
        "xyz  1,2   e",
    ]
