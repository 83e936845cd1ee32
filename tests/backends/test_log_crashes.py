"""spec LOG: power cuts at every step, failed syncs, lost names, torn tails, full disks."""

import random
from contextlib import suppress

import pytest

from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError
from sharemesh.testing.memory_disk import MemoryDisk
from tests.backends.log_world import LARGE, PATH, SMALL, Owner, read_log, settle


class PowerCutError(Exception):
    """The power goes at this step."""


def life(disk: MemoryDisk, owners: list[Owner], settings) -> None:
    """Two owners after each other, with rolls and a log start that moves."""
    first = Owner(disk, 1, settings)
    owners.append(first)
    first.take_over()
    for value in "abcdef":
        first.commit(value, value + "2")
    first.delete_before(5)
    first.commit("g")
    second = Owner(disk, 2, settings)
    owners.append(second)
    second.take_over()
    second.commit("h")
    second.delete_before(9)
    second.commit("i")


def steps_of_life(settings) -> int:
    disk = MemoryDisk(random.Random(0))
    steps = 0

    def before(operation: str, path: str) -> None:
        nonlocal steps
        steps += 1

    disk.before = before
    life(disk, [], settings)
    return steps


@pytest.mark.parametrize("settings", [LARGE, SMALL], ids=["one-segment", "rolling"])
@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_at_any_step_loses_nothing_that_was_confirmed(settings, seed):
    """LOG-15."""
    print(f"seed {seed}")
    for cut in range(steps_of_life(settings) + 1):
        disk = MemoryDisk(random.Random(seed * 1000 + cut))
        owners: list[Owner] = []
        left = cut

        def before(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCutError

        disk.before = before
        with suppress(PowerCutError):
            life(disk, owners, settings)
        disk.before = None
        disk.crash()
        settle(disk, 5, *owners)
        disk.crash()
        settle(disk, 6, *owners)


def test_a_failed_sync_ends_the_epoch_and_the_successor_writes_the_bytes_again():
    """The pages look clean and are read; on the medium there is nothing (LOG-5)."""
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",))
    disk.failing_syncs.append(".log")
    with pytest.raises(LogFailedError, match="sync"):
        owner.commit("dropped")
    with pytest.raises(LogFailedError):
        owner.commit("never")
    new = Owner(disk, 2)
    new.work(("b",))
    disk.crash()
    found = settle(disk, 3, owner, new)
    assert list(found.values()) == ["a", "dropped", "b", "last-3"]


def test_a_short_append_ends_the_epoch():
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",))
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + 30
    with pytest.raises(LogFailedError, match="short write"):
        owner.commit("half")
    disk.capacity_bytes *= 100
    with pytest.raises(LogFailedError):
        owner.commit("never")
    assert list(settle(disk, 2, owner).values()) == ["a", "last-2"]


def test_a_full_disk_at_take_over_leaves_the_log_as_it_was():
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",))
    room = disk.capacity_bytes
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + 10
    for epoch in (2, 3, 4):
        with pytest.raises(LogFailedError, match="cannot take over"):
            Owner(disk, epoch).take_over()
    assert not [name for name in disk.list(PATH) if name.endswith(".new")]
    disk.capacity_bytes = room
    assert list(settle(disk, 5, owner).values()) == ["a", "last-5"]


@pytest.mark.parametrize("seed", range(60))
def test_faults_of_all_kinds_by_chance(seed):
    print(f"seed {seed}")
    rng = random.Random(seed)
    disk = MemoryDisk(random.Random(seed + 1))
    owners: list[Owner] = []
    for epoch in range(1, 12):
        owner = Owner(disk, epoch, rng.choice([LARGE, SMALL]))
        owners.append(owner)
        left = rng.choice([10_000, rng.randrange(120)])

        def before(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCutError

        disk.before = before
        if rng.random() < 0.3:
            disk.failing_syncs.append(rng.choice([".log", ".end", ".new"]))
        try:
            owner.take_over()
            for n in range(rng.randrange(8)):
                owner.commit(f"{epoch}-{n}")
            if rng.random() < 0.3:
                owner.delete_before(rng.randint(0, owner.log.committed_end_offset))
            owner.commit(f"{epoch}-end")
        except PowerCutError:
            disk.crash()
        except (FencedError, LogFailedError):
            pass
        disk.before = None
        disk.failing_syncs.clear()
    settle(disk, 99, *owners)


# ---- torn tail or corruption (LOG-14) -----------------------------------------------------


def log_file(disk: MemoryDisk) -> str:
    return next(path for path in reversed(disk.files()) if path.endswith(".log"))


@pytest.mark.parametrize("cut", range(1, 80))
def test_a_torn_tail_is_cut_off(cut):
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",))
    published = disk.read(f"{PATH}/0000000001.end")
    size = disk.size(log_file(disk))
    owner.commit("b")
    disk.truncate(log_file(disk), min(size + cut, disk.size(log_file(disk)) - 1))
    # As after a power cut in the middle of the commit: nothing of it was published.
    disk.open_slots(f"{PATH}/0000000001.end", 128).write(0, published)
    assert list(settle(disk, 2).values()) == ["a", "last-2"]


@pytest.mark.parametrize("place", ["offset", "length", "epoch", "magic", "crc", "payload"])
def test_a_flipped_bit_below_the_committed_end_is_reported_with_its_place(place):
    at = {"offset": 7, "length": 10, "epoch": 14, "magic": 16, "crc": 18, "payload": 66}[place]
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",), ("b",), ("c",))
    first_end = 64 + len(disk.read(log_file(disk), 64)) // 3
    disk.flip_bit(log_file(disk), first_end + at)
    if place in ("crc", "payload"):  # the headers are sound: found by whoever reads
        with pytest.raises(Exception, match=f"position {first_end}, offset 1"):
            read_log(disk)
        return
    with pytest.raises(CorruptLogError) as corrupt:
        Owner(disk, 2).take_over()
    assert corrupt.value.position == first_end
    assert corrupt.value.offset == 1
    assert corrupt.value.file == log_file(disk)


def test_a_flipped_bit_in_a_segment_header_is_corruption_and_not_an_empty_log():
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",))
    disk.flip_bit(log_file(disk), 30)
    with pytest.raises(CorruptLogError, match="checksum of the segment header"):
        Owner(disk, 2).take_over()


def test_invalid_bytes_before_a_valid_batch_behind_the_published_end_are_corruption():
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",), ("b",), ("c",))
    disk.open_slots(f"{PATH}/0000000001.end", 128).write(0, bytes(128))  # as after a power cut
    disk.flip_bit(log_file(disk), 64 + 66)
    with pytest.raises(CorruptLogError, match="a valid record batch follows"):
        Owner(disk, 2).take_over()


def test_a_file_cut_short_below_the_committed_end_is_corruption():
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a",), ("b",))
    disk.truncate(log_file(disk), disk.size(log_file(disk)) - 3)
    with pytest.raises(CorruptLogError, match="the file ends at"):
        Owner(disk, 2).take_over()


def test_a_missing_segment_is_corruption():
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1, SMALL)
    owner.work(*[(f"{n}",) for n in range(12)])
    segments = [path for path in disk.files() if path.endswith(".log")]
    assert len(segments) >= 3
    disk.delete(segments[1])
    with pytest.raises(CorruptLogError, match="missing"):
        Owner(disk, 2).take_over()


@pytest.mark.parametrize("seed", range(10))
def test_a_fence_outlives_a_power_cut(seed):
    disk = MemoryDisk(random.Random(seed))
    Owner(disk, 1).work(("a",))

    def before(operation: str, path: str) -> None:
        if operation == "list" and path == PATH:
            raise PowerCutError

    disk.before = before
    with pytest.raises(PowerCutError):
        Owner(disk, 2).take_over()
    disk.before = None
    disk.crash()
    with pytest.raises(FencedError):
        Owner(disk, 2).take_over()


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_comes_through_after_a_power_cut_although_the_published_end_lags(seed):
    disk = MemoryDisk(random.Random(seed))
    owner = Owner(disk, 1, SMALL)
    owner.work(*[(f"{n}",) for n in range(20)])
    _, published, _ = read_log(disk)
    owner.delete_before(15)
    owner.commit("end")
    disk.crash()
    start, end, found = read_log(disk)
    assert start == 15
    assert published <= end
    assert sorted(found) == list(range(start, end))


def test_the_log_start_never_goes_back():
    """LOG-16."""
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(("a", "b", "c"))
    owner.delete_before(2)
    owner.delete_before(1)
    assert owner.log.log_start_offset == 2
    disk.crash()
    assert sorted(settle(disk, 2, owner)) == [2, 3]


def test_segments_below_the_log_start_are_deleted_only_after_it_is_committed():
    """LOG-16."""
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1, SMALL)
    owner.work(*[(f"{n}",) for n in range(20)])
    operations: list[str] = []
    disk.before = lambda operation, path: operations.append(f"{operation} {path[-4:]}")
    owner.delete_before(15)
    first_delete = next(n for n, op in enumerate(operations) if op.startswith("delete"))
    assert operations.index("sync .new") < first_delete  # the marker, in the open segment
    assert operations[first_delete - 2 : first_delete] == ["sync .end", "list nces"]


def test_a_segment_whose_records_are_all_deleted_frees_its_space():
    disk = MemoryDisk(random.Random(3))
    owner = Owner(disk, 1)
    owner.work(*[(f"{n}" + "x" * 1000,) for n in range(60)])
    free = disk.free_bytes()
    owner.delete_before(owner.log.committed_end_offset)
    assert disk.free_bytes() > free + 50_000
    disk.crash()
    assert list(settle(disk, 2).values()) == ["last-2"]
