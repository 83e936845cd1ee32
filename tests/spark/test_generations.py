"""Generations from log to coordinator and back: commit, load, prune, two jobs, deleted keys."""

import asyncio
import itertools
import random
from contextlib import asynccontextmanager

import pyarrow.parquet as pq
import pytest

from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.generation import FOLDER
from sharemesh.ports.shard_log import CorruptLogError
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh.share_coordinator.service import ShareCoordinatorService
from sharemesh.share_coordinator.settings import ShareCoordinatorSettings
from sharemesh_spark.generation.compact import NotCommittedError, commit, publish
from sharemesh_spark.generation.shard_fold import generation_of_shard
from sharemesh_spark.generation.source import SomeShards, StateLogReader
from sharemesh_spark.reader.data_directory import UnreadableLogError
from tests.share_coordinator.world import CONTEXT, Client, world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
DAY_MS = 24 * 60 * 60 * 1_000


def make(data, generation_id):
    """What the Spark job does, without Spark."""
    scratch = data / FOLDER / f"{generation_id}.new"
    scratch.mkdir(parents=True)
    pq.write_table(generation_of_shard(data, 0), scratch / "part-0.parquet")
    return publish(data, scratch, generation_id)


class Cluster:
    def __init__(self, w, data):
        self.w = w
        self.data = data
        self.disk = SystemDisk(data)
        self.logs = EmbeddedShardLogs(self.disk, w.clock, LogSettings(fsync=False))

    @asynccontextmanager
    async def coordinator(self, **settings):
        settings = {"metadata_wait_ms": 0, "updates_per_snapshot": 2, **settings}
        service = ShareCoordinatorService(
            self.w.view,
            self.w.clock,
            self.logs,
            ShareCoordinatorSettings(**settings),
            generations=GenerationReader(self.disk),
        )
        service.start()
        self.w.epoch += 1
        try:
            await service.shards.start_shard(0, self.w.epoch)
            yield service
        finally:
            await service.close()

    async def commit(self, service, manifest):
        loop = asyncio.get_running_loop()

        def ask(request):
            answer = service.commit_generation(request, CONTEXT)
            return asyncio.run_coroutine_threadsafe(answer, loop).result(30)

        return await asyncio.to_thread(commit, self.data, manifest, ask)


@asynccontextmanager
async def cluster(data):
    async with world() as w:
        made = Cluster(w, data)
        await open_data_directory(made.disk, cluster_id="test", group_shards=1, state_shards=1)
        yield made
        made.disk.close()


async def writes(service, count, *, group="g1", first=0):
    g = Client(service, group)
    for n in range(first, first + count):
        assert (await g.W(1, 0, n, 0, [(n, n + 3, 2, 1)])).error_code == 0


async def until(condition, deadline_s=20):
    async with asyncio.timeout(deadline_s):
        while not condition():
            await asyncio.sleep(0.01)


def machine_states(service):
    return dict(service.shards.shard(0).peek(lambda machine: dict(machine.states())))


async def test_a_coordinator_loads_generation_and_tail_and_prunes_below(tmp_path):
    async with cluster(tmp_path) as c:
        async with c.coordinator() as service:
            for group in ("g1", "g2"):
                await Client(service, group).I(1, 0)
                await writes(service, 7, group=group)
            assert await c.commit(service, make(tmp_path, "g-1")) == [0]
            await writes(service, 1, first=9)
            served = machine_states(service)
        async with c.coordinator() as service:
            shard = service.shards.shard(0)
            assert machine_states(service) == served
            assert shard.peek(lambda m: m.restored_keys(5))  # it did not replay the whole log
            await c.w.clock.advance(600_001)
            end = shard.peek(lambda m: m.generation.pointer.end_offset)
            await until(lambda: shard.log_start_offset == end)
            await writes(service, 1, group="g2", first=12)
            served = machine_states(service)
        async with c.coordinator() as service:
            assert machine_states(service) == served
            again = make(tmp_path, "g-2")
            assert again.shards[0].previous_generation_id == "g-1"
            assert await c.commit(service, again) == [0]
        async with c.coordinator() as service:
            assert {key: s.start_offset for key, s in machine_states(service).items()} == {
                key: s.start_offset for key, s in served.items()
            }


