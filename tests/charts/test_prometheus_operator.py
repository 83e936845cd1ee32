"""What the chart makes for the Prometheus operator, held against that operator's definitions.

The fields, patterns and types are those of prometheus-operator 0.91 (PodMonitor and PrometheusRule,
monitoring.coreos.com/v1), of which only those that the chart uses are here: another one is refused.
"""

import shutil
from pathlib import Path
from typing import Any

import helm_python as helm
import jsonschema
import pytest
import yaml

from tests.charts import rendering

ASKED = '.Capabilities.APIVersions.Has "monitoring.coreos.com/v1"'
DURATION = (
    r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
)
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
WORDS = {"type": "object", "additionalProperties": TEXT}


def closed(needed: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def many(item: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "minItems": 1, "items": item}


SELECTOR_RULE = closed(
    ["key", "operator"],
    key=TEXT,
    operator={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    values=TEXTS,
)
RULE = closed(
    ["alert", "expr"],
    alert=TEXT,
    expr={"type": ["string", "integer"]},
    **{"for": {**TEXT, "pattern": DURATION}},
    labels=WORDS,
    annotations=WORDS,
)
SPECS = {
    "PodMonitor": closed(
        ["selector"],
        namespaceSelector=closed([], matchNames=TEXTS, any={"type": "boolean"}),
        selector=closed([], matchExpressions=many(SELECTOR_RULE), matchLabels=WORDS),
        podTargetLabels=TEXTS,
        podMetricsEndpoints=many(
            closed([], port=TEXT, interval={**TEXT, "pattern": DURATION}, path=TEXT)
        ),
    ),
    "PrometheusRule": closed(
        ["groups"],
        groups=many(closed(["name"], name={**TEXT, "minLength": 1}, rules=many(RULE))),
    ),
}


@pytest.fixture(scope="module")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> dict[str, rendering.Document]:
    """What is made where the API server says that it knows these kinds."""
    chart = tmp_path_factory.mktemp("chart") / "sharemesh"
    shutil.copytree(rendering.CHARTS / "sharemesh", chart)
    template = chart / "templates" / "monitoring" / "prometheus-operator.yaml"
    text = template.read_text()
    assert text.count(ASKED) == 1
    template.write_text(text.replace(ASKED, "true"))
    on = {"enabled": True, "labels": {"release": "monitoring"}}
    values = {
        "etcd": {"endpoints": ["http://etcd:2379"]},
        "operator": {"namespace": "elsewhere"},
        "monitoring": {"podMonitor": {**on, "interval": "15s"}, "prometheusRule": on},
    }
    return {found["kind"]: found for found in rendered(chart, values, template.name)}


def rendered(chart: Path, values: rendering.Document, template: str) -> list[rendering.Document]:
    """Return what one template makes."""
    with helm.Chart.load(chart) as loaded:
        loaded.validate_schema(values)
        made = loaded.render(values, name="main", namespace="queues")
    text = next(text for path, text in made.items() if path.endswith(template))
    return [found for found in yaml.safe_load_all(text) if found]


@pytest.mark.parametrize("kind", SPECS)
def test_each_object_fits_its_definition(monitoring, kind) -> None:
    found = monitoring[kind]
    assert found["apiVersion"] == "monitoring.coreos.com/v1"
    assert found["metadata"]["labels"]["release"] == "monitoring"
    jsonschema.validate(found["spec"], SPECS[kind])


def test_the_monitor_reaches_the_operators_and_the_role_pods_namespace(monitoring) -> None:
    spec = monitoring["PodMonitor"]["spec"]
    assert spec["namespaceSelector"]["matchNames"] == ["queues", "elsewhere"]


def test_without_the_definitions_nothing_of_it_is_made() -> None:
    values = {
        "etcd": {"endpoints": ["http://etcd:2379"]},
        "monitoring": {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    }
    kinds = {found["kind"] for found in rendering.documents("sharemesh", values)}
    assert not kinds & SPECS.keys()
