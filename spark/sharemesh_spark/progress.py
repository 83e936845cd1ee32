"""Shows what a run is doing: the step, its tasks, shards and records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

from pyspark.sql import SparkSession
from rich.console import Console

from sharemesh_spark.reader.data_directory import shard_bounds, shards

LOOK_EVERY_S = 0.5
LINE_EVERY_S = 10.0
"""Where there is no terminal, a line is written so often."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProgressWork:
    """How much a run is to read; no records: that is not known."""

    shards: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of the stages that run, and since when any was seen."""

    done: int = 0
    all: int = 0
    seconds: float = 0.0


def whole_log(data: Path) -> ProgressWork:
    """Return how much there is in the log now."""
    bounds = [shard_bounds(data, shard) for shard in shards(data)]
    return ProgressWork(len(bounds), sum(end - start for start, end in bounds))


def line(what: str, work: ProgressWork, tasks: Tasks, seconds: float) -> str:
    """Return the line of a step; tasks of a stage are about equally large.

    Speed is shown once a task has ended, and counts no start-up: a single task, or none, would only
    show the time that Spark takes to begin.
    """
    told = [what]
    if not tasks.all:
        told.append("preparing")
    elif tasks.all == 1:
        told.append("in one task")
        if work.records:
            told.append(f"{work.records:,} records of {work.shards} shards")
    else:
        told.append(f"{tasks.done} of {tasks.all} tasks")
        if work.records:
            records = work.records * tasks.done // tasks.all
            told.append(f"about {work.shards * tasks.done // tasks.all} of {work.shards} shards")
            told.append(f"{records:,} of {work.records:,} records")
            if records and tasks.seconds >= 1:
                told.append(f"{records / tasks.seconds:,.0f} records/s")
    told.append(f"{seconds:.0f} s")
    return ", ".join(told)


@contextmanager
def progress(
    spark: SparkSession | None,
    console: Console,
    what: str,
    work: ProgressWork | None = None,
    *,
    line_every_s: float = LINE_EVERY_S,
) -> Iterator[Tell]:
    """Show what happens while the body runs: in place on a terminal, else line by line.

    Yields what the body calls with the name of each step. Without Spark, it is being started.
    """
    ended = Event()
    step = [what]
    with console.status(what) as status:

        def tell() -> None:
            began = told = perf_counter()
            working: float | None = None
            while not ended.wait(min(LOOK_EVERY_S, line_every_s)):
                now = perf_counter()
                if spark is None:
                    text = f"{step[0]}, {now - began:.0f} s"
                else:
                    done, count = _tasks(spark)
                    working = now if count and working is None else working
                    tasks = Tasks(done, count, 0.0 if working is None else now - working)
                    text = line(step[0], work or ProgressWork(), tasks, now - began)
                status.update(text)
                if not console.is_terminal and now - told >= line_every_s:
                    told = now
                    console.print(text, soft_wrap=True)

        teller = Thread(target=tell, name="progress", daemon=True)
        teller.start()
        try:
            yield lambda name: step.__setitem__(0, f"{what}: {name}")
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
