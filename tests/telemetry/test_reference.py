"""The reference names every metric, the runbooks every alert; a checker that misses nothing."""

import json
import re
from pathlib import Path

import pytest

from sharemesh.telemetry import names
from tests.telemetry.expressions import CHART, expressions, faults, rules
from tests.telemetry.scrape import parse

PAGES = Path(__file__).parents[2] / "docs"
DOCS = (PAGES / "reference" / "metrics.md").read_text()
WORDS = re.sub(r"\[([A-Z]+-\d+)\]\([^)]*\)", r"\1", DOCS)
"""Without the links to rules."""
INDEX = (PAGES / "runbooks" / "README.md").read_text()
SITE = "https://sharemesh.io/docs/"


@pytest.mark.parametrize("metric", names.metrics(), ids=lambda metric: metric.name)
def test_every_metric_is_in_the_reference(metric) -> None:
    row = next(line for line in WORDS.splitlines() if line.startswith(f"| `{metric.name}` |"))
    assert f"`{metric.prometheus_name}`" in row
    assert metric.says in row
    assert metric.kind in row
    for label in metric.labels:
        assert label in row


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_says_what_to_do(rule) -> None:
    assert f"| [{rule['alert']}]({rule['alert']}.md) |" in INDEX
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_names_the_runbook_that_it_has(rule) -> None:
    name = rule["alert"]
    page = (PAGES / "runbooks" / f"{name}.md").read_text()
    assert rule["annotations"]["runbook_url"] == f"{SITE}runbooks/{name}/"
    assert [line for line in page.splitlines() if line.startswith("#")] == [
        f"# {name}",
        "## Impact",
        "## Diagnosis",
        "## What to do",
    ]


def test_every_runbook_belongs_to_an_alert() -> None:
    pages = {page.stem for page in (PAGES / "runbooks").glob("*.md")}
    assert pages == {rule["alert"] for rule in rules()} | {"README"}


def test_panels_of_a_dashboard_do_not_overlap() -> None:
    for file in (CHART / "dashboards").glob("*.json"):
        taken = set()
        for panel in json.loads(file.read_text())["panels"]:
            at = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            }
            assert not cells & taken, panel["title"]
            taken |= cells


def test_the_checker_of_expressions_finds_wrong_names_and_labels() -> None:
    pages = [parse('share_groups{state="stable"} 1\nshare_sessions 2\n')]
    assert faults("sum by (state) (share_groups)", pages) == []
    assert faults('rate(share_groups{state="stable"}[5m])', pages) == []
    assert faults("sum(share_group)", pages) == ["share_group does not exist"]
    assert faults('share_groups{state="dead"}', pages)
    assert faults("sum by (topic) (share_sessions)", pages)
    assert len(expressions()) > 30
