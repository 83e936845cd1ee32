"""The port Disk: one suite over files and over the double (house rule 9)."""

import pytest

from tests.contract.disks import KINDS, make_disk


@pytest.fixture(params=KINDS)
def disk(request, tmp_path):
    disk = make_disk(request.param, tmp_path)
    yield disk
    disk.close()


def test_appends_are_read_back_and_counted(disk):
    file = disk.create("f")
    file.append(b"abc")
    file.append(bytearray(b"def"))
    file.append(memoryview(b"gh"))
    assert file.size == 8
    assert disk.size("f") == 8
    assert disk.read("f") == b"abcdefgh"
    assert disk.read("f", 2, 3) == b"cde"
    assert disk.read("f", 6, 100) == b"gh"
    assert disk.read("f", 100, 5) == b""
    file.sync()
    file.close()


def test_create_is_exclusive(disk):
    disk.create("f").close()
    with pytest.raises(FileExistsError):
        disk.create("f")


def test_open_continues_at_the_end(disk):
    file = disk.create("f")
    file.append(b"abc")
    file.close()
    again = disk.open("f")
    assert again.size == 3
    again.append(b"d")
    assert disk.read("f") == b"abcd"
    again.close()


def test_what_is_absent_cannot_be_opened_read_or_measured(disk):
    for ask in (disk.open, disk.read, disk.size):
        with pytest.raises(FileNotFoundError):
            ask("absent")
    with pytest.raises(FileNotFoundError):
        disk.create("no/such/directory")
    with pytest.raises(FileNotFoundError):
        disk.rename("absent", "other")


def test_slots_are_written_over_in_place(disk):
    slots = disk.open_slots("s", 16)
    assert disk.read("s") == bytes(16)
    slots.write(8, b"12345678")
    slots.write(8, b"87654321")
    assert disk.read("s") == bytes(8) + b"87654321"
    slots.sync()
    slots.close()
    again = disk.open_slots("s", 16)
    assert disk.read("s", 8) == b"87654321"
    again.close()


def test_rename_replaces_and_keeps_open_files(disk):
    file = disk.create("a")
    file.append(b"1")
    disk.create("b").close()
    disk.rename("a", "b")
    file.append(b"2")
    assert disk.list(".") == ["b"]
    assert disk.read("b") == b"12"
    file.close()


def test_delete_takes_files_and_empty_directories_and_nothing_twice(disk):
    disk.make_directory("d/e")
    disk.create("d/e/f").close()
    with pytest.raises(OSError, match="not empty"):
        disk.delete("d/e")
    disk.delete("d/e/f")
    disk.delete("d/e")
    disk.delete("d/e")
    assert disk.list("d") == []


def test_an_open_file_that_was_deleted_can_still_be_written(disk):
    file = disk.create("f")
    disk.delete("f")
    file.append(b"x")
    file.sync()
    file.close()
    assert disk.list(".") == []


def test_listing_is_sorted_and_an_absent_directory_is_empty(disk):
    disk.make_directory("d")
    for name in ("c", "a", "b"):
        disk.create(f"d/{name}").close()
    assert disk.list("d") == ["a", "b", "c"]
    assert disk.list("absent") == []
    assert disk.list(".") == ["d"]


def test_making_a_directory_twice_is_fine(disk):
    disk.make_directory("a/b/c")
    disk.make_directory("a/b/c")
    assert disk.list("a/b") == ["c"]
    disk.sync_directory("a/b")


def test_a_small_file_is_replaced_whole(disk):
    disk.make_directory("d")
    disk.write_small("d/f", b"one")
    disk.write_small("d/f", b"two")
    assert disk.read("d/f") == b"two"
    assert disk.list("d") == ["f"]


def test_there_is_space(disk):
    before = disk.free_bytes()
    assert before > 1 << 20


async def test_a_job_returns_its_result_or_raises_its_error(disk):
    assert await disk.run(lambda: 7) == 7
    with pytest.raises(FileNotFoundError):
        await disk.run(lambda: disk.read("absent"))