async def test_of_two_jobs_at_once_one_commits_and_the_other_is_told(tmp_path):
    async with cluster(tmp_path) as c, c.coordinator() as service:
        await Client(service).I(1, 0)
        await writes(service, 3)
        one, other = make(tmp_path, "g-1"), make(tmp_path, "g-2")
        await c.commit(service, one)
        with pytest.raises(NotCommittedError, match="another job was first"):
            await c.commit(service, other)


async def test_a_generation_that_no_longer_joins_the_log_is_refused(tmp_path):
    async with cluster(tmp_path) as c, c.coordinator(updates_per_snapshot=0) as service:
        await Client(service).I(1, 0)
        await writes(service, 3)
        late = make(tmp_path, "g-1")
        await writes(service, 3, first=5)
        await c.w.clock.advance(600_001)
        end = late.shards[0].end_offset
        await until(lambda: service.shards.shard(0).log_start_offset > end)
        with pytest.raises(NotCommittedError, match="outside the committed log"):
            await c.commit(service, late)


async def test_a_generation_that_was_changed_on_disk_is_not_loaded(tmp_path):
    async with cluster(tmp_path) as c:
        async with c.coordinator() as service:
            await Client(service).I(1, 0)
            await writes(service, 3)
            await c.commit(service, make(tmp_path, "g-1"))
        [file] = (tmp_path / FOLDER / "g-1").glob("*.parquet")
        table = pq.read_table(file)
        index = table.column_names.index("start_offset")
        changed = [None if v is None else v + 1 for v in table.column(index).to_pylist()]
        pq.write_table(table.set_column(index, "start_offset", [changed]).cast(table.schema), file)
        with pytest.raises(CorruptLogError, match="not what was committed"):
            async with c.coordinator():
                pass
        file.unlink()
        with pytest.raises(CorruptLogError, match="cannot be read"):
            async with c.coordinator():
                pass


async def test_a_stale_generation_is_dropped_only_when_the_log_holds_everything(tmp_path):
    async with cluster(tmp_path) as c:
        async with c.coordinator() as service:
            await Client(service, "deleted").I(5, 0)
            await Client(service, "deleted").D()
            await Client(service).I(6, 0)
            await c.commit(service, make(tmp_path, "g-1"))
        async with c.coordinator() as service:
            shard = service.shards.shard(0)
            await c.w.clock.advance(600_001)  # nothing of the log is left
            await c.w.clock.advance(9 * DAY_MS)
            await until(lambda: shard.peek(lambda machine: machine.generation) is None)
            served, floors = machine_states(service), shard.peek(lambda machine: machine.floors)
        async with c.coordinator() as service:
            shard = service.shards.shard(0)
            assert not shard.peek(lambda m: m.restored_keys(1))
            assert machine_states(service) == served
            assert shard.peek(lambda machine: machine.floors) == floors


