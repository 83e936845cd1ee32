"""Expressions of dashboards and rules, taken apart far enough to hold them against a scrape."""

import json
import re
from pathlib import Path

import yaml

from tests.telemetry.scrape import Series

CHART = Path(__file__).parents[2] / "charts" / "sharemesh"
FROM_PROMETHEUS = {"instance", "job", "pod", "namespace"}
"""Labels that the scraping side adds."""

_WORDS = {"by", "sum", "rate", "max", "min", "increase", "histogram_quantile", "avg", "count", "or"}
_SELECTOR = re.compile(r"\b([a-z][a-z0-9_]+)\b(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\bby \(([^)]*)\)")


def rules() -> list[dict]:
    tree = yaml.safe_load((CHART / "rules" / "sharemesh.yaml").read_text())
    return [rule for group in tree["groups"] for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Return every expression by what it is for."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in rules()}
    for file in sorted((CHART / "dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                found[f"{file.stem}: {panel['title']}"] = target["expr"]
    return found


def faults(expression: str, pages: list[Series]) -> list[str]:
    """Return what an expression names that the pages do not hold."""
    found = []
    grouped = {
        label.strip() for labels in _GROUPING.findall(expression) for label in labels.split(",")
    }
    body = re.sub(r"\[\w+\]", "", _GROUPING.sub("", expression))
    names = [(name, text) for name, text in _SELECTOR.findall(body) if name not in _WORDS]
    if not names:
        return ["no metric is named"]
    for name, text in names:
        wanted = set(re.findall(r'(\w+)="([^"]*)"', text))
        series = [pairs for page in pages for (each, pairs) in page if each == name]
        if not series:
            found.append(f"{name} does not exist")
            continue
        if not any(wanted <= pairs for pairs in series):
            found.append(f"{name} has no series with {sorted(wanted)}")
        missing = grouped - FROM_PROMETHEUS - {label for pairs in series for label, _ in pairs}
        if missing:
            found.append(f"{name} has no labels {sorted(missing)}")
    return found
