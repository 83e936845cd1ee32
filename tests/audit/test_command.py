"""``sharemesh audit`` reads what processes wrote (AUD-11)."""

import json

import pytest

from sharemesh.audit.events import line
from sharemesh.audit.files import AuditFiles
from sharemesh.audit.trail import Line
from sharemesh.cli import audit
from sharemesh.cli.__main__ import main
from sharemesh.cli.commands import command_line
from tests.audit.events import change, refusal

BEGAN_MS = 1_800_000_000_000


class Written:
    """A data directory with the audit files of two nodes."""

    def __init__(self, directory):
        self.directory = directory
        self.nodes = {
            name: AuditFiles(directory / "logs", name, bytes_max=65_536, files_max=3)
            for name in ("a", "b")
        }
        self.now_ms = BEGAN_MS

    def write(self, node, *events):
        for event in events:
            self.now_ms += 1_000
            text = line(event, node, self.now_ms)
            self.nodes[node].write([Line(self.now_ms, event.is_change, text)])


@pytest.fixture
def written(tmp_path):
    found = Written(tmp_path)
    yield found
    for files in found.nodes.values():
        files.close()


def shown(capsys, written, *options):
    assert main(["audit", str(written.directory), "--json", *options]) == 0
    return [json.loads(each) for each in capsys.readouterr().out.splitlines()]


def names(events):
    return [each["resources"][0]["name"] for each in events]


def test_files_of_all_nodes_and_rotated_ones_are_one_list_by_time(written, capsys):
    for number in range(400):
        written.write("a", change(f"t{number}"))
        written.write("b", refusal(f"t{number}"))
    found = shown(capsys, written)
    times = [each["time"] for each in found]
    assert times == sorted(times)
    assert names(found) == [f"t{number // 2}" for number in range(800)]
    assert (written.directory / "logs" / "a.changes.jsonl.1").exists(), "some were rotated"


def test_filters(written, capsys):
    written.write("a", change("one"), refusal("two"), refusal("three", principal="User:bob"))
    assert names(shown(capsys, written, "--principal", "User:bob")) == ["three"]
    assert names(shown(capsys, written, "--decision", "done")) == ["one"]
    assert names(shown(capsys, written, "--rpc", "DeleteTopics")) == ["one", "two", "three"]
    assert names(shown(capsys, written, "--rpc", "Admin/Metadata")) == []
    assert names(shown(capsys, written, "--since", "2027-01-15T08:00:02.000")) == ["two", "three"]
    assert shown(capsys, written, "--since", "99d") is not None


def test_a_torn_last_line_is_silent_and_a_strange_one_is_counted(written, capsys):
    written.write("a", change("one"))
    path = written.directory / "logs" / "a.changes.jsonl"
    with path.open("ab") as file:
        file.write(b'some text\n{"log": "other"}\n\n{"log": "audit", "ti')
    assert main(["audit", str(path)]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "2 lines passed over" in err


def test_text_controls_no_terminal(written, capsys):
    written.write("a", refusal("x\x1b]0;pwned\x07\nforged", principal="User:\u202ex"))
    assert main(["audit", str(written.directory)]) == 0
    [text] = capsys.readouterr().out.splitlines()
    assert text.isprintable()
    assert "refused" in text
    assert "DELETE" in text


def test_follow_goes_on_with_new_lines_over_a_rotation(written, capsys):
    class EndedError(Exception):
        pass

    rounds = iter(range(3))

    def pause():
        number = next(rounds, None)
        if number is None:
            raise EndedError
        written.write("a", *(change(f"round-{number}-{each}") for each in range(500)))

    args = command_line().parse_args(["audit", str(written.directory), "--follow", "--json"])
    with pytest.raises(EndedError):
        audit._run(args, pause=pause)
    found = names([json.loads(each) for each in capsys.readouterr().out.splitlines()])
    assert found == [f"round-{number}-{each}" for number in range(3) for each in range(500)]


@pytest.mark.parametrize("options", [["--since", "soon"], ["nowhere"], ["--decision", "maybe"]])
def test_wrong_usage_is_said_in_words(tmp_path, options, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["audit", *options])
    except SystemExit as ended:
        code = ended.code
    assert code in (1, 2)
    assert capsys.readouterr().err.count("\n") < 8


def test_a_directory_without_audit_files_is_said(tmp_path, capsys):
    assert main(["audit", str(tmp_path)]) == 1
    assert "no audit files" in capsys.readouterr().err
