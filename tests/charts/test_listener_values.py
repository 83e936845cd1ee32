"""Listeners for clients of Kafka in charts and definitions (KLS-50)."""

import copy
import dataclasses
from typing import Any

import pytest

from deploy.pages import custom_resources
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh_operator.resources import names
from sharemesh_operator.resources.kafka_spec import SASL_MECHANISMS
from tests.charts import rendering

CASE = "clients of Kafka"
SETTINGS = {each.name: each for each in dataclasses.fields(ServeSettings)}


def listener() -> dict[str, Any]:
    definition = custom_resources.definitions()["ShareCluster"]["spec"]["versions"][0]
    spec = definition["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found: dict[str, Any] = spec["properties"]["kafkaListener"]["properties"]
    return found


@pytest.mark.parametrize(
    ("field", "setting", "unit"),
    [
        ("maxConnections", "kafka_listener_connections", 1),
        ("maxReauthSeconds", "kafka_listener_max_reauth_ms", 1_000),
    ],
)
def test_bounds_are_those_of_the_settings(field: str, setting: str, unit: int) -> None:
    bounds = SETTINGS[setting].metadata
    mine = listener()[field]
    assert max(mine["minimum"] * unit, bounds["minimum"]) == mine["minimum"] * unit
    assert mine["maximum"] * unit == bounds["maximum"]


def test_mechanisms_are_those_that_the_operator_knows() -> None:
    assert set(listener()["saslMechanisms"]["items"]["enum"]) == set(SASL_MECHANISMS)


def test_ports_that_count_up_stay_apart_and_are_ports_of_nodes() -> None:
    """For as many pods as there may be; those of gRPC and of Kafka do not meet."""
    definition = custom_resources.definitions()["ShareCluster"]["spec"]["versions"][0]
    spec = definition["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    grpc, kafka = (
        [
            block["bootstrapPort"]["default"],
            *_counted(block["shareLeaderPort"], spec["shareLeaders"]),
            *_counted(block["groupCoordinatorPort"], spec["groupCoordinators"]),
        ]
        for block in (spec["external"]["properties"], listener()["external"]["properties"])
    )
    assert len(set(kafka)) == len(kafka)
    assert not set(kafka) & set(grpc)
    assert min(kafka) >= 30_000
    assert max(kafka) <= 32_767


def _counted(port: dict[str, Any], role: dict[str, Any]) -> range:
    first = port["default"]
    return range(first, first + role["properties"]["replicas"]["maximum"])


def test_the_rule_of_taken_ports_names_those_of_the_pods() -> None:
    definition = custom_resources.definitions()["ShareCluster"]["spec"]["versions"][0]
    spec = definition["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    rules = [each["rule"] for each in spec["kafkaListener"]["x-kubernetes-validations"]]
    taken = sorted((names.METRICS_PORT, names.GRPC_PORT, names.HEALTH_PORT))
    assert f"!(self.port in {taken})" in rules


def test_the_block_stands_in_the_cluster_as_it_is_given_and_the_notes_say_where() -> None:
    values = rendering.CLUSTER_VALUES[CASE]
    [cluster] = rendering.of_kind(rendering.documents("sharemesh-cluster", values), "ShareCluster")
    assert cluster["spec"]["kafkaListener"] == values["cluster"]["spec"]["kafkaListener"]
    said = rendering.notes("sharemesh-cluster", values)
    assert "bootstrap.servers main-bootstrap-kafka.queues.svc:19092;" in said
    assert "clients of Kafka outside main-bootstrap.example.org:30899." in said
    assert "sharemesh users create NAME" in said
    plain = copy.deepcopy(values)
    plain["cluster"]["spec"]["kafkaListener"] = {}
    said = rendering.notes("sharemesh-cluster", plain)
    assert "bootstrap.servers main-bootstrap-kafka.queues.svc:9092." in said
    assert "users create" not in said


def ingress(**policy: Any) -> list[dict[str, Any]]:
    given = {"etcd": {"endpoints": ["http://e:2379"]}, "networkPolicy": policy}
    policies = rendering.of_kind(rendering.documents("sharemesh", given), "NetworkPolicy")
    mine = next(each for each in policies if each["metadata"]["name"].endswith("-roles"))
    found: list[dict[str, Any]] = mine["spec"]["ingress"]
    return found


def test_clients_reach_the_ports_of_listeners() -> None:
    def rules(**policy: Any) -> list[dict[str, Any]]:
        return [
            each
            for each in ingress(**policy)
            if each["ports"][0]["port"] not in (names.GRPC_PORT, names.HEALTH_PORT, 9090)
        ]

    [shipped] = rules()
    assert shipped == {"ports": [{"port": 9092, "protocol": "TCP"}]}
    peers = [{"namespaceSelector": {"matchLabels": {"team": "shop"}}}]
    [named] = rules(kafkaListenerPorts=[19092, 9092], clients=peers)
    assert [each["port"] for each in named["ports"]] == [19092, 9092]
    assert named["from"] == peers
    assert rules(kafkaListenerPorts=[]) == []
