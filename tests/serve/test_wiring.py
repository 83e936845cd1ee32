"""Settings reach what they are about, and a process that lost a vital part says so."""

import asyncio

import pytest

from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.local.clock import SystemClock
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store.configs import take_producer_ids
from sharemesh.domain.ids import NodeId
from sharemesh.ports.cluster import NodeInfo
from sharemesh.serve.exit_codes import StartError
from sharemesh.serve.settings.room_settings import (
    SEGMENT_BYTES_MIN,
    persister_settings,
    share_coordinator_settings,
    state_log_settings,
)
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.storage.producer_ids import BlockProducerIds
from sharemesh.serve.supervise.data_directory import DirectoryLock
from sharemesh.serve.supervise.local_cluster import LocalCluster
from sharemesh.testing.cluster_records import ClusterRecords
from tests.clocks import LoopClock


@pytest.fixture
async def world():
    world = ClusterRecords(LoopClock())
    await world.open()
    yield world
    await world.close()


def test_settings_of_the_share_coordinator_have_kafkas_defaults():
    """CFG-13, CFG-14."""
    made = share_coordinator_settings({})
    assert (made.updates_per_snapshot, made.prune_interval_ms) == (500, 300_000)
    assert (made.cold_snapshot_interval_ms, made.runtime.write_timeout_ms) == (300_000, 5_000)
    assert (made.generation_grace_ms, made.runtime.linger_ms) == (604_800_000, -1)
    assert state_log_settings(LogSettings(), {}).segment_bytes == 104_857_600
    assert persister_settings({}).request_timeout_ms == 6_000


def test_settings_of_the_share_coordinator_are_those_of_the_cluster():
    configs = {
        "share.coordinator.snapshot.update.records.per.snapshot": "0",
        "share.coordinator.state.topic.prune.interval.ms": "1000",
        "share.coordinator.cold.partition.snapshot.interval.ms": "2000",
        "share.coordinator.write.timeout.ms": "3000",
        "share.coordinator.append.linger.ms": "20",
        "share.coordinator.state.topic.segment.bytes": "1",
        "state.log.spark.grace.ms": "4000",
    }
    made = share_coordinator_settings(configs)
    assert (made.updates_per_snapshot, made.prune_interval_ms) == (0, 1_000)
    assert (made.cold_snapshot_interval_ms, made.runtime.write_timeout_ms) == (2_000, 3_000)
    assert (made.generation_grace_ms, made.runtime.linger_ms) == (4_000, 20)
    bounds = state_log_settings(LogSettings(fsync=False), configs)
    assert (bounds.segment_bytes, bounds.fsync) == (SEGMENT_BYTES_MIN, False)
    assert persister_settings(configs).request_timeout_ms == 4_000


async def test_producer_ids_go_on_above_what_the_data_holds(world):
    coordination, view = world.coordination, world.view
    seen = [41_000]
    ids = BlockProducerIds(coordination, view, lambda: seen[0])
    assert await ids.allocate() == 41_001
    seen[0] = 90_000  # a block that was begun is used up: nobody else has its ids
    assert await ids.allocate() == 41_002
    other = BlockProducerIds(coordination, view, lambda: -1)
    assert await other.allocate() == 42_001
    assert (await take_producer_ids(coordination, view, at_least=0)).start == 43_001


async def test_a_refused_second_up_leaves_the_run_file_of_the_first_alone(tmp_path):
    (tmp_path / "run").mkdir()
    run_file = tmp_path / "run" / "cluster.json"
    run_file.write_text("of the first")
    settings = ServeSettings(data_directory=tmp_path)
    second = LocalCluster(settings, UpSettings(base_port=0), clock=SystemClock())
    with DirectoryLock(tmp_path):
        with pytest.raises(StartError, match="in use by another cluster"):
            await second.start()
        await second.stop()
        assert run_file.read_text() == "of the first"


async def test_the_death_of_a_vital_task_is_told_in_words(world, caplog):
    member = ClusterMember(
        world.coordination, world.view, NodeInfo(NodeId("n"), "h", 1, ()), LoopClock()
    )
    told = []
    member.on_broken(told.append)

    async def dies():
        raise ValueError("no more")

    async def ends():
        return

    fine = asyncio.create_task(ends(), name="fine")
    stopped = asyncio.create_task(asyncio.sleep(60), name="stopped")
    dying = asyncio.create_task(dies(), name="placement controller")
    for task in (fine, stopped, dying):
        member.vital(task)
    stopped.cancel()
    await asyncio.wait([fine, stopped, dying])
    await asyncio.sleep(0)
    assert told == ["placement controller died: ValueError: no more"]
    assert "task placement controller died" in caplog.text
