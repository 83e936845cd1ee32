"""What is called after a terminal's commands is printed as text, on one line (spec BND-24)."""

import io
import json
from argparse import Namespace

import pytest
from rich.console import Console

from sharemesh.cli import share_groups_command, state_log, up_display
from sharemesh.cli.formatting import json_line, table_lines
from sharemesh.cli.session import CommandError, CommandSession, ended
from sharemesh.codec.state_record import encode_key, encode_value
from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.records import StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch

EVIL = "\x1b]0;pwned\x07\x1b[2J\r\nforged row\x9b31m\u202egpj.exe\u2028"
SEEN = "\\u001b]0;pwned\\u0007\\u001b[2J\\u000d\\u000aforged row\\u009b31m\\u202egpj.exe\\u2028"


def session_of(out, *, as_json=False):
    console = Console(file=out, width=80, no_color=True)
    return CommandSession({}, as_json, 1, console, console)


def test_a_table_keeps_its_rows():
    assert table_lines(["GROUP", "N"], [[EVIL, 1], [[EVIL, "b"], 2]])[1:] == [
        f"{SEEN}   1",
        f"{SEEN},b 2",
    ]
    out = io.StringIO()
    session_of(out).show([{"group": EVIL}], "group", empty="")
    assert out.getvalue().splitlines() == ["GROUP", SEEN]


def test_a_sentence_stays_on_its_line():
    out = io.StringIO()
    session = session_of(out)
    session.say(f"group {EVIL} deleted")
    session.complain(f"sharemesh: {EVIL}")
    assert out.getvalue().splitlines() == [f"group {SEEN} deleted", f"sharemesh: {SEEN}"]


def test_json_means_the_name_and_shows_nothing_of_it(capsys):
    session_of(io.StringIO(), as_json=True).show_json([{"group": EVIL}])
    printed = capsys.readouterr().out
    assert json.loads(printed) == [{"group": EVIL}]
    assert printed.count("\n") == 1
    assert printed.strip("\n").isprintable()
    assert json_line({"ü": EVIL}).isprintable()


def test_the_error_that_ends_a_command_is_one_line(capsys):
    def fails():
        raise CommandError(EVIL)

    assert ended(fails, prefix="sharemesh") == 1
    assert capsys.readouterr().err == f"sharemesh: {SEEN}\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_the_state_log_is_dumped_one_line_a_record(capsys, as_json):
    key = SharePartitionKey(GroupId(EVIL), TopicId(b"t" * 16), 0)
    record = Tombstone(key, 1, 1, 1)
    args = Namespace(json=as_json, group=None)
    state_log._print(args, 0, 7, 1, encode_key(record), None)
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert json.loads(printed)["group"] == EVIL if as_json else SEEN in printed
    assert printed.strip("\n").isprintable()


class _Admin:
    def list_groups(self):
        return [Namespace(group_id=EVIL)]


def test_kafkas_tool_lists_groups_one_a_line(capsys):
    share_groups_command._list(_Admin(), Namespace(state=None))
    assert capsys.readouterr().out == f"{SEEN}\n"


def test_up_says_what_a_process_said_as_text():
    out = io.StringIO()
    up_display.PlainDisplay(Console(file=out, width=300)).say(EVIL)
    assert out.getvalue() == f"{SEEN}\n"


@pytest.mark.parametrize("at_ms", [0, 1_795_332_000_123])
def test_a_dump_says_when_a_settlement_was_acquired(capsys, at_ms):
    """EXP-9."""
    key = SharePartitionKey(GroupId("g"), TopicId(b"t" * 16), 0)
    batch = StateBatch(3, 5, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT, 0, at_ms)
    record = StateUpdate(key, 0, 1, 1, 0, 3, 7, (batch,))
    state_log._print(
        Namespace(json=True, group=None), 0, 7, 1, encode_key(record), encode_value(record)
    )
    [text] = json.loads(capsys.readouterr().out)["batches"]
    assert text == "3-5:acknowledged(1)" + (f"@{at_ms}" if at_ms else "")
