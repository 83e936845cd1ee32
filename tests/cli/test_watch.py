"""``groups describe --watch`` shows a group again and again, over short losses of the cluster."""

import json

import pytest

from sharemesh.cli import groups, session
from sharemesh.cli.__main__ import main
from sharemesh.client.admin_results import GroupDescription
from sharemesh.client.errors import ConnectionFailedError


class Admin:
    """Answers each round with another epoch; at the epochs in ``gone`` nobody answers."""

    gone: frozenset[int] = frozenset()
    paused = False

    def __init__(self, settings) -> None:
        self.epoch = 0

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def describe_groups(self, group_ids):
        self.epoch += 1
        if self.epoch in self.gone:
            raise ConnectionFailedError("nobody answers")
        return {
            each: GroupDescription(each, "Empty", self.epoch, 0, "simple", "g-0", (), self.paused)
            for each in group_ids
        }

    def list_share_group_offsets(self, group_id):
        return {}


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(session, "AdminClient", Admin)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    real = groups.watch
    monkeypatch.setattr(groups, "watch", lambda *args: real(*args, pause=pause))

    def run(*words: str):
        code = main(["groups", "describe", "g", "--bootstrap", "h:1", *words])
        said = capsys.readouterr()
        return code, said.out, said.err, pauses

    return run


def test_it_is_shown_at_each_interval_until_interrupted(run):
    code, out, err, pauses = run("--watch", "--interval", "0.5")
    assert code == 130
    assert [f"group epoch {epoch}," in out for epoch in (1, 2, 3, 4)] == [True, True, True, False]
    assert out.count(" UTC\n") == 3
    assert pauses == [0.5, 0.5, 0.5]
    assert err == ""


def test_json_is_a_line_for_each_round(run):
    _, out, _, _ = run("--watch", "--json")
    assert [json.loads(line)["group_epoch"] for line in out.splitlines()] == [1, 2, 3]


def test_a_cluster_that_is_gone_for_a_while_is_asked_again(run, monkeypatch):
    monkeypatch.setattr(Admin, "gone", frozenset({2}))
    code, out, err, _ = run("--watch")
    assert code == 130
    assert "group epoch 3," in out
    assert err == "sharemesh: nobody answers\n"


def test_a_cluster_that_never_answered_ends_it(run, monkeypatch):
    monkeypatch.setattr(Admin, "gone", frozenset({1}))
    code, _, err, pauses = run("--watch")
    assert (code, err, pauses) == (1, "sharemesh: nobody answers\n", [])


@pytest.mark.parametrize("interval", ["0", "-1", "100000"])
def test_an_interval_out_of_bounds_is_refused(run, interval):
    code, _, err, _ = run("--watch", "--interval", interval)
    assert code == 2
    assert "must be 0.1 to 3600 seconds" in err


def test_a_paused_group_is_shown_as_such(run, monkeypatch):
    monkeypatch.setattr(Admin, "paused", True)
    _, out, _, _ = run()
    assert "PAUSED: nothing more is delivered until `sharemesh groups resume`" in out


def test_without_watch_it_is_shown_once(run):
    code, out, _, pauses = run()
    assert (code, pauses) == (0, [])
    assert "0 members, group epoch 1," in out
