"""Part spark of `make faults`: real runs of `sharemesh-spark`, killed with all their processes."""

import asyncio
import random
import tempfile
from collections import Counter
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq

from sharemesh.codec.generation import FOLDER, MANIFEST
from sharemesh_spark.generation.compact import commit, publish
from sharemesh_spark.generation.generation_files import hinted_generation, read_manifest
from sharemesh_spark.generation.shard_fold import generation_of_shard
from sharemesh_spark.history import history
from tests.faults.spark_checks import (
    check_coordinator,
    check_generations,
    check_history,
    pointers,
)
from tests.faults.spark_cluster import PRUNED_AFTER_MS, Growth, spark_cluster
from tests.faults.spark_job import SparkJob, killed, measured
from tests.faults.state_log import Violations
from tests.faults.trials import ROOT, Outcome, Series
from tests.share_coordinator.world import CONTEXT

WRITES_FIRST = 1_000
WRITES_EACH = 60
TRIES_MAX = 4
"""A job that ends before its moment is no trial: the log grows, and the next run is tried."""


class Spot:
    """One series: a cluster, the log that grows in it, and the runs of one command."""

    def __init__(self, directory, cluster, rng, command):
        self.cluster = cluster
        self.rng = rng
        self.growth = Growth(cluster, rng)
        self.violations = Violations()
        self.times_ms = []
        self.seen: Counter[str] = Counter()
        self._directory = directory
        self._command = command
        folder = FOLDER if command == "compact" else history.FOLDER
        self._folder = cluster.data / folder

    def job(self):
        data, bootstrap = self.cluster.data, f"127.0.0.1:{self.cluster.port}"
        more = ("--commit", "--bootstrap", bootstrap) if self._command == "compact" else ()
        work = self._directory / "work"
        return SparkJob.running(
            self._directory / "job.log", self._command, data, *more, "--cores", 1, "--work", work
        )

    def made(self, beside=""):
        """Return the folders of runs, unfinished ones too, that hold such a file."""
        found = (*self._folder.glob(f"*/{beside}"), *self._folder.glob(f"runs/*/{beside}"))
        return {path.parent if beside else path for path in found}

    async def whole_run(self):
        """Let a run end; the kill that comes next is timed by it."""
        known = self.made()
        async with self.job() as job:
            return await measured(job, lambda: bool(self.made() - known))

    async def killed(self, usual, manifest):
        """Let a run be killed while the log grows on; return which folders it left."""
        for _ in range(TRIES_MAX):
            known = self.made()
            growing = asyncio.ensure_future(self.growth.go_on())
            try:
                async with self.job() as job:
                    kind = await killed(
                        job, self.rng, usual, lambda known=known: self.made(manifest) - known
                    )
            finally:
                growing.cancel()
                with suppress(asyncio.CancelledError):
                    await growing
            if kind:
                self.seen[f"at {kind}"] += 1
                return self.made() - known
            self.seen["faster than the kill"] += 1
            await self.growth.grow(WRITES_EACH)
        raise AssertionError(f"{TRIES_MAX} runs ended before the moment of their kill")

    async def rerun(self):
        """Let a run end; its time is what a trial tells."""
        usual = await self.whole_run()
        self.times_ms.append(usual.end_s * 1_000)
        return usual

    def tell(self, number, left):
        """Count what the kill left, and say how the trial went: a series is long."""
        self.seen[left] += 1
        about = f"{self._command} kill {number}: {left}, rerun {self.times_ms[-1]:.0f} ms"
        print(f"  {about}, {len(self.violations.found)} violations so far", flush=True)

    def outcome(self, trials):
        seen = ", ".join(f"{count} {what}" for what, count in sorted(self.seen.items()))
        return Outcome(self.violations.found, tuple(self.times_ms), seen, trials)


