"""The custom resource definitions agree with the mesh and with Kubernetes' conventions."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy.pages import custom_resources
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.evaluate import check_group_configs
from sharemesh.domain.group_config.group_definitions import GROUP_CONFIGS
from sharemesh.domain.group_config.retry_delays import SCHEDULE_MAX, parse_schedule
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS, MAX_PRINCIPAL_CHARS, MAX_TOPIC_NAME_CHARS
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.domain.quota.values import QUOTA_VALUE_MAX, check_value
from sharemesh.domain.topics import check_topic_name
from sharemesh.serve.settings.settings import MAX_SHARDS
from sharemesh_operator.resources.quotas import wanted_quotas
from tests.charts import rendering
from tests.charts.custom_resources import check
from tests.charts.test_prometheus_operator import TEXT, closed

KINDS = custom_resources.definitions()
ENTITY_KEYS = {EntityType.USER: "principal", EntityType.GROUP: "groupId"}
SAMPLES = sorted((rendering.ROOT / "examples" / "kubernetes").glob("*.yaml"))
# Field of ShareGroup: Kafka's name, and how many of its units make one of ours.
GROUP_FIELDS = {
    "recordLockDurationSeconds": ("share.record.lock.duration.ms", 1000),
    "maxDeliveryAttempts": ("share.delivery.count.limit", 1),
    "maxRecordLocksPerPartition": ("share.partition.max.record.locks", 1),
    "memberSessionTimeoutSeconds": ("share.session.timeout.ms", 1000),
    "memberHeartbeatIntervalSeconds": ("share.heartbeat.interval.ms", 1000),
    "assignmentIntervalSeconds": ("share.assignment.interval.ms", 1000),
}


RESOURCE = closed(
    ["type"],
    type={"enum": ["topic", "group", "cluster", "transactionalId"]},
    name=TEXT,
    patternType={"enum": ["literal", "prefix"]},
)
OPERATIONS = ["Read", "Write", "Create", "Delete", "Alter", "Describe", "DescribeConfigs"]
ACL = closed(
    ["resource", "operations"],
    resource=RESOURCE,
    operations={"type": "array", "items": {"enum": OPERATIONS}},
)
KAFKA_USER = closed(
    ["authentication", "authorization"],
    authentication=closed(["type"], type={"enum": ["scram-sha-512", "tls"]}),
    authorization=closed(
        ["type", "acls"], type={"const": "simple"}, acls={"type": "array", "items": ACL}
    ),
)
"""Of Strimzi's KafkaUser (kafka.strimzi.io/v1) the fields that samples use."""


def schema(kind: str) -> dict[str, Any]:
    return KINDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def spec(kind: str) -> dict[str, Any]:
    return schema(kind)["properties"]["spec"]["properties"]


