"""The HTML report: which answers it shows, and how: summary, tables, and plots at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sharemesh_spark.coverage import Range
from sharemesh_spark.report.html import facts, lines, page, section, table, warning

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class About:
    """What a report is of."""

    data: str
    made: datetime
    step_s: int
    holes: Mapping[int, Sequence[Range]] = field(default_factory=dict)


def report_page(tables: Mapping[str, Rows], about: About) -> str:
    """Return the report for the answers by name, as `sharemesh-spark answers` collects them."""
    summary = summary_of(tables)
    body = [facts(_facts(summary, about))]
    if about.holes:
        body.append(warning(_pruned(about.holes)))
    body += [
        section("Groups", _GROUPS, table(summary)),
        section("Archived records", "Given up, and why.", table(tables["archived"])),
        section(
            "Redeliveries",
            "What made records available again, sent ahead and not seen by the application "
            "included.",
            table(tables["redeliveries"]),
        ),
        section(
            "Queue and processing times",
            "Queue: from when a record came to the group to its first state change; processing: "
            "from there to its end. Milliseconds, by the member that finished the records.",
            table(tables["times"]),
        ),
        section(
            "Hot partitions",
            "Share of the group's state changes, in records.",
            table(tables["hot_partitions"], bar="share"),
        ),
    ]
    return page("Sharemesh delivery report", [*body, *_plots(tables["throughput"], about.step_s)])


def summary_of(tables: Mapping[str, Rows]) -> list[dict[str, Any]]:
    """Return a row a group: what was finished, given up and delivered again, and what is left."""
    found: dict[str, dict[str, Any]] = {}
    for row in tables["groups"]:
        sums = found.setdefault(
            row["group_id"],
            {
                "group_id": row["group_id"],
                "topics": [],
                "share_partitions": 0,
                "finished": 0,
                "archived": 0,
                "redelivered": 0,
                "backlog": 0,
                "not_recorded": 0,
                "not_counted": 0,
                "counts_from_ms": None,
            },
        )
        sums["topics"].append(row["topic"])
        sums["share_partitions"] += row["partitions"]
        for name in ("finished", "archived", "not_recorded", "not_counted"):
            sums[name] += row[name]
        times = [each for each in (sums["counts_from_ms"], row["counts_from_ms"]) if each]
        sums["counts_from_ms"] = max(times, default=None)
    for row in tables["redeliveries"]:
        found[row["group_id"]]["redelivered"] += row["records"]
    for row in tables["throughput"]:
        found[row["group_id"]]["backlog"] = row["backlog"]  # the last one stays
    return [{**row, "topics": ", ".join(row["topics"])} for row in found.values()]


def _facts(summary: Rows, about: About) -> dict[str, str]:
    total = sum(row["finished"] for row in summary)
    given_up, backlog = (sum(row[name] for row in summary) for name in ("archived", "backlog"))
    return {
        "Made": f"{about.made:%Y-%m-%d %H:%M:%S} UTC",
        "Data directory": about.data,
        "Groups": f"{len(summary):,}",
        "Records finished": f"{total:,}, of these {given_up:,} given up (archived)",
        "Not finished": f"{backlog:,}",
        "Times": "UTC",
    }


_GROUPS = (
    "A record counts once in each life of a group's partition. Where 'counts from' is set, what "
    "was before was pruned: 'not recorded' are finished records whose cause is not known any more, "
    "'not counted' is how many there may have been before these at most."
)


def _pruned(holes: Mapping[int, Sequence[Range]]) -> str:
    told = "; ".join(
        f"shard {shard}: " + ", ".join(f"{low:,} to {high - 1:,}" for low, high in ranges)
        for shard, ranges in sorted(holes.items())
    )
    return f"Offsets of the state log that were pruned before anything read them: {told}."


def _plots(rows: Rows, step_s: int) -> list[str]:
    found = []
    for group in sorted({row["group_id"] for row in rows}):
        own = [row for row in rows if row["group_id"] == group]
        plots = lines(own, "from_ms", ["appended", "finished", "redelivered"])
        plots += lines(own, "from_ms", ["backlog"])
        note = f"Records in steps of {step_s:,} s; below, the backlog at the end of each step."
        found.append(section(f"Throughput and backlog of {group}", note, plots))
    return found
