"""The answers as one self-contained HTML file: tables, and plots as SVG drawn here.

A plotting library would be the largest dependency of the project for two kinds of lines.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sharemesh_spark.printed import MOMENTS, shown, title_of

WIDTH, HEIGHT, MARGIN = 860, 220, 48
ROWS_MAX = 200
_COLOURS = ("#2563eb", "#16a34a", "#dc2626", "#9333ea", "#d97706", "#0891b2")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem;"
    "color:#1f2937}table{border-collapse:collapse;width:100%;font-size:13px}"
    "th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #e5e7eb}"
    "th{background:#f3f4f6}h1,h2{line-height:1.2}svg{width:100%;height:auto}"
    ".note{color:#6b7280;font-size:13px}"
)
Row = Mapping[str, Any]


def page(title: str, sections: Sequence[tuple[str, str, str]]) -> str:
    """Return the file; each section is (heading, sentence, HTML)."""
    body = "".join(
        f"<h2>{escape(head)}</h2><p class=note>{escape(note)}</p>{content}"
        for head, note, content in sections
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>{body}</html>"
    )


def table(rows: Sequence[Row]) -> str:
    """Return rows as a table, ``ROWS_MAX`` of them at most."""
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{escape(title_of(name))}" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(name, value))}" for name, value in row.items())
        for row in rows[:ROWS_MAX]
    )
    more = f"<p class=note>{len(rows) - ROWS_MAX:,} more rows" if len(rows) > ROWS_MAX else ""
    return f"<table><tr>{head}{body}</table>{more}"


def lines(rows: Sequence[Row], x: str, series: Sequence[str]) -> str:
    """Return a plot of some columns over a column of milliseconds."""
    if not rows:
        return "<p>none</p>"
    low, high = min(row[x] for row in rows), max(row[x] for row in rows)
    top = max(1, *(row[name] for row in rows for name in series))
    drawn = []
    for name, colour in zip(series, _COLOURS, strict=False):
        points = " ".join(
            f"{_place(row[x], low, high):.1f},{_level(row[name], top):.1f}" for row in rows
        )
        drawn.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>'
        )
        at = MARGIN + 110 * series.index(name)
        drawn.append(f'<text x="{at}" y="16" fill="{colour}">{escape(name)}</text>')
    seconds = (high - low) / 1_000
    return _svg("".join(drawn), top, f"{seconds:,.0f} s")


def bars(rows: Sequence[Row], label: str, value: str) -> str:
    """Return a bar for each row."""
    shown = rows[:20]
    if not shown:
        return "<p>none</p>"
    top = max(1e-9, *(row[value] for row in shown))
    step = 22
    drawn = "".join(
        f'<text x="0" y="{step * n + 15}">{escape(_shown(row[label]))}</text>'
        f'<rect x="260" y="{step * n + 3}" width="{520 * row[value] / top:.1f}" height="15" '
        f'fill="{_COLOURS[0]}"/>'
        f'<text x="{266 + 520 * row[value] / top:.1f}" y="{step * n + 15}">'
        f"{escape(_shown(row[value]))}</text>"
        for n, row in enumerate(shown)
    )
    return f'<svg viewBox="0 0 {WIDTH} {step * len(shown) + 6}" font-size="12">{drawn}</svg>'


def _cell(name: str, value: object) -> str:
    return shown(name, value) if name in MOMENTS else _shown(value)


def _svg(drawn: str, top: float, span: str) -> str:
    base, right = HEIGHT - MARGIN / 2, WIDTH - 8
    axes = (
        f'<path d="M{MARGIN} 24V{base}H{right}" fill="none" stroke="#9ca3af"/>'
        f'<text x="0" y="32">{escape(_shown(top))}</text><text x="0" y="{base}">0</text>'
        f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">{escape(span)}</text>'
    )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12">{axes}{drawn}</svg>'


def _place(value: float, low: float, high: float) -> float:
    return MARGIN + (WIDTH - MARGIN - 8) * (value - low) / max(1, high - low)


def _level(value: float, top: float) -> float:
    base = HEIGHT - MARGIN / 2
    return base - (base - 24) * value / top


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
