"""Kafka storage in the charts: values are those of the definition, ports of brokers are open."""

from typing import Any

import helm_python as helm
import pytest

from deploy.pages import custom_resources
from tests.charts import rendering

KAFKA = rendering.CLUSTER_VALUES["Kafka of Strimzi"]["cluster"]["storage"]
BROKERS = [9092, 9093]


def shape(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the names of a schema, with the choices of each."""
    inner = schema.get("properties", {})
    return {
        name: shape(each) or each.get("enum") or each["type"].replace("number", "integer")
        for name, each in inner.items()
    }


def test_values_of_storage_are_those_of_the_definition() -> None:
    with helm.Chart.load(rendering.CHARTS / "sharemesh-cluster") as chart:
        assert chart.schema is not None
        mine = chart.schema["properties"]["cluster"]["properties"]["storage"]
    definition = custom_resources.definitions()["ShareCluster"]["spec"]["versions"][0]
    spec = definition["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert shape(mine) == shape(spec["properties"]["storage"])


def test_the_block_stands_in_the_cluster_as_it_is_given() -> None:
    found = rendering.documents("sharemesh-cluster", rendering.CLUSTER_VALUES["Kafka of Strimzi"])
    [cluster] = rendering.of_kind(found, "ShareCluster")
    assert cluster["spec"]["storage"] == KAFKA
    assert not rendering.of_kind(found, "PersistentVolumeClaim")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"claim": {"create": True}}, "claim.create makes the claim of Shared storage"),
        ({"spark": {"enabled": True}}, "the Spark job reads a data directory"),
    ],
)
def test_what_needs_a_data_directory_is_refused_in_words(more: Any, words: str) -> None:
    values = rendering.CLUSTER_VALUES["Kafka of Strimzi"] | more
    with pytest.raises(helm.HelmError, match=words):
        rendering.texts("sharemesh-cluster", values)


@pytest.mark.parametrize(
    ("case", "said"), [("Kafka of Strimzi", False), ("one broker for tests", True)]
)
def test_one_replica_is_warned_of(case: str, *, said: bool) -> None:
    notes = rendering.notes("sharemesh-cluster", rendering.CLUSTER_VALUES[case])
    assert ("WARNING: singleReplica" in notes) is said
    assert "docs/guides/kafka.md" in notes


def egress(whose: str, **values: Any) -> list[int]:
    given = {"etcd": {"endpoints": ["http://e:2379"]}, **values}
    policies = rendering.of_kind(rendering.documents("sharemesh", given), "NetworkPolicy")
    policy = next(each for each in policies if each["metadata"]["name"].endswith(f"-{whose}"))
    return [port["port"] for each in policy["spec"]["egress"] for port in each["ports"]]


@pytest.mark.parametrize("whose", ["roles", "operator"])
def test_pods_reach_the_ports_of_brokers_that_are_named(whose: str) -> None:
    """The operator too: the elected controller, which asks for topics, runs in it."""
    shipped = egress(whose)
    assert set(shipped) - set(egress(whose, networkPolicy={"kafkaPorts": []})) == set(BROKERS)
    named = egress(whose, networkPolicy={"kafkaPorts": [9096]})
    assert set(named) - set(shipped) == {9096}
    assert set(shipped) - set(named) == set(BROKERS)
