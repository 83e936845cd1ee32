"""`sharemesh acls add|list|remove` against a cluster that asks its table; see operations.md."""

import time

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


def until(holds):
    """Ask again until it holds: each process hears of a rule by its watch, a moment later."""
    deadline = time.monotonic() + 20
    while not (last := holds())[0]:
        assert time.monotonic() < deadline, f"the rule has no effect: {last}"


def test_rules_are_added_listed_obeyed_and_removed(run):
    created = run("admin", "topics", "create", "orders", "--partitions", "1")
    assert created.returncode == 0, created.stderr
    refused = run("alice", "produce", "orders", stdin='{"n": 1}\n')
    assert refused.returncode == 1
    assert "does not exist" in refused.stderr  # who may not see it hears no more, as in Kafka
    assert run("alice", "acls", "list").returncode == 1

    def produced(code):
        done = run("alice", "produce", "orders", stdin='{"n": 1}\n')
        return done.returncode == code, done.stdout + done.stderr

    rule = ("--principal", "User:alice", "--operation", "write", "--topic", "orders")
    added = run("admin", "acls", "add", *rule)
    assert added.returncode == 0, added.stderr
    listed = run("admin", "acls", "list")
    assert listed.returncode == 0, listed.stderr
    assert "User:alice" in listed.stdout
    assert "orders" in listed.stdout
    until(lambda: produced(0))
    assert run("bob", "produce", "orders", stdin='{"n": 1}\n').returncode == 1

    removed = run("admin", "acls", "remove", "--principal", "User:alice", "--topic", "orders")
    assert removed.returncode == 0, removed.stderr
    assert "User:alice" not in run("admin", "acls", "list").stdout
    until(lambda: produced(1))
