"""cluster.json: made once, checked at every start; nothing changes when it is refused."""

import json
import random

import pytest

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.codec.log_layout import DataDirectoryError
from sharemesh.testing.memory_disk import MemoryDisk


def disk_and_open():
    disk = MemoryDisk(random.Random(1))

    async def open_it(cluster_id="c1", group_shards=4, state_shards=8):
        return await open_data_directory(
            disk, cluster_id=cluster_id, group_shards=group_shards, state_shards=state_shards
        )

    return disk, open_it


async def test_it_is_made_once_and_survives_a_power_cut():
    disk, open_it = disk_and_open()
    made = await open_it()
    disk.crash()
    assert await open_it() == made
    assert json.loads(disk.read("cluster.json"))["state_shards"] == 8


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cluster_id": "c2"}, "belongs to cluster 'c1', not to 'c2'"),
        ({"group_shards": 5}, "made with group_shards = 4, and 5 is configured"),
        ({"state_shards": 5}, "made with state_shards = 8, and 5 is configured"),
    ],
)
async def test_another_cluster_or_another_number_of_shards_is_refused(changed, message):
    """LOG-3."""
    disk, open_it = disk_and_open()
    await open_it()
    before = disk.read("cluster.json")
    with pytest.raises(DataDirectoryError, match=message):
        await open_it(**changed)
    assert disk.read("cluster.json") == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"format": 2}', "format 2, newer than 1: use a newer version"),
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"format": 1, "cluster_id": "c1"}', "cannot be read"),
    ],
)
async def test_a_newer_or_broken_file_is_refused_and_kept(content, message):
    disk, open_it = disk_and_open()
    disk.write_small("cluster.json", content)
    with pytest.raises(DataDirectoryError, match=message):
        await open_it()
    assert disk.read("cluster.json") == content


async def test_a_directory_with_other_things_in_it_is_refused():
    disk, open_it = disk_and_open()
    disk.create("holiday.jpg").close()
    with pytest.raises(DataDirectoryError, match=r"holiday.jpg.*use an empty directory"):
        await open_it()
    assert disk.list(".") == ["holiday.jpg"]
