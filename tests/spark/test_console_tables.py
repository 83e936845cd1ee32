"""Tables: a number is never cut, and a pipe gets everything."""

import io
import sys

import pytest
from rich.console import Console

from sharemesh_spark import __main__ as application
from sharemesh_spark.report import console_tables

pytestmark = pytest.mark.spark
ROW = {
    "group_id": "rr17953320-a-group-with-a-long-name-that-others-share-1",
    "topic": "LQ5fb_oJTFuXT5u6r0bT8A",
    "member_id": "a1260678-5d01-4065-9e59-0d048e9b0f02",
    "records": 437_810_123,
    "queue_p50_ms": 498_284.5,
    "processing_p99_ms": 1_498_284.5,
    "from_ms": 1_795_332_000_123,
    "highest_delivery_count": 5,
}


def output(rows, width, *, terminal):
    file = io.StringIO()
    out = Console(
        file=file, width=width, force_terminal=terminal, markup=False, highlight=False,
        color_system=None,
    )  # fmt: skip
    console_tables.rows(out, "times", rows)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_number_is_cut_on_a_terminal_of_any_width(width):
    told = output([ROW], width, terminal=True)
    assert "…" not in told
    for number in ("437,810,123", "498,284.5", "1,498,284.5", "07:20:00.123"):
        assert number in told
    assert all(len(line) <= width for line in told.splitlines())


def test_a_long_name_is_folded_not_cut():
    rows = [{"group_id": "g" * 40 + str(n), "records": n} for n in range(3)]
    told = output(rows, 30, terminal=True)
    assert "…" not in told
    assert told.replace("\n", "").replace(" ", "").count("g" * 5) >= 3 * 7


def test_a_pipe_gets_each_row_whole_on_one_line(monkeypatch, capsys):
    assert not sys.stdout.isatty()
    rows = [{**ROW, "records": n} for n in range(console_tables.ROWS_MAX + 5)]
    console_tables.rows(application.console(), "times", rows)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if ROW["group_id"] in line]) == len(rows)
    assert all(ROW["member_id"] in line for line in lines if ROW["group_id"] in line)


def test_columns_that_say_nothing_are_left_out():
    told = output([{"records": 1, "counts_from_ms": None}], 80, terminal=False)
    assert "counts from" not in told
    told = output([{"records": 1, "counts_from_ms": 5}, {"records": 2}], 80, terminal=False)
    assert "counts from" in told


def test_names_with_brackets_are_told_as_they_are(tmp_path, monkeypatch, capsys):
    console_tables.rows(application.console(), "a", [{"group_id": "[red]x[/red]", "records": 1}])
    assert "[red]x[/red]" in capsys.readouterr().out
    monkeypatch.setitem(
        sys.modules, "sharemesh_spark.generation.compact", None
    )  # as if pyspark were absent
    assert application.main(["report", str(tmp_path)]) == 2
    assert "pip install 'sharemesh[spark]'" in capsys.readouterr().out


def test_what_was_pruned_unread_is_said_by_shard():
    file = io.StringIO()
    out = Console(file=file, width=80)
    console_tables.holes(out, {3: [(0, 600), (700, 701)]})
    assert "shard 3: offsets 0 to 599, 700 to 700 of the state log were pruned" in file.getvalue()
