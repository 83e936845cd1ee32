"""The answers as one self-contained HTML file: summary, tables, and plots as SVG drawn here.

A plotting library would be the largest dependency of the project for two kinds of lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Any

from sharemesh.domain.printable import escaped
from sharemesh_spark.reader.data_directory import Range
from sharemesh_spark.report.console_tables import ranges_text, shown, title_of, told_columns

WIDTH, HEIGHT, MARGIN = 860, 220, 62
ROWS_MAX = 200
DOTS_MAX = 60
"""A series of no more points than that has a dot for each: a single one would be no line. Dots of
later series are smaller, so that none hides another."""

TICKS = 5
_TOP, _FOOT = 24, 30
_COLOURS = ("#2563eb", "#16a34a", "#dc2626", "#9333ea", "#d97706", "#0891b2")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2rem auto;padding:0 1rem;"
    "color:#1f2937}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "th,td{text-align:left;padding:.25rem .7rem;border-bottom:1px solid #e5e7eb;"
    "vertical-align:top}th{background:#f3f4f6;vertical-align:bottom}th.n{text-align:right}"
    "td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}h1,h2,h3{line-height:1.2}h2{margin-top:2rem}"
    "svg{width:100%;height:auto}.note{color:#4b5563;font-size:13px}"
    ".warn{background:#fef3c7;padding:.5rem .8rem}"
    "dl{display:grid;grid-template-columns:max-content auto;gap:.1rem 1rem}dd{margin:0}"
    ".bar{display:inline-block;height:.7em;background:#2563eb;margin-right:.4em}"
)
Row = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]
_GROUPS = (
    "A record counts once in each life of a group's partition. Where 'counts from' is set, what "
    "was before was pruned: 'not recorded' are finished records whose cause is not known any more, "
    "'not counted' is how many there may have been before these at most."
)


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
            "Waiting and working times",
            "Queue: from when a record came to the group until a member first had it; processing: "
            "from there to its end; working: how much of that members had it. Milliseconds, by the "
            "member that finished the records. Logs of earlier versions do not say when a member "
            "had it: queue then ends with the first state change.",
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


def _pruned(holes: Mapping[int, Sequence[Range]]) -> str:
    told = "; ".join(
        f"shard {shard}: {ranges_text(ranges)}" for shard, ranges in sorted(holes.items())
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


def page(title: str, body: Sequence[str]) -> str:
    """Return the file; the parts of the body are HTML."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_html(title)}</title><style>{_STYLE}</style>"
        f"<h1>{_html(title)}</h1>{''.join(body)}</html>"
    )


def section(heading: str, note: str, content: str) -> str:
    """Return a part of the page with its heading and what to know about it."""
    return f'<h2>{_html(heading)}</h2><p class="note">{_html(note)}</p>{content}'


def facts(found: Mapping[str, str]) -> str:
    """Return names and what they stand for."""
    told = "".join(f"<dt>{_html(name)}</dt><dd>{_html(each)}</dd>" for name, each in found.items())
    return f"<dl>{told}</dl>"


def warning(text: str) -> str:
    """Return a sentence that must not be missed."""
    return f'<p class="warn">{_html(text)}</p>'


def table(rows: Sequence[Row], *, bar: str = "") -> str:
    """Return rows as a table, ``ROWS_MAX`` of them at most; ``bar`` is a column of shares."""
    if not rows:
        return "<p>none</p>"
    names = told_columns(rows)
    is_number = {name: not any(isinstance(row.get(name), str) for row in rows) for name in names}
    kind = {name: ' class="n"' if is_number[name] and name != bar else "" for name in names}
    head = "".join(f"<th{kind[name]}>{_html(title_of(name))}</th>" for name in names)

    def cell(name: str, row: Row) -> str:
        told = _share(row[name]) if name == bar else _cell(name, row.get(name))
        return f"<td{kind[name]}>{told}</td>"

    body = "".join(
        f"<tr>{''.join(cell(name, row) for name in names)}</tr>" for row in rows[:ROWS_MAX]
    )
    left = len(rows) - ROWS_MAX
    more = f'<p class="note">{left:,} more rows: see --json</p>' if left > 0 else ""
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>{more}'


def lines(rows: Sequence[Row], x: str, series: Sequence[str]) -> str:
    """Return a plot of some columns over a column of milliseconds since the epoch."""
    if not rows:
        return "<p>none</p>"
    low, high = min(row[x] for row in rows), max(row[x] for row in rows)
    top = max(1, *(row[name] for row in rows for name in series))
    drawn = [_grid(low, high, top)]
    for number, (name, colour) in enumerate(zip(series, _COLOURS, strict=False)):
        places = [(_place(row[x], low, high), _level(row[name], top)) for row in rows]
        points = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        drawn.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>'
        )
        if len(places) <= DOTS_MAX:
            drawn += [
                f'<circle cx="{across:.1f}" cy="{up:.1f}" r="{5 - number}" fill="{colour}"/>'
                for across, up in places
            ]
        drawn.append(
            f'<text x="{MARGIN + 110 * number}" y="14" fill="{colour}">{_html(name)}</text>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12">{"".join(drawn)}</svg>'


def _grid(low: int, high: int, top: float) -> str:
    """Return the axes: numbers upwards, clock times (UTC) across."""
    base, right = HEIGHT - _FOOT, WIDTH - 8
    ticks = [low + (high - low) * n // (TICKS - 1) for n in range(TICKS)] if high > low else [low]
    told = []
    for at in ticks:
        across = _place(at, low, high)
        anchor = "start" if at == low < high else "end" if at == high > low else "middle"
        told.append(
            f'<path d="M{across:.1f} {base}v5" stroke="#9ca3af"/><text x="{across:.1f}" '
            f'y="{HEIGHT - 10}" text-anchor="{anchor}">{clock_time(at, low, high)}</text>'
        )
    return (
        f'<path d="M{MARGIN} {_TOP}V{base}H{right}" fill="none" stroke="#9ca3af"/>'
        f'<text x="{MARGIN - 6}" y="{_TOP + 8}" text-anchor="end">{_html(shown("", top))}</text>'
        f'<text x="{MARGIN - 6}" y="{base}" text-anchor="end">0</text>{"".join(told)}'
    )


def clock_time(at_ms: int, low: int, high: int) -> str:
    """Return a tick of the axis: with the day where it is not the same all over the plot."""
    at, first, last = (datetime.fromtimestamp(each / 1_000, UTC) for each in (at_ms, low, high))
    return at.strftime("%H:%M:%S" if first.date() == last.date() else "%m-%d %H:%M")


def _cell(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return _html(shown(name, value))


def _share(value: float) -> str:
    return f'<span class="bar" style="width:{120 * value:.0f}px"></span>{100 * value:.1f} %'


def _place(value: float, low: float, high: float) -> float:
    if high == low:
        return MARGIN + (WIDTH - MARGIN - 8) / 2
    return MARGIN + (WIDTH - MARGIN - 8) * (value - low) / (high - low)


def _level(value: float, top: float) -> float:
    base = HEIGHT - _FOOT
    return base - (base - _TOP) * value / top


def _html(text: str) -> str:
    """Return text as HTML shows it, in one direction and without control characters (BND-24)."""
    return escape(escaped(text))
