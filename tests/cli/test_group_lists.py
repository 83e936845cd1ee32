"""``groups list`` tells a list that is not whole (spec ADM-4)."""

import json

import pytest

from sharemesh.cli import session
from sharemesh.cli.__main__ import main
from sharemesh.client.admin_results import GroupListing
from sharemesh.client.errors import CoordinatorNotAvailableError

INCOMPLETE = "the list is incomplete: group-1 has no leader"


class Admin:
    """Has one shard of two."""

    there = ("billing",)

    def __init__(self, settings) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def list_groups(self, *, states=(), partial=False):
        if not partial:
            raise CoordinatorNotAvailableError(INCOMPLETE)
        return [GroupListing(each, "share", "Empty") for each in self.there]


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(session, "AdminClient", Admin)

    def run(*words: str):
        code = main(["groups", "list", "--bootstrap", "h:1", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_list_that_is_not_whole_is_shown_told_and_fails(run):
    code, out, err = run()
    assert code == 1
    assert "billing" in out
    assert err == f"sharemesh: {INCOMPLETE}\n"
    code, out, err = run("--json")
    assert (code, err) == (1, f"sharemesh: {INCOMPLETE}\n")
    assert [each["group"] for each in json.loads(out)] == ["billing"]


def test_a_list_of_nothing_that_is_not_whole_does_not_say_that_there_is_nothing(run, monkeypatch):
    monkeypatch.setattr(Admin, "there", ())
    code, out, err = run()
    assert code == 1
    assert "there are no share groups" not in out + err
    assert INCOMPLETE in err
