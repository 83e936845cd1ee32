"""`sharemesh users`: passwords come from files and terminals, and are never shown (KLS-25)."""

import argparse
import getpass
import io
import json
import sys

import pytest

from sharemesh.cli import users
from sharemesh.cli.session import CommandError
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.client.users import user_alteration
from tests.cli.local_up import local_up

PASSWORD = "a password nobody sees"


@pytest.mark.integration
@pytest.mark.slow
def test_users_are_created_listed_and_deleted(tmp_path):
    """KLS-25."""
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    with local_up(tmp_path / "data") as up:

        def asked(*words):
            done = up.sharemesh("users", *words)
            assert PASSWORD not in done.stdout + done.stderr
            return done

        assert asked("list").stdout == "no user has a password\n"
        created = asked("create", "ann", "--password-file", str(file))
        assert created.stdout == "User:ann has a password for SCRAM-SHA-256, SCRAM-SHA-512\n"
        again = asked("create", "ann", "--password-file", str(file))
        assert (again.returncode, "give --replace" in again.stderr) == (1, True)
        one = ("--password-file", str(file), "--mechanism", "SCRAM-SHA-512", "--replace", "--json")
        assert json.loads(asked("create", "ann", *one, "--iterations", "4096").stdout) == {
            "user": "ann",
            "mechanisms": ["SCRAM-SHA-512"],
        }
        assert json.loads(asked("list", "--json").stdout) == [
            {"user": "ann", "mechanism": "SCRAM-SHA-256", "iterations": 8_192},
            {"user": "ann", "mechanism": "SCRAM-SHA-512", "iterations": 4_096},
        ]
        assert json.loads(asked("delete", "ann", "--json").stdout)["mechanisms"] == []
        assert "users list" in asked("delete", "ann").stderr


def test_a_password_comes_from_a_file_or_standard_input(tmp_path, monkeypatch):
    """KLS-25: its first line."""
    file = tmp_path / "password"
    file.write_text("first\nsecond\n")
    assert users._password(str(file)) == "first"
    monkeypatch.setattr(sys, "stdin", io.StringIO("typed\n"))
    assert users._password("-") == "typed"


def test_a_password_is_asked_for_twice(monkeypatch):
    """KLS-25."""
    monkeypatch.setattr(sys, "stdin", argparse.Namespace(isatty=lambda: True))
    said = iter(("one", "one", "one", "two"))
    monkeypatch.setattr(getpass, "getpass", lambda _: next(said))
    assert users._password(None) == "one"
    with pytest.raises(CommandError, match="differ"):
        users._password(None)


@pytest.mark.parametrize(
    ("text", "words"), [("", "1 to 1000"), ("x" * 1_001, "1 to 1000"), (None, "cannot be read")]
)
def test_what_can_be_no_password_is_refused(tmp_path, text, words):
    """KLS-25."""
    file = tmp_path / "password"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CommandError, match=words):
        users._password(str(file))


def test_without_a_terminal_nobody_is_asked(monkeypatch):
    """KLS-25."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="--password-file"):
        users._password(None)


@pytest.mark.parametrize(
    ("changes", "iterations", "words"),
    [
        ({"SCRAM-MD5": "x"}, 4_096, "SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({"SCRAM-SHA-256": ""}, 4_096, "1 to 1000"),
        ({"SCRAM-SHA-256": "x"}, 1, "4096 to 16384"),
    ],
)
def test_the_client_refuses_what_can_be_no_password(changes, iterations, words):
    """KLS-25."""
    with pytest.raises(IllegalArgumentError, match=words):
        user_alteration("ann", changes, iterations)
