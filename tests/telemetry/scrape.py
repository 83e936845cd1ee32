"""Metrics pages of a running local cluster, and spans in files, read back."""

import json
import re
import urllib.request
from collections import Counter
from pathlib import Path

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(page: str) -> Series:
    """Return the samples of a page by name and labels."""
    series = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, labels, value = _LINE.match(line).groups()
            series[name, frozenset(_LABEL.findall(labels or ""))] = float(value)
    return series


def addresses(log: Path) -> list[str]:
    """Return the addresses of metrics pages that a log announces, the newest last."""
    return re.findall(r"event=metrics address=(\S+)", log.read_text())


def scrape(address: str) -> Series:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        assert answer.status == 200
        return parse(answer.read().decode())


def total(pages: list[Series], name: str, **labels: str) -> float:
    """Return the sum of all series of a name that have these labels."""
    wanted = set(labels.items())
    return sum(
        value
        for page in pages
        for (found, pairs), value in page.items()
        if found == name and wanted <= pairs
    )


def spans(directory: Path) -> list[dict]:
    found = []
    for file in sorted(directory.glob("*.jsonl")):
        lines = file.read_text().splitlines(keepends=True)
        found += [json.loads(line) for line in lines if line.endswith("\n")]
    return found


def sums(found: list[dict], operation: str) -> Counter:
    """Return the number of spans of an operation, and the sums of their numeric attributes."""
    totals = Counter()
    for span in found:
        if span["name"].split(" ")[0] == operation and not span["error"]:
            totals["spans"] += 1
            for name, value in span["attributes"].items():
                if isinstance(value, int) and not isinstance(value, bool):
                    totals[name] += value
    return totals