@asynccontextmanager
async def spot(seed, command):
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        async with spark_cluster(Path(directory) / "data") as cluster:
            made = Spot(Path(directory), cluster, random.Random(seed), command)
            await made.growth.begin(WRITES_FIRST)
            yield made


async def compact_kill(trials, seed, usual=None):
    """`sharemesh-spark compact --commit` dies: generations are whole, and the next run commits."""
    async with spot(seed, "compact") as here:
        cluster, data = here.cluster, here.cluster.data
        usual = usual or await here.whole_run()
        for number in range(trials):
            about = f"kill {number}"
            await here.growth.grow(WRITES_EACH)
            new = await here.killed(usual, MANIFEST)
            await check_generations(cluster, here.violations, about)
            left = _how_far(cluster, new)
            await check_coordinator(cluster, here.violations, about)
            usual = await here.rerun()
            newest = hinted_generation(data)
            cluster.remember()
            for shard in cluster.raw:
                named = pointers(cluster, shard)[-1].generation_id
                here.violations.unless(named == newest, f"{about}: shard {shard} has {named}")
            about = f"rerun {number}"
            await check_generations(cluster, here.violations, about)
            await check_coordinator(cluster, here.violations, about)
            here.tell(number, left)
            if here.rng.random() < 0.5:
                await cluster.pass_time(PRUNED_AFTER_MS)
        return here.outcome(trials)


def _how_far(cluster, new):
    """Return what the killed run left: the point at which it was met."""
    names = [path.name for path in new if path.suffix != ".new"]
    if not names:
        return "while writing" if new else "before its first file"
    ids = [{p.generation_id for p in pointers(cluster, shard)} for shard in cluster.raw]
    shards = sum(names[-1] in each for each in ids)
    return f"published, committed in {shards} of {len(ids)} shards"


async def history_kill(trials, seed, usual=None):
    """`sharemesh-spark history` dies: each change is in the table once, up to its watermark."""
    async with spot(seed, "history") as here:
        cluster, data = here.cluster, here.cluster.data
        usual = usual or await here.whole_run()
        for number in range(trials):
            about = f"kill {number}"
            await here.growth.grow(WRITES_EACH)
            new = await here.killed(usual, history.MANIFEST)
            check_history(cluster, here.violations, about)
            left = _how_far_history(new)
            usual = await here.rerun()
            reached = history.watermark(data)
            for shard in cluster.raw:
                end, found = cluster.end_offset(shard), reached.get(shard, 0)
                here.violations.unless(found == end, f"{about}: {found} of {end} in shard {shard}")
            check_history(cluster, here.violations, f"rerun {number}")
            here.tell(number, left)
            if here.rng.random() < 0.5:
                await _commit_without_spark(cluster, f"{number:06d}")
                await cluster.pass_time(PRUNED_AFTER_MS)
        return here.outcome(trials)


def _how_far_history(new):
    if any(path.parent.name == history.RUNS for path in new):
        return "published"
    return "while writing" if new else "before its first file"


async def _commit_without_spark(cluster, generation_id):
    """Commit a generation with the history's watermark, so that the log may be pruned up to it."""
    cluster.remember()
    loop = asyncio.get_running_loop()

    def ask(request):
        answer = cluster.service.commit_generation(request, CONTEXT)
        return asyncio.run_coroutine_threadsafe(answer, loop).result(30)

    def made():
        scratch = cluster.data / FOLDER / f"{generation_id}.new"
        scratch.mkdir(parents=True)
        for shard in cluster.raw:
            table = generation_of_shard(cluster.data, shard)
            pq.write_table(table, scratch / f"part-{shard}.parquet")
        publish(cluster.data, scratch, generation_id)
        manifest = read_manifest(cluster.data, generation_id)
        commit(cluster.data, manifest, ask, history=history.watermark(cluster.data))

    await asyncio.to_thread(made)


FAULTS = (
    Series("compact_kill", 20, compact_kill, at_once=5),
    Series("history_kill", 20, history_kill, at_once=5),
)
