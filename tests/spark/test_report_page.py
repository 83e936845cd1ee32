"""The HTML report: summary and tables first, plots that show every point, nothing unescaped."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from sharemesh_spark.report.report_page import (
    ROWS_MAX,
    About,
    clock_time,
    lines,
    report_page,
    table,
)

pytestmark = pytest.mark.spark
EVIL = "<script>alert('1')</script>&\"[x]"
MADE = datetime(2026, 11, 22, 7, 0, 5, tzinfo=UTC)
T0 = int(datetime(2026, 11, 22, 6, 0, 0, tzinfo=UTC).timestamp() * 1_000)


def tables(groups):
    def each(**row):
        return [{"group_id": group, "topic": "orders", **row} for group in groups]

    return {
        "groups": each(partitions=3, lives=3, finished=20_000, archived=5,
                       not_recorded=2_002, not_counted=7, counts_from_ms=T0),
        "archived": each(partition=0, first_offset=5, last_offset=9, cause="reject",
                         delivery_count=2, member_id=EVIL, at_ms=T0),
        "redeliveries": each(cause="release", members=1, records=11, highest_delivery_count=2,
                             counts_from_ms=T0),
        "times": each(member_id="m", records=5, queue_p50_ms=1.0),
        "throughput": each(from_ms=T0, appended=100_300, finished=100_000, redelivered=0,
                           dropped=0, backlog=300),
        "hot_partitions": each(partition=0, changes=5, records=10, share=0.5),
    }  # fmt: skip


def about(**more):
    return About("/data/of/<mine>", MADE, 60, **more)


def test_the_summary_says_when_of_what_and_how_much_before_anything_else():
    page = report_page(tables(["g"]), about(holes={3: [(0, 600)]}))
    head = page[: page.index("<svg")]
    for told in (
        "2026-11-22 07:00:05 UTC",
        "/data/of/&lt;mine&gt;",
        "20,000, of these 5 given up",
        "shard 3: 0 to 599",
        "counts from",
        "11-22 06:00:00.000",
        "2,002",
    ):
        assert told in head, told


def test_all_tables_come_before_the_first_plot():
    page = report_page(tables([f"g{n}" for n in range(19)]), about())
    assert page.rindex("</table>") < page.index("<svg")
    order = [page.index(f"<h2>{head}") for head in ("Groups", "Archived", "Throughput")]
    assert order == sorted(order)
    assert page.count("<svg") == 38


def test_names_of_groups_topics_and_members_cannot_be_markup():
    page = report_page(tables([EVIL]), about())
    assert "<script" not in page

    class Tags(HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags = set()
            self.text = ""

        def handle_starttag(self, tag, attrs):
            self.tags.add(tag)
            assert not any(name.startswith("on") for name, _ in attrs)

        def handle_data(self, data):
            self.text += data

    parser = Tags()
    parser.feed(page)
    assert EVIL in parser.text
    assert "script" not in parser.tags


def test_names_cannot_turn_the_direction_of_text_bnd_24():
    page = report_page(tables(["g\u202egpj\x1b\u2066\u2028"]), about())
    assert "g\\u202egpj\\u001b\\u2066\\u2028" in page
    assert page.replace("\n", "").isprintable()


def test_a_single_step_of_time_has_a_mark():
    plot = lines([{"from_ms": T0, "backlog": 5}], "from_ms", ["backlog"])
    assert plot.count("<circle") == 1
    assert "06:00:00" in plot


def test_the_time_axis_has_clock_times_inside_the_picture():
    rows = [{"from_ms": T0 + 60_000 * n, "backlog": n} for n in range(100)]
    plot = lines(rows, "from_ms", ["backlog"])
    assert re.findall(r">(\d\d:\d\d:\d\d)<", plot) == [
        "06:00:00", "06:24:45", "06:49:30", "07:14:15", "07:39:00",
    ]  # fmt: skip
    assert "<circle" not in plot
    for across, up in re.findall(r"([\d.-]+),([\d.-]+)", plot.split('points="')[1].split('"')[0]):
        assert 0 <= float(across) <= 860
        assert 0 <= float(up) <= 220
    day = 24 * 60 * 60 * 1_000
    assert clock_time(T0 + day, T0, T0 + day) == "11-23 06:00"


def test_a_table_of_many_rows_says_how_many_it_leaves_out():
    rows = [{"records": n} for n in range(ROWS_MAX + 3)]
    assert "3 more rows" in table(rows)
    assert "more rows" not in table(rows[:ROWS_MAX])
