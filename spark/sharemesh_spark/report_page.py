"""The HTML report: which answers it shows, and how."""

from collections.abc import Mapping, Sequence
from typing import Any

from sharemesh_spark.html_report import bars, lines, page, table

Rows = Sequence[Mapping[str, Any]]


def report_page(tables: Mapping[str, Rows]) -> str:
    """Return the report for the answers by name, as `sharemesh-spark answers` collects them."""
    sections = []
    for group in sorted({row["group_id"] for row in tables["throughput"]}):
        rows = [row for row in tables["throughput"] if row["group_id"] == group]
        plots = lines(rows, "from_ms", ["appended", "finished", "redelivered"])
        plots += lines(rows, "from_ms", ["backlog"])
        sections.append(
            (f"Throughput and backlog of {group}", "Records in each step of time.", plots)
        )
    hot = [
        {**row, "where": f"{row['group_id']} {row['topic_id'][:8]}/{row['partition']}"}
        for row in tables["hot_partitions"]
    ]
    sections += [
        (
            "Hot partitions",
            "Share of the group's state changes, in records.",
            bars(hot, "where", "share"),
        ),
        (
            "Queue and processing times",
            "Queue: from the append to the first state change; processing: from there to the end.",
            table(tables["times"]),
        ),
        ("Redeliveries", "What made records available again.", table(tables["redeliveries"])),
        ("Archived records", "Given up, and why.", table(tables["archived"])),
    ]
    return page("Sharemesh delivery report", sections)
