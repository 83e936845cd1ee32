"""Rows that share clusters: as many trials as are missing, each row its own outcome."""

import pytest

from tests.faults import trials
from tests.faults.trials import Outcome, SharedSeries, named, run_part

NAMES = ("cut_java", "cut_go")


class Cluster:
    """Notes what is run; ``breaks`` raises after the first row's outcome."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.runs: list[tuple[tuple[str, ...], int, int]] = []
        self._breaks = breaks

    async def run(self, names, count, seed):
        self.runs.append((names, count, seed))
        for name in names:
            yield name, Outcome((), (1.0,) * count, trials=count)
            if self._breaks:
                raise RuntimeError("the cluster died")

    def rows(self) -> SharedSeries:
        return SharedSeries(NAMES, 7, self.run, at_once=5)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(trials, "ROOT", tmp_path)
    monkeypatch.setattr(trials, "commit_id", lambda: "abc")


async def test_trials_come_in_series_on_one_cluster_for_all_rows():
    cluster = Cluster()
    assert await run_part("p", [cluster.rows()], trials=None, seed=10) == 0
    assert cluster.runs == [(NAMES, 5, 10), (NAMES, 2, 15)]


async def test_a_row_that_is_behind_catches_up_alone():
    cluster = Cluster()
    await run_part("p", named([cluster.rows()], "java"), trials=2, seed=1)
    await run_part("p", [cluster.rows()], trials=2, seed=1)
    assert cluster.runs == [(("cut_java",), 2, 1), (("cut_go",), 2, 1)]


async def test_rows_without_an_outcome_are_not_carried_through():
    cluster = Cluster(breaks=True)
    assert await run_part("p", [cluster.rows()], trials=3, seed=1) == 1
    assert cluster.runs == [(NAMES, 3, 1)]
