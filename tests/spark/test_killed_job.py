"""The job killed at each of its steps: whoever reads sees whole generations, and a rerun ends well.

Real processes, real SIGKILL, the coordinator's own loader; only Spark itself is left out, which
writes nothing that anybody looks at before ``publish``.
"""

import asyncio
import multiprocessing
import random
import signal

import pytest

from sharemesh.codec.generation import FOLDER
from sharemesh.domain.share_state.fold import content_hash
from sharemesh_spark.generation.compact import Request
from sharemesh_spark.generation.generation_files import hinted_generation, read_base, read_manifest
from sharemesh_spark.generation.shard_fold import generation_of_shard
from tests.share_coordinator.world import CONTEXT, Client
from tests.spark import killed_job
from tests.spark.reference_fold import fold_of_log
from tests.spark.test_generations import cluster, machine_states, writes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
TRIALS = 20


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.spark.killed_job"])
    return context


async def job(processes, data, service, generation_id, kill_at=None):
    """Run the job in a process of its own; return (exit code, what it told at the end)."""
    ours, theirs = processes.Pipe()
    process = processes.Process(
        target=killed_job.run, args=(data, 1, generation_id, kill_at, theirs), daemon=True
    )
    process.start()
    theirs.close()
    told = []
    try:
        while True:
            message = await asyncio.to_thread(ours.recv)
            if not isinstance(message, bytes):
                told.append(message)
                continue
            answer = await service.commit_generation(Request.FromString(message), CONTEXT)
            try:
                ours.send(answer.SerializeToString())
            except OSError:  # killed while it waited for the answer
                break
    except EOFError:
        pass
    await asyncio.to_thread(process.join, 60)
    assert process.exitcode is not None, "the job hangs"
    return process.exitcode, told


async def started(c, service):
    for group in ("g1", "g2"):
        await Client(service, group).I(1, 0)
        await writes(service, 5, group=group)


async def steps_of_a_whole_run(processes, folder):
    async with cluster(folder) as c, c.coordinator() as service:
        await started(c, service)
        code, told = await job(processes, folder, service, "g-1")
        assert code == 0
        [steps] = told
        return steps


def check_readers(data):
    """Whatever names itself a generation is whole; a reader folds to what the raw log folds to."""
    for folder in (data / FOLDER).glob("*"):
        if not folder.name.endswith(".new"):
            manifest = read_manifest(data, folder.name)
            for each in manifest.shards:
                assert len(read_base(data, folder.name, each.shard).names) == each.share_partitions
    hinted = hinted_generation(data)
    if hinted:
        read_manifest(data, hinted)
    generation_of_shard(data, 0)


async def test_the_job_killed_at_20_points_leaves_whole_generations_only(processes, tmp_path):
    steps = await steps_of_a_whole_run(processes, tmp_path / "whole")
    assert steps >= TRIALS
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    points = sorted(random.Random(seed).sample(range(1, steps + 1), TRIALS))
    for kill_at in points:
        await killed_once(processes, tmp_path / f"kill-{kill_at}", kill_at)


async def killed_once(processes, data, kill_at):
    about = f"killed at step {kill_at}"
    async with cluster(data) as c:
        async with c.coordinator() as service:
            await started(c, service)
            code, _ = await job(processes, data, service, "g-1", kill_at)
            assert code == -signal.SIGKILL, about
            served = machine_states(service)
            check_readers(data)
        async with c.coordinator() as service:  # generation and tail, or the log alone
            assert machine_states(service) == served, about
            code, told = await job(processes, data, service, "g-2")
            assert code == 0, about
            assert [each for each in told if isinstance(each, str)] == [], about
            await writes(service, 2, first=9)
            served = machine_states(service)
        [again] = read_manifest(data, "g-2").shards
        raw = fold_of_log(data, 0, again.end_offset)
        assert again.content_hash == content_hash(raw.states, raw.floors).hex(), about
        check_readers(data)
        async with c.coordinator() as service:
            shard = service.shards.shard(0)
            assert shard.peek(lambda machine: machine.generation.pointer.generation_id) == "g-2"
            assert machine_states(service) == served, about