def nodes(found: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, found
    for name, inner in found.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in found:
        yield from nodes(found["items"], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS)
def test_each_definition_fits_kubernetes(kind: str) -> None:
    for version in ("1.30", "1.34", "1.37"):
        kubernetes_validate.validate(KINDS[kind], version, strict=True)


@pytest.mark.parametrize("field", GROUP_FIELDS)
def test_group_bounds_and_defaults_are_those_of_the_coordinators(field: str) -> None:
    name, unit = GROUP_FIELDS[field]
    stem = name.removeprefix("share.")
    ours = spec("ShareGroup")[field]
    assert ours["default"] * unit == int(CLUSTER_CONFIGS[f"group.share.{stem}"].default)
    least, most = (
        int(CLUSTER_CONFIGS[f"group.share.{bound}.{stem}"].default) for bound in ("min", "max")
    )
    assert (ours["minimum"] * unit, ours["maximum"] * unit) == (least, most)


@pytest.mark.parametrize("field", GROUP_FIELDS)
@pytest.mark.parametrize("end", ["minimum", "maximum", "default"])
def test_coordinators_accept_what_the_api_server_accepts(field: str, end: str) -> None:
    name, unit = GROUP_FIELDS[field]
    value = str(spec("ShareGroup")[field][end] * unit)
    assert check_group_configs({name: value}, {}, {})[name] == value


def test_retries_and_runs_of_a_group_are_the_meshs_within_its_bounds() -> None:
    group = spec("ShareGroup")
    retry = group["retry"]["properties"]
    for field, name, unit in (
        (group["maxRunsPerPartition"], "share.partition.max.runs", 1),
        (retry["backoffMilliseconds"], "share.retry.backoff.ms", 1),
        (retry["backoffMaxMilliseconds"], "share.retry.backoff.max.ms", 1),
        (retry["backoffMultiplierPercent"], "share.retry.backoff.multiplier", 100),
        (retry["backoffJitterPercent"], "share.retry.backoff.jitter", 100),
    ):
        mesh = GROUP_CONFIGS[name]
        assert (field["minimum"], field["maximum"]) == (mesh.minimum * unit, mesh.maximum * unit)
        assert field.get("default", float(mesh.default) * unit) == float(mesh.default) * unit
    assert retry["schedule"]["maxItems"] == SCHEDULE_MAX
    waits = retry["schedule"]["items"]["pattern"]
    for given in ("1ms", "10s", "5m", "24h", "1d"):
        assert re.fullmatch(waits, given)
        assert parse_schedule(given)
    limits = {each.lower() for each in group["inFlightLimitType"]["enum"]}
    assert limits == set(GROUP_CONFIGS["share.in.flight.limit.type"].choices)


@pytest.mark.parametrize("entity_type", EntityType)
def test_quotas_are_those_of_the_mesh_within_its_bounds(entity_type: EntityType) -> None:
    quotas = spec("ShareCluster")["quotas"]["properties"]
    named, key = quotas[f"{entity_type.value}s"], ENTITY_KEYS[entity_type]
    assert named["x-kubernetes-list-map-keys"] == [key]
    own = named["items"]["properties"]
    values = {name: each for name, each in own.items() if name != key}
    assert values == quotas[f"{entity_type.value}Default"]["properties"]
    names = [each for each in QuotaName if each.entity_type is entity_type]
    camel = [re.sub("_(.)", lambda found: found[1].upper(), each.value) for each in names]
    assert list(values) == camel
    for name, each in zip(names, values.values(), strict=True):
        assert check_value(name, each["minimum"]) == 1
        assert check_value(name, each["maximum"]) == QUOTA_VALUE_MAX
    body = {"spec": {"quotas": {f"{entity_type.value}Default": dict.fromkeys(camel, 7)}}}
    assert wanted_quotas(body) == {
        QuotaEntity(entity_type, None): {each.value: 7.0 for each in names}
    }
    longest = {EntityType.USER: MAX_PRINCIPAL_CHARS, EntityType.GROUP: MAX_GROUP_ID_CHARS}
    assert own[key]["maxLength"] == longest[entity_type]


def test_topic_names_that_the_schema_takes_are_taken_by_the_mesh() -> None:
    name = spec("ShareTopic")["topicName"]
    assert name["maxLength"] == MAX_TOPIC_NAME_CHARS
    for given in ("a", "A.b_c-9", "x" * MAX_TOPIC_NAME_CHARS):
        assert re.fullmatch(name["pattern"], given)
        assert check_topic_name(given) == given


def test_no_more_shards_than_a_process_takes() -> None:
    for role in ("groupCoordinators", "shareCoordinators"):
        assert spec("ShareCluster")[role]["properties"]["shards"]["maximum"] == MAX_SHARDS


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_is_described_and_bounded(kind: str) -> None:
    root = schema(kind)
    for part in ("spec", "status"):
        for path, node in nodes(root["properties"][part]):
            if path and not path.endswith("[]"):
                assert node.get("description"), f"{part}{path}"
            if part == "spec" and node["type"] == "string" and "enum" not in node:
                bounded = "maxLength" in node or node.get("format") == "date-time"
                assert bounded, f"{part}{path}"
            if part == "spec" and node["type"] == "array":
                assert "maxItems" in node, path
            if part == "spec" and node["type"] == "integer":
                assert {"minimum", "maximum", "format"} <= node.keys(), path


@pytest.mark.parametrize("kind", KINDS)
def test_conventions_hold(kind: str) -> None:
    version = KINDS[kind]["spec"]["versions"][0]
    assert version["subresources"]["status"] == {}
    status = schema(kind)["properties"]["status"]["properties"]
    assert "phase" not in status
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert "observedGeneration" in status
    assert KINDS[kind]["spec"]["names"]["categories"] == ["sharemesh"]
    assert len(KINDS[kind]["spec"]["names"]["shortNames"]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_columns_and_selectors_name_fields_that_exist(kind: str) -> None:
    version = KINDS[kind]["spec"]["versions"][0]
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    paths += [field["jsonPath"] for field in version.get("selectableFields", ())]
    scale = version["subresources"].get("scale", {})
    paths += list(scale.values())
    known = {path for path, _ in nodes(schema(kind))}
    for path in paths:
        plain = path.partition("[?")[0]
        assert plain in known or plain.startswith(".metadata."), path


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_each_sample_fits_its_definition(sample: Any) -> None:
    found = [document for document in yaml.safe_load_all(sample.read_text()) if document]
    assert found
    for document in found:
        if document["apiVersion"].startswith("sharemesh.io"):
            assert check(document) == []
        elif document["kind"] == "KafkaUser":
            jsonschema.validate(document["spec"], KAFKA_USER)
        else:
            kubernetes_validate.validate(document, "1.34", strict=True)


def test_the_quick_start_has_at_most_25_lines() -> None:
    lines = (rendering.ROOT / "examples" / "kubernetes" / "quick-start.yaml").read_text()
    assert len(lines.splitlines()) <= 25
