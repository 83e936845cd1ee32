"""Long runs tell how far they are, and every run leaves its figures."""

import json
import re
import time

import pytest
from rich.console import Console

from sharemesh_spark import __main__ as application
from sharemesh_spark.progress import ProgressWork, Tasks, line, progress
from sharemesh_spark.session import start
from tests.spark.test_compaction import write_log

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


TOLD_WITHIN_S = 120


@pytest.fixture
def spark(tmp_path):
    session = start("test-progress", work=tmp_path, cores=2)
    yield session
    session.stop()


def test_a_line_tells_tasks_shards_records_and_speed():
    work = ProgressWork(16, 5_000_000)
    told = line("compacting", work, Tasks(2, 8, 1.0), 3)
    assert told == (
        "compacting, 2 of 8 tasks, about 4 of 16 shards, 1,250,000 of 5,000,000 records, "
        "1,250,000 records/s, 3 s"
    )
    assert line("answering", ProgressWork(), Tasks(3, 4), 7) == "answering, 3 of 4 tasks, 7 s"
    assert line("compacting", work, Tasks(), 7) == "compacting, preparing, 7 s"


def test_what_cannot_move_says_so_and_start_up_is_no_speed():
    work = ProgressWork(8, 13_960)
    assert line("compacting", work, Tasks(0, 1, 130), 134) == (
        "compacting, in one task, 13,960 records of 8 shards, 134 s"
    )
    assert "records/s" not in line("compacting", work, Tasks(0, 8, 130), 134)
    assert "records/s" not in line("compacting", work, Tasks(1, 8, 0.1), 134)


def test_the_start_of_spark_is_told_line_by_line_too(tmp_path):
    told = tmp_path / "told"
    with (
        told.open("w") as file,
        progress(None, Console(file=file, width=200), "starting Spark", line_every_s=0.01),
    ):
        deadline = time.monotonic() + TOLD_WITHIN_S
        while not told.read_text().count("starting Spark, 0 s"):
            file.flush()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_run_without_a_terminal_tells_its_tasks_line_by_line(spark, tmp_path):
    told = tmp_path / "told"

    def done():
        return [
            int(number) for number in re.findall(r"counting, (\d+) of 20 tasks", told.read_text())
        ]

    def last_waits(number):
        """Let the last task end only when some were told to be done: it polls from a worker."""
        deadline = time.monotonic() + TOLD_WITHIN_S
        while number == 39 and not any(done()):
            assert time.monotonic() < deadline, told.read_text()
            time.sleep(0.01)
        return number

    with (
        told.open("w") as file,
        progress(
            spark, Console(file=file, width=200), "counting", ProgressWork(4, 40), line_every_s=0.1
        ),
    ):
        assert spark.sparkContext.parallelize(range(40), 20).map(last_waits).count() == 40
    assert done() == sorted(done())
    assert any(0 < each < 20 for each in done())


async def test_every_run_leaves_its_figures(spark, tmp_path, capsys):
    await write_log(tmp_path / "data", 11)
    figures = tmp_path / "work" / application.FIGURES
    figures.mkdir(parents=True)
    for number in range(application.FIGURES_MAX):
        (figures / f"2020-{number:03d}.json").write_text("{}")
    assert application.main(["run", str(tmp_path / "data"), "--work", str(tmp_path / "work")]) == 0
    said = capsys.readouterr()
    assert "399 records" in said.out
    assert "groups, and from when on their figures count" in said.out
    found = sorted(figures.iterdir())
    assert len(found) == application.FIGURES_MAX
    compaction = json.loads(found[-1].read_text())["compaction"]
    assert compaction["records"] == 399
    assert {"log_bytes", "parquet_bytes", "seconds", "ratio"} <= compaction.keys()
