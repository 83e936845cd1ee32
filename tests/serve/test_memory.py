"""The memory of a process: what only cycles hold is found in time, at a bounded cost."""

import weakref

from sharemesh.serve.process import memory
from sharemesh.serve.process.memory import CycleSearch
from tests.clocks import ManualClock


class Knot:
    """An object that only a search for cycles frees."""

    def __init__(self) -> None:
        self.itself = self


async def test_what_only_a_cycle_holds_is_freed_once_a_search_is_due():
    clock = ManualClock()
    search = CycleSearch(clock)
    knot = weakref.ref(Knot())
    await clock.advance(30_000)
    search.search_if_due()
    assert knot() is None


async def test_a_search_that_took_long_comes_again_a_thousand_times_as_late(monkeypatch):
    clock = ManualClock()
    search = CycleSearch(clock)
    searched = []

    def slow() -> None:
        searched.append(clock.now_ms())
        clock._now_ms += 100

    monkeypatch.setattr(memory.gc, "collect", slow)
    search.search_if_due()
    assert not searched
    await clock.advance(30_000)
    search.search_if_due()
    await clock.advance(99_999)
    search.search_if_due()
    assert len(searched) == 1
    await clock.advance(1)
    search.search_if_due()
    assert len(searched) == 2
