"""``groups pause`` and ``groups resume``."""

import pytest

from sharemesh.cli import session
from sharemesh.cli.__main__ import main
from sharemesh.client.admin_results import GroupDescription, GroupListing
from sharemesh.client.errors import GroupIdNotFoundError, InvalidConfigError


class Admin:
    """Knows one group, ``billing``; refuses the settings of ``old``."""

    def __init__(self, settings) -> None:
        self.done: list[str] = DONE

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def pause_group(self, group_id):
        if group_id == "old":
            raise InvalidConfigError("unknown setting share.paused")
        self.done.append(f"pause {group_id}")

    def resume_group(self, group_id):
        self.done.append(f"resume {group_id}")

    def describe_groups(self, group_ids):
        known = GroupDescription("billing", "Stable", 1, 1, "simple", "g-0", ())
        return {
            each: known if each == "billing" else GroupIdNotFoundError("not found")
            for each in group_ids
        }

    def list_groups(self, *, partial=False):
        return [GroupListing("billing", "share", "Stable")]


DONE: list[str] = []


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(session, "AdminClient", Admin)
    DONE.clear()

    def run(*words: str):
        code = main(["groups", *words, "--bootstrap", "h:1"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_group_is_paused_and_resumed(run):
    assert run("pause", "billing") == (0, "group billing is paused\n", "")
    assert run("resume", "billing") == (0, "group billing is resumed\n", "")
    assert DONE == ["pause billing", "resume billing"]


@pytest.mark.parametrize(
    ("verb", "said"), [("pause", "it begins so"), ("resume", "it begins without a pause")]
)
def test_a_group_that_does_not_exist_is_pointed_out(run, verb, said):
    code, out, err = run(verb, "biling")
    assert (code, out) == (0, f"group biling is {verb}d\n")
    assert f"there is no group 'biling' yet: {said}" in err
    assert "did you mean" in err


def test_what_the_cluster_refuses_is_an_error_and_the_others_are_done(run):
    code, _, err = run("pause", "old", "billing")
    assert code == 1
    assert "unknown setting share.paused" in err
    assert DONE == ["pause billing"]
