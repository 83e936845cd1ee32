"""LOG-13: a reader beside the writer and during a take-over, never past the committed end."""

import random

import pytest

from sharemesh.codec.log_chain import StartOverError, readable_parts, resolve_chain
from sharemesh.codec.segment import CommittedEnd
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


def prepared(settings) -> tuple[MemoryDisk, Owner]:
    disk = MemoryDisk(random.Random(1))
    owner = Owner(disk, 1, settings)
    owner.work(("a", "b"), ("c",))
    return disk, owner


def take_over_and_work(disk: MemoryDisk, owner: Owner) -> None:
    owner.take_over()
    owner.commit("x")
    owner.commit("y", "z")
    owner.delete_before(2)
    owner.commit("end")


def steps_of_reader() -> int:
    def make(empty: MemoryDisk):
        disk, _ = prepared(SMALL)
        empty.__dict__.update(disk.__dict__)
        return lambda: read_log(empty)

    return count_steps(make)


@SETTINGS
def test_what_a_reader_saw_during_a_take_over_survives_a_power_cut(settings):
    reader_steps = steps_of_reader() + 3
    for pause in range(reader_steps):
        for progress in range(0, 70, 2):
            disk, owner = prepared(settings)
            seen: list[tuple[int, int, dict[int, str]]] = []
            reader = Stepped(disk, lambda seen=seen, disk=disk: seen.append(read_log(disk)))
            new = Owner(disk, 2, settings)
            taker = Stepped(disk, lambda disk=disk, new=new: take_over_and_work(disk, new))
            reader.step(pause)
            taker.step(progress)
            reader.finish()
            disk.crash()
            taker.kill()
            found = settle(disk, 3, owner, new)
            start, end, read = seen[0]
            assert sorted(read) == list(range(start, end))
            for offset, value in read.items():
                assert offset < min(found) or found[offset] == value


def test_a_reader_never_sees_what_is_appended_and_not_committed():
    for step in range(9):
        disk, owner = prepared(LARGE)
        writer = Stepped(disk, lambda owner=owner: owner.commit("new"))
        writer.step(step)
        _, end, found = read_log(disk)
        published = step >= 5 or writer.done  # append, sync, list, write: then it may be seen
        assert ("new" in found.values()) == (end == 4)
        if not published:
            assert end == 3
        writer.finish()
        assert read_log(disk)[1] == 4


def test_a_reader_starts_over_when_the_listing_misses_the_segment_of_the_committed_end():
    with pytest.raises(StartOverError):
        readable_parts(resolve_chain({}), CommittedEnd(3, 10, 4, 100, 0, 7))


@pytest.mark.parametrize("seed", range(30))
def test_readers_among_owners_in_any_order_of_steps(seed):
    rng = random.Random(seed)
    print(f"seed {seed}")
    settings = rng.choice([LARGE, SMALL])
    disk, owner = prepared(settings)
    owners = [owner]
    seen: list[tuple[int, int, dict[int, str]]] = []
    jobs = [Stepped(disk, lambda: take_over_and_work(disk, owner))]
    for epoch in (2, 3):
        taker = Owner(disk, epoch, settings)
        owners.append(taker)
        jobs.append(Stepped(disk, lambda taker=taker: take_over_and_work(disk, taker)))
    for _ in range(3):
        jobs.append(Stepped(disk, lambda: seen.append(read_log(disk))))
    for _ in range(300):
        jobs[rng.randrange(len(jobs))].step()
    for job in jobs:
        try:
            job.finish()
        except (FencedError, LogFailedError):
            continue
    found = settle(disk, 9, *owners)
    assert len(seen) == 3
    for start, end, read in seen:
        assert sorted(read) == list(range(start, end))
        for offset, value in read.items():
            assert offset < min(found) or found[offset] == value
