"""`sharemesh quotas` against a cluster: JSON, checks, and words for what is refused (spec QUO)."""

import json

import pytest

from sharemesh.cli.__main__ import main
from tests.cli.local_up import local_up

JANE = ("--user", "User:jane")


@pytest.fixture(scope="module")
def quotas(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("quotas") / "data") as up:
        yield lambda *words: up.sharemesh("quotas", *words)


def rows(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.integration
@pytest.mark.slow
def test_quotas_are_altered_listed_and_described_for_programs_and_people(quotas):
    assert quotas("list").stdout == "no quota is stored: nothing is bounded\n"
    changes = ("--set", "streams=50", "--set", "producer_byte_rate=0.5")
    done = quotas("alter", *JANE, *changes, "--validate-only")
    assert done.stdout.splitlines() == [
        "user User:jane: streams would be 50",
        "user User:jane: producer_byte_rate would be 0.5",
    ]
    assert rows(quotas("list", "--json")) == []
    assert rows(quotas("alter", *JANE, *changes, "--json")) == {
        "changes": {"streams": 50.0, "producer_byte_rate": 0.5},
        "validate_only": False,
    }
    assert quotas("alter", "--group-default", "--set", "record_rate=1e6").returncode == 0
    assert rows(quotas("list", "--json")) == [
        {"entity": entity, "entity_type": kind, "name": name, "quota": quota, "value": value}
        for entity, kind, name, quota, value in (
            ("default of groups", "group", None, "record_rate", 1_000_000),
            ("user User:jane", "user", "User:jane", "producer_byte_rate", 0.5),
            ("user User:jane", "user", "User:jane", "streams", 50),
        )
    ]
    assert rows(quotas("describe", "--group", "g", "--json")) == [
        {
            "entity": "group g",
            "entity_type": "group",
            "name": "g",
            "quota": "record_rate",
            "value": 1_000_000,
            "source": "default of groups",
        }
    ]
    done = quotas("alter", *JANE, "--unset", "streams", "--unset", "groups")
    assert done.stdout.splitlines()[0] == "user User:jane: streams is not set"
    assert len(rows(quotas("list", "--json"))) == 2


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*JANE, "--set", "producer_bite_rate=1"), "did you mean producer_byte_rate?"),
        ((*JANE, "--unset", "stream"), "did you mean streams?"),
        ((*JANE, "--set", "record_rate=1"), "binds a group, not a user"),
        ((*JANE, "--set", "streams=0"), "above 0"),
        ((*JANE, "--set", "streams=2.5"), "whole number"),
        (("--user", "jane", "--set", "streams=1"), "write User:<name>"),
        (("--user", "User:*", "--set", "streams=1"), "the default of users"),
        (("--group", "", "--set", "record_rate=1"), "name a group"),
    ],
)
def test_a_refusal_says_what_to_write_instead(quotas, words, said):
    done = quotas("alter", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (JANE, "nothing to change: give --set NAME=VALUE or --unset NAME"),
        ((*JANE, "--set", "streams"), "expected NAME=VALUE"),
        ((*JANE, "--set", "streams=many"), "'many' is not a number"),
        ((*JANE, "--set", "streams=nan"), "'nan' is not a number"),
        ((*JANE, "--set", "streams=1", "--unset", "streams"), "both set and unset"),
    ],
)
def test_wrong_usage_asks_no_cluster(words, said, capsys):
    assert main(["quotas", "alter", *words, "--bootstrap", "127.0.0.1:1"]) == 2
    assert said in capsys.readouterr().err
