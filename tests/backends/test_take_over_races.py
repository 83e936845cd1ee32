"""LOG-5 to LOG-13: whoever pauses where, what was confirmed stays, and is there once."""

import random

import pytest

from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.testing.memory_disk import MemoryDisk
from tests.backends.log_world import (
    LARGE,
    SMALL,
    Owner,
    Stepped,
    count_steps,
    read_log,
    settle,
)

SETTINGS = pytest.mark.parametrize("settings", [LARGE, SMALL], ids=["one-segment", "rolling"])


def disk_with_log(settings=LARGE) -> tuple[MemoryDisk, Owner]:
    disk = MemoryDisk(random.Random(1))
    owner = Owner(disk, 1, settings)
    owner.work(("a", "b"), ("c",))
    return disk, owner


def steps_of_work(epoch: int, settings, batches: int = 1) -> int:
    def make(empty: MemoryDisk):
        disk, _ = disk_with_log(settings)
        empty.__dict__.update(disk.__dict__)
        owner = Owner(empty, epoch, settings)
        return lambda: owner.work(*[(f"{epoch}-{n}",) for n in range(batches)])

    return count_steps(make)


@SETTINGS
def test_two_takers_at_every_interleaving_lose_and_double_nothing(settings):
    count = steps_of_work(2, settings) + 2
    for first in range(count):
        for second in range(0, count, 3):
            disk, owner = disk_with_log(settings)
            low, high = Owner(disk, 2, settings), Owner(disk, 3, settings)
            one = Stepped(disk, lambda low=low: low.work(("low",), ("low2",)))
            two = Stepped(disk, lambda high=high: high.work(("high",), ("high2",)))
            one.step(first)
            two.step(second)
            one.finish()
            two.finish()
            assert high.confirmed, f"nobody won at {first}, {second}"
            settle(disk, 4, owner, low, high)


def test_the_higher_taker_wins_even_if_it_comes_first():
    disk, owner = disk_with_log()
    high = Owner(disk, 5)
    high.work(("high",))
    with pytest.raises(FencedError) as fenced:
        Owner(disk, 4).take_over()
    assert fenced.value.fence_epoch == 5
    settle(disk, 6, owner, high)


def test_an_epoch_is_taken_once():
    disk, owner = disk_with_log()
    with pytest.raises(FencedError) as fenced:
        Owner(disk, 1).take_over()
    assert fenced.value.fence_epoch == 1
    owner.commit("d")


@SETTINGS
def test_an_owner_paused_at_any_step_of_commit_confirms_nothing_the_log_lacks(settings):
    """Paused between append, sync, look and publish; another takes over; then it goes on."""
    outcomes = set()
    for pause in range(14):
        disk, owner = disk_with_log(settings)
        before = dict(owner.confirmed)

        def commit(owner=owner) -> None:
            owner.commit("paused")

        old = Stepped(disk, commit)
        old.step(pause)
        finished_before = old.done
        new = Owner(disk, 2, settings)
        new.work(("new",))
        assert new.confirmed
        try:
            old.finish()
        except (FencedError, LogFailedError):
            assert owner.confirmed == before
            with pytest.raises((FencedError, LogFailedError)):
                owner.commit("again")
            outcomes.add("refused")
        else:
            outcomes.add("done before" if finished_before else "confirmed late")
        found = settle(disk, 3, owner, new)
        assert "again" not in found.values()
        if "paused" in found.values():  # then the new owner has taken it over, before its own
            values = list(found.values())
            assert values.index("paused") < values.index("new")
    assert {"refused", "done before"} <= outcomes


def test_bytes_that_a_fenced_owner_appends_are_outside_the_log():
    disk, owner = disk_with_log()
    old = Stepped(disk, lambda: owner.commit("paused"))
    old.step()  # before the append
    new = Owner(disk, 2)
    new.work(("new",))
    with pytest.raises(FencedError):
        old.finish()
    _, _, found = read_log(disk)
    assert list(found.values()) == ["a", "b", "c", "new"]
    assert list(settle(disk, 3, owner, new).values()) == ["a", "b", "c", "new", "last-3"]


def test_a_look_that_fails_counts_as_fenced():
    disk, owner = disk_with_log()

    def before(operation: str, path: str) -> None:
        if operation == "list" and path.endswith("fences"):
            raise OSError("stale file handle")

    disk.before = before
    with pytest.raises(FencedError, match="stale file handle"):
        owner.commit("d")
    disk.before = None
    with pytest.raises(FencedError):
        owner.commit("e")


@pytest.mark.parametrize("lower", [False, True])
def test_an_owner_whose_own_fence_is_missing_is_fenced(lower):
    disk, owner = disk_with_log()
    disk.delete("state/00000/fences/0000000001")
    if lower:
        disk.create("state/00000/fences/0000000000")
    with pytest.raises(FencedError, match="missing"):
        owner.commit("d")


@pytest.mark.parametrize("seed", range(60))
def test_three_owners_in_any_order_of_steps(seed):
    rng = random.Random(seed)
    print(f"seed {seed}")
    settings = rng.choice([LARGE, SMALL])
    disk, owner = disk_with_log(settings)
    owners = [owner]
    jobs = [Stepped(disk, lambda: owner.commit("d"))]
    for epoch in (2, 3, 4):
        taker = Owner(disk, epoch, settings)
        owners.append(taker)
        values = [(f"{epoch}-{n}",) for n in range(rng.randint(1, 4))]
        jobs.append(Stepped(disk, lambda taker=taker, values=values: taker.work(*values)))
    for _ in range(400):
        jobs[rng.randrange(len(jobs))].step()
    for job in jobs:
        try:
            job.finish()
        except (FencedError, LogFailedError):
            continue
    settle(disk, 9, *owners)