@pytest.mark.parametrize("seed", range(6))
async def test_deleted_keys_never_come_back_whatever_the_order(tmp_path, seed):
    """Compaction, delete, prune and restart in random order; the states served are a model's."""
    rng = random.Random(seed)
    async with cluster(tmp_path) as c:
        model, epochs, made = {}, {}, 0
        for _ in range(8):
            async with c.coordinator(updates_per_snapshot=rng.randrange(3)) as service:
                served = {key.group_id: s for key, s in machine_states(service).items()}
                assert {g: s.start_offset for g, s in served.items()} == model, f"seed {seed}"
                for _ in range(6):
                    group = rng.choice("abc")
                    client = Client(service, group)
                    match rng.randrange(5):
                        case 0 if group in model:
                            assert (await client.D()).error_code == 0
                            del model[group]
                        case 1 if group in model:
                            model[group] += 1
                            start = model[group]
                            batch = (start, start, 2, 1)
                            answer = await client.W(epochs[group], 0, start, 0, [batch])
                            assert answer.error_code == 0
                        case 2:
                            made += 1
                            await c.commit(service, make(tmp_path, f"g-{made:03d}"))
                        case 3:
                            await c.w.clock.advance(600_001)
                        case _ if group not in model:
                            epochs[group] = max(epochs.values(), default=0) + 1
                            assert (await client.I(epochs[group], 3)).error_code == 0
                            model[group] = 3


async def test_a_deleted_key_stays_away_in_every_order_of_what_moves_the_log(tmp_path):
    """All orders of two compactions, the deletion, pruning and a restart; then all of them again.

    The second compaction makes both kinds of generation: with the key, and without it.
    """
    steps = ("compaction", "compaction", "deletion", "pruning", "restart")
    orders = sorted(set(itertools.permutations(steps)))
    assert len(orders) == 60
    for number, order in enumerate(orders):
        await in_this_order(tmp_path / str(number), (*order, "pruning", "compaction", "restart"))


async def in_this_order(data, order):
    about = " -> ".join(order)
    async with cluster(data) as c:
        deleted, begun = False, False
        rest = iter(enumerate(order))
        for _ in range(1 + order.count("restart")):
            async with c.coordinator() as service:
                if not begun:
                    begun = True
                    for group in ("gone", "stays"):
                        await Client(service, group).I(3, 0)
                        await Client(service, group).W(3, 0, 5, 0, [(5, 9, 2, 1)])
                check_groups(service, deleted, about)
                for number, step in rest:
                    if step == "restart":
                        break
                    if step == "compaction":
                        await c.commit(service, make(data, f"g-{number}"))
                    elif step == "deletion":
                        assert (await Client(service, "gone").D()).error_code == 0
                        deleted = True
                    else:
                        await c.w.clock.advance(600_001)
                    check_groups(service, deleted, about)
                else:  # the last one: a new life begins above what was deleted
                    floors = service.shards.shard(0).peek(lambda machine: machine.floors)
                    assert floors.state_epoch >= 3, about


def check_groups(service, deleted, about):
    found = {key.group_id for key in machine_states(service)}
    assert found == ({"stays"} if deleted else {"gone", "stays"}), about


async def test_a_lost_generation_is_an_error_and_not_an_empty_state(tmp_path):
    async with cluster(tmp_path) as c:
        async with c.coordinator() as service:
            await Client(service).I(1, 0)
            await writes(service, 3)
            await c.commit(service, make(tmp_path, "g-1"))
        (tmp_path / FOLDER / "g-1").rename(tmp_path / "elsewhere")
        with pytest.raises(UnreadableLogError, match="g-1 cannot be read"):
            generation_of_shard(tmp_path, 0)


@pytest.mark.parametrize(("prove", "all_of_them"), [("all", True), ("sample", False)])
async def test_every_state_of_a_large_log_is_proven_on_demand(
    tmp_path, monkeypatch, prove, all_of_them
):
    monkeypatch.setattr("sharemesh_spark.generation.shard_fold.PROVE_ALL_BYTES", 0)
    async with cluster(tmp_path) as c, c.coordinator() as service:
        for number in range(20):
            await Client(service, f"group-{number}").I(1, 0)
        options = {"path": str(tmp_path), "fold": "true", "prove": prove}
        reader = StateLogReader(options, ["kind", "proof"])
        rows = [row for batch in reader.read(SomeShards((0,))) for row in batch.to_pylist()]
    proofs = [row["proof"] for row in rows if row["kind"] == "state"]
    assert len(proofs) == 20
    assert all(proofs) == all_of_them
