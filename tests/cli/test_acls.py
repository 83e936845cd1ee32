"""`sharemesh acls add|list|remove` against a cluster that asks its table, as the page says."""

import ast
import re
import shlex
import time
from pathlib import Path

import pytest

from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SETTINGS = """
authorizer = "acl"
super_users = ["User:admin"]
principal_header = "x-user"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs a command as somebody."""
    directory = tmp_path_factory.mktemp("acls")
    (directory / "cluster.toml").write_text(SETTINGS)
    with local_up(directory / "data", "--config", str(directory / "cluster.toml")) as up:

        def as_user(user, *arguments, stdin=None):
            config = directory / f"{user}.properties"
            config.write_text(f"request.headers=x-user={user}\n")
            return up.sharemesh(*arguments, "--command-config", str(config), stdin=stdin)

        yield as_user


PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "security.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Access rules")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```\n(sharemesh .*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


def test_the_example_of_the_page_ends_with_a_consumed_record(run):
    (block,) = BLOCKS
    consumed = ""
    for line in block.splitlines():
        shown, _, config = line.partition(" --command-config ")
        text, _, command = shown.rpartition(" | ")
        stdin = ast.literal_eval(text.removeprefix("echo ")) + "\n" if text else None
        user, (_, *words) = config.partition(".")[0] or "admin", shlex.split(command)

        def succeeds(user=user, words=tuple(words), stdin=stdin):
            done = run(user, *words, stdin=stdin)
            return done.returncode == 0 and (words[0] != "consume" or done.stdout), done

        done = until(succeeds)
        consumed += done.stdout if words[0] == "consume" else ""
    assert consumed == '{"id": "a1"}\n'


def test_from_the_beginning_needs_a_right_only_if_there_is_something_to_change(run):
    assert run("admin", "topics", "create", "old").returncode == 0
    assert run("admin", "produce", "old", stdin='{"n": 1}\n').returncode == 0
    for where in (("--topic", "old"), ("--group", "carols")):
        rule = ("acls", "add", "--principal", "User:carol", "--operation", "read", *where)
        assert run("admin", *rule).returncode == 0
    consume = ("consume", "old", "--group", "carols", "--max-records", "1", "--idle", "4000")

    def told(words):
        done = run("carol", *consume, "--from-beginning")
        return words in done.stderr, done

    until(lambda: told("(it is unknown without DESCRIBE_CONFIGS)"))
    rule = ("--principal", "User:carol", "--operation", "describe_configs", "--group", "carols")
    assert run("admin", "acls", "add", *rule).returncode == 0
    until(lambda: told("(it is latest)"))
    _, refused = told("")
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert "ALTER_CONFIGS on the group is missing" in line
    advice = line.partition("'sharemesh ")[2].partition("'")[0]
    assert run("admin", *advice.split()).returncode == 0
    done = run("carol", *consume, "--from-beginning")
    assert (done.returncode, done.stdout) == (0, '{"n": 1}\n'), done.stderr


def test_a_missing_permission_for_the_cluster_is_told_as_that(run):
    refused = run("dave", "cluster")
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert "User:dave is not authorized for DESCRIBE on the cluster" in line
    assert "an access rule must allow it" in line
    assert "certificate" not in line


def until(holds):
    """Ask again until it holds: each process hears of a rule by its watch, a moment later."""
    deadline = time.monotonic() + 20
    while not (last := holds())[0]:
        assert time.monotonic() < deadline, f"the rule has no effect: {last}"
    return last[1]


def test_rules_are_added_listed_obeyed_and_removed(run):
    created = run("admin", "topics", "create", "invoices", "--partitions", "1")
    assert created.returncode == 0, created.stderr
    refused = run("alice", "produce", "invoices", stdin='{"n": 1}\n')
    assert refused.returncode == 1
    assert "does not exist" in refused.stderr  # who may not see it hears no more, as in Kafka
    assert run("alice", "acls", "list").returncode == 1

    def produced(code):
        done = run("alice", "produce", "invoices", stdin='{"n": 1}\n')
        return done.returncode == code, done.stdout + done.stderr

    rule = ("--principal", "User:alice", "--operation", "write", "--topic", "invoices")
    added = run("admin", "acls", "add", *rule)
    assert added.returncode == 0, added.stderr
    listed = run("admin", "acls", "list")
    assert listed.returncode == 0, listed.stderr
    assert "User:alice" in listed.stdout
    assert "invoices" in listed.stdout
    until(lambda: produced(0))
    assert run("bob", "produce", "invoices", stdin='{"n": 1}\n').returncode == 1

    removed = run("admin", "acls", "remove", "--principal", "User:alice", "--topic", "invoices")
    assert removed.returncode == 0, removed.stderr
    left = run("admin", "acls", "list", "--topic", "invoices")
    assert "User:alice" not in left.stdout
    until(lambda: produced(1))
