"""Options stand anywhere, a mistyped word gets the nearest one, an interrupt is quiet."""

import signal
import subprocess
import sys

import pytest

from sharemesh.cli.commands import command_line

SERVER = "127.0.0.1:9"


def parsed(*words: str):
    return command_line().parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        ("produce", "orders", "--key", "id", "rows.jsonl"),
        ("produce", "--key", "id", "orders", "rows.jsonl"),
        ("produce", "orders", "rows.jsonl", "--key", "id"),
    ],
)
def test_produce_takes_its_options_before_between_and_behind_its_arguments(words):
    args = parsed(*words)
    assert (args.topic, args.file, args.key) == ("orders", "rows.jsonl", "id")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (("consume", "a", "--group", "g", "b"), "topics", ["a", "b"]),
        (("topics", "create", "a", "--partitions", "2", "b"), "topics", ["a", "b"]),
        (("topics", "describe", "a", "--json", "b"), "topics", ["a", "b"]),
        (("groups", "describe", "a", "--json", "b"), "groups", ["a", "b"]),
        (("configs", "alter", "a=1", "--group", "g", "b=2"), "changes", ["a=1", "b=2"]),
        (("state-log", "dump", "--shard", "1", "data"), "data", "data"),
        (
            ("state-log", "import", "a", "--topic", "t", "--partition", "0", "b"),
            "files",
            ["a", "b"],
        ),
    ],
)
def test_arguments_of_every_command_may_stand_on_both_sides_of_an_option(words, name, value):
    assert getattr(parsed(*words), name) == value


def test_stdin_is_still_the_file_of_produce_that_was_not_named():
    assert parsed("produce", "orders", "--key", "id").file == "-"
    assert parsed("produce", "orders", "-", "--key", "id").file == "-"


@pytest.mark.parametrize(
    "words",
    [
        ("--bootstrap", SERVER, "topics", "list"),
        ("topics", "--bootstrap", SERVER, "list"),
        ("topics", "list", f"--bootstrap={SERVER}"),
        (f"--bootstrap={SERVER}", "cluster"),
        ("--bootstrap", SERVER, "cluster", "drain", "share-leader-0"),
        ("cluster", "--bootstrap", SERVER, "drain", "share-leader-0"),
        ("cluster", "drain", "--bootstrap", SERVER, "share-leader-0"),
    ],
)
def test_the_cluster_may_be_named_before_or_behind_the_command(words):
    assert parsed(*words).bootstrap == SERVER


def test_all_that_says_how_to_connect_and_show_may_stand_before_the_command():
    args = parsed("--timeout", "7", "--command-config", "a.properties", "--json", "groups", "list")
    assert (args.timeout, args.command_config, args.json) == (7, "a.properties", True)
    assert parsed("--timeout", "7", "groups", "list", "--timeout", "8").timeout == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topcs", "list"), "invalid choice: 'topcs'; did you mean 'topics'?"),
        (("topics", "lst"), "did you mean 'list'?"),
        (("cluster", "drian", "n"), "did you mean 'drain'?"),
        (
            ("produce", "orders", "--format", "jsonlines"),
            "did you mean 'jsonl'? (choose from jsonl, csv, text)",
        ),
        (
            ("topics", "create", "orders", "--partitons", "4"),
            "sharemesh topics create: error: unrecognized arguments: --partitons 4; "
            "did you mean '--partitions'?",
        ),
        (("cluster", "--partition-all"), "did you mean '--partitions'?"),
        (("up", "--data-dir=x", "--bse-port", "1"), "did you mean '--base-port'?"),
        (("--bootstrap", SERVER, "configs", "explain"), "unrecognized arguments: --bootstrap"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest_one(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


INTERRUPTED_IMPORT = """
import importlib.abc, os, runpy, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    '''Stands for Ctrl-C at the moment when a module is imported.'''

    def find_spec(self, name, path, target=None):
        if name == '{module}':
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if so in a background job
sys.meta_path.insert(0, Interrupt())
sys.argv = ['{program}', '--version']
runpy.run_module('{program}', run_name='__main__')
"""


@pytest.mark.parametrize("program", ["sharemesh.cli", "sharemesh.cli.share_groups"])
@pytest.mark.parametrize("module", ["grpc", "rich.console", "sharemesh.client.admin.client"])
def test_an_interrupt_before_the_command_has_begun_says_nothing(program, module):
    script = INTERRUPTED_IMPORT.format(program=program, module=module)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", ""), signal.Signals
