"""The memory of a process: what only cycles hold is found in time, at a bounded cost."""

import weakref

import pytest

from sharemesh.serve.process import memory
from sharemesh.serve.process.memory import CycleSearch, received_growth_max
from tests.clocks import ManualClock

MIB = 1 << 20


class Knot:
    """An object that only a search for cycles frees."""

    def __init__(self) -> None:
        self.itself = self


class Size:
    """The memory of a process, as a test sets it."""

    def __init__(self) -> None:
        self.size_bytes = 50 * MIB

    def __call__(self) -> int:
        return self.size_bytes


async def test_what_only_a_cycle_holds_is_freed_once_the_process_has_grown():
    clock, size = ManualClock(), Size()
    search = CycleSearch(clock, size)
    knot = weakref.ref(Knot())
    size.size_bytes += 16 * MIB
    await clock.advance(30_000)
    search.search_if_due()
    assert knot() is None


async def test_a_process_that_has_not_grown_is_not_stopped(monkeypatch):
    clock, size, searched = ManualClock(), Size(), []
    search = CycleSearch(clock, size)
    monkeypatch.setattr(memory.gc, "collect", lambda: searched.append(1))
    size.size_bytes += 15 * MIB
    await clock.advance(60_000)
    search.search_if_due()
    assert not searched
    size.size_bytes -= 20 * MIB
    search.search_if_due()
    size.size_bytes += 15 * MIB
    search.search_if_due()
    assert not searched, "what it held least counts"
    size.size_bytes += MIB
    search.search_if_due()
    assert searched


async def test_a_search_that_took_long_comes_again_a_thousand_times_as_late(monkeypatch):
    clock, size = ManualClock(), Size()
    search = CycleSearch(clock, size)
    searched = []

    def slow() -> None:
        searched.append(clock.now_ms())
        clock._now_ms += 100

    monkeypatch.setattr(memory.gc, "collect", slow)
    size.size_bytes += 16 * MIB
    search.search_if_due()
    assert not searched
    await clock.advance(30_000)
    search.search_if_due()
    size.size_bytes += 16 * MIB
    await clock.advance(99_999)
    search.search_if_due()
    assert len(searched) == 1
    await clock.advance(1)
    search.search_if_due()
    assert len(searched) == 2


@pytest.mark.parametrize(
    ("limit", "growth_mib"), [("max", 256), ("536870912", 128), ("8589934592", 256), (None, 256)]
)
def test_bnd_30_a_process_grows_for_requests_by_a_quarter_of_its_container(
    tmp_path, limit, growth_mib
):
    limit_file = tmp_path / "memory.max"
    if limit is not None:
        limit_file.write_text(limit + "\n")
    assert received_growth_max(limit_file) == growth_mib << 20
