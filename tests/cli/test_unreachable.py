"""A cluster that nobody runs is told in one line, with where the address comes from."""

import json

import pytest

from sharemesh.cli import session
from sharemesh.cli.__main__ import main
from tests.free_ports import free_port


@pytest.fixture
def nowhere(tmp_path, monkeypatch) -> str:
    """An address at which nobody listens, in a directory where no cluster runs."""
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "DEFAULT_ADDRESS", address)
    for name in ("SHAREMESH_BOOTSTRAP", "SHAREMESH_DATA_DIRECTORY", "SHAREMESH_CLIENT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return address


def said(capsys, *words: str) -> str:
    assert main([*words, "--timeout", "300"]) == 1
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert out == ""
    assert "is the cluster running, and is the port right?" in line
    return line


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "list"),
        ("topics", "create", "orders"),
        ("groups", "describe", "g"),
        ("cluster",),
        ("explain", "orders/0@1", "--group", "g"),
        ("produce", "orders", "/dev/null"),
        ("consume", "orders", "--group", "g"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_says_that_the_default_address_has_no_cluster(nowhere, capsys, command):
    line = said(capsys, *command)
    assert nowhere in line
    assert line.endswith("--bootstrap HOST:PORT names another one)")


def test_an_address_that_was_given_needs_no_more_words(nowhere, capsys):
    assert said(capsys, "topics", "list", "--bootstrap", nowhere).endswith("the port right?")


def test_an_address_of_the_environment_is_named_as_that(nowhere, capsys, monkeypatch):
    monkeypatch.setenv("SHAREMESH_BOOTSTRAP", nowhere)
    assert said(capsys, "topics", "list").endswith(
        "(the address is that of $SHAREMESH_BOOTSTRAP, or of a configuration file)"
    )


def test_an_address_that_a_killed_local_cluster_left_behind_is_named_as_that(
    nowhere, capsys, tmp_path
):
    run_file = tmp_path / "sharemesh-data" / "run" / "cluster.json"
    run_file.parent.mkdir(parents=True)
    run_file.write_text(json.dumps({"bootstrap": [nowhere]}))
    assert said(capsys, "topics", "list").endswith(
        "(the address is that of sharemesh-data/run/cluster.json, which 'sharemesh up' wrote)"
    )
