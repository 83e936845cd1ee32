"""How far a run has come, told while it goes on: tasks, and about how many shards and records."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

from pyspark.sql import SparkSession
from rich.console import Console

from sharemesh_spark.data_directory import shard_bounds, shards

LOOK_EVERY_S = 0.5
LINE_EVERY_S = 10.0
"""Where there is no terminal, a line is written so often."""


@dataclass(frozen=True, slots=True)
class Work:
    """How much a run is to read; no records: that is not known."""

    shards: int = 0
    records: int = 0


def whole_log(data: Path) -> Work:
    """Return how much there is in the log now."""
    bounds = [shard_bounds(data, shard) for shard in shards(data)]
    return Work(len(bounds), sum(end - start for start, end in bounds))


def line(what: str, work: Work, done: int, tasks: int, seconds: float) -> str:
    """Return what to tell when so many tasks of a stage are done; tasks are about as large."""
    told = [what]
    if tasks:
        told.append(f"{done} of {tasks} tasks")
    if tasks and work.records:
        records = work.records * done // tasks
        told.append(f"about {work.shards * done // tasks} of {work.shards} shards")
        told.append(f"{records:,} of {work.records:,} records")
        told.append(f"{records / max(seconds, 0.001):,.0f} records/s")
    told.append(f"{seconds:.0f} s")
    return ", ".join(told)


@contextmanager
def progress(
    spark: SparkSession,
    console: Console,
    what: str,
    work: Work | None = None,
    *,
    line_every_s: float = LINE_EVERY_S,
) -> Iterator[None]:
    """Tell how far Spark is while the body runs: in place on a terminal, else line by line."""
    ended = Event()
    with console.status(what) as status:

        def tell() -> None:
            began = told = perf_counter()
            while not ended.wait(min(LOOK_EVERY_S, line_every_s)):
                now = perf_counter()
                text = line(what, work or Work(), *_tasks(spark), now - began)
                status.update(text)
                if not console.is_terminal and now - told >= line_every_s:
                    told = now
                    console.print(text, highlight=False, soft_wrap=True)

        teller = Thread(target=tell, name="progress", daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()


def _tasks(spark: SparkSession) -> tuple[int, int]:
    """Return done and all tasks of the stages that run."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    done = sum(stage.numCompletedTasks for stage in known)
    return done, sum(stage.numTasks for stage in known)
