"""What only one of the disks does: paths of SystemDisk, faults of MemoryDisk."""

import random

import pytest

from sharemesh.backends.local.disk import SystemDisk
from sharemesh.testing.memory_disk import MemoryDisk


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_a_path_that_leaves_the_data_directory_is_refused(tmp_path, path):
    disk = SystemDisk(tmp_path)
    with pytest.raises(ValueError, match="leaves the data directory"):
        disk.read(path)
    disk.close()


def outcomes(make) -> set:
    return {make(MemoryDisk(random.Random(seed))) for seed in range(60)}


def test_a_crash_keeps_what_was_synced_and_any_part_of_the_rest():
    def make(disk):
        file = disk.create("f")
        file.append(b"synced")
        file.sync()
        disk.sync_directory(".")
        file.append(b"rest")
        disk.crash()
        return disk.read("f")

    found = outcomes(make)
    assert {b"synced", b"syncedrest"} < found
    assert b"synced\0\0\0\0" in {data.replace(b"r", b"\0") for data in found}
    assert all(data.startswith(b"synced") for data in found)


def test_a_crash_may_forget_a_name_that_was_not_synced():
    def make(disk):
        file = disk.create("f")
        file.append(b"x")
        file.sync()
        disk.crash()
        return tuple(disk.list("."))

    assert outcomes(make) == {(), ("f",)}


def test_a_crash_may_undo_a_rename_and_a_delete_that_were_not_synced():
    def make(disk):
        for name in ("a", "c"):
            disk.create(name)
        disk.sync_directory(".")
        disk.rename("a", "b")
        disk.delete("c")
        disk.crash()
        return tuple(disk.list("."))

    assert outcomes(make) == {("a", "c"), ("b", "c"), ("a",), ("b",)}


def test_a_synced_rename_survives():
    def make(disk):
        file = disk.create("a.new")
        file.append(b"x")
        file.sync()
        disk.rename("a.new", "a")
        disk.sync_directory(".")
        disk.crash()
        return tuple(disk.list(".")), disk.read("a")

    assert outcomes(make) == {(("a",), b"x")}


def test_a_failed_sync_drops_pages_that_reads_go_on_showing():
    disk = MemoryDisk(random.Random(1))
    file = disk.create("f")
    disk.sync_directory(".")
    file.append(b"lost")
    disk.failing_syncs.append("f")
    with pytest.raises(OSError, match="sync failed"):
        file.sync()
    file.sync()  # nothing is dirty any more: it succeeds and helps nobody
    file.append(b"kept")
    file.sync()
    assert disk.read("f") == b"lostkept"
    disk.crash()
    assert disk.read("f") == b"\0\0\0\0kept"


def test_a_full_disk_takes_a_part_and_fails():
    disk = MemoryDisk(random.Random(1))
    disk.capacity_bytes = 10
    file = disk.create("f")
    file.append(b"12345678")
    with pytest.raises(OSError, match="short write"):
        file.append(b"abcd")
    assert disk.read("f") == b"12345678ab"
    assert disk.free_bytes() == 0


def test_a_crash_makes_open_files_useless():
    disk = MemoryDisk(random.Random(1))
    file = disk.create("f")
    disk.crash()
    with pytest.raises(OSError, match="before the crash"):
        file.append(b"x")


def test_one_seed_is_one_history():
    def run(seed):
        disk = MemoryDisk(random.Random(seed))
        for n in range(20):
            file = disk.create(f"{n}")
            file.append(bytes(range(50)))
        disk.crash()
        return [(path, disk.read(path)) for path in disk.files()]

    assert run(5) == run(5)
    assert run(5) != run(6)
