"""Kafka storage in the charts: values are those of the definition, ports of brokers are open."""

from typing import Any

import helm_python as helm
import pytest
import yaml

from deploy.pages import custom_resources
from sharemesh_operator.resources.kafka_spec import kafka_settings, kafka_spec
from sharemesh_spark.options import parser
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
    ("case", "more", "words"),
    [
        (
            "Kafka of Strimzi",
            {"claim": {"create": True}},
            "claim.create makes the claim of Shared storage",
        ),
        ("one broker for tests", {"spark": {"enabled": True}}, "needs cluster.storage.generations"),
        (
            "generations in an object store",
            {"spark": {"enabled": True, "executors": 1}},
            "leave executors at 0",
        ),
    ],
)
def test_what_needs_a_volume_is_refused_in_words(case: str, more: Any, words: str) -> None:
    values = rendering.CLUSTER_VALUES[case] | more
    with pytest.raises(helm.HelmError, match=words):
        rendering.texts("sharemesh-cluster", values)


LOGINS: dict[str, dict[str, Any]] = {
    "nobody": {},
    "TLS of a public authority": {"tls": {}},
    "the certificate of a KafkaUser": {
        "tls": {"caSecretName": "ca", "caKey": "root.crt"},
        "authentication": {"type": "Tls", "secretName": "alice"},
    },
    "a certificate of its own": {
        "tls": {"certificateSecretName": "mine"},
        "authentication": {"type": "Tls"},
    },
    "a password in clear text": {"authentication": {"type": "Plain", "secretName": "alice"}},
    "SCRAM": {
        "topicPrefix": "mesh-",
        "tls": {"caSecretName": "ca"},
        "authentication": {
            "type": "ScramSha256",
            "secretName": "s",
            "username": "alice",
            "passwordKey": "p",
        },
    },
    "a token": {"tls": {}, "authentication": {"type": "OAuthBearer", "secretName": "s"}},
}


@pytest.mark.parametrize("login", LOGINS)
def test_spark_reaches_the_brokers_as_the_processes_do(login: str) -> None:
    """The chart says in its own words what the operator says: one must not forget a login."""
    block = {"bootstrapServers": ["one:9093", "two:9093"], **LOGINS[login]}
    case = rendering.CLUSTER_VALUES["Kafka of Strimzi"]
    storage = KAFKA | {"kafka": block}
    cluster = case["cluster"] | {"storage": storage}
    found = rendering.documents("sharemesh-cluster", case | {"cluster": cluster})
    [settings] = [
        yaml.safe_load(each["data"]["brokers.yaml"])
        for each in rendering.of_kind(found, "ConfigMap")
        if "brokers.yaml" in each["data"]
    ]
    mine = kafka_settings(kafka_spec(block), "/etc/sharemesh/kafka")
    of_processes = {name: mine[name] for name in settings if name != "cluster_id"}
    [whose] = rendering.of_kind(found, "ShareCluster")
    assert settings == of_processes | {"cluster_id": f"queues.{whose['metadata']['name']}"}
    told = {name for name in mine if name.startswith(("kafka_sasl", "kafka_tls", "kafka_oauth"))}
    assert told <= set(settings)

    [job] = rendering.of_kind(found, "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert "--kafka=/opt/spark-conf/brokers.yaml" in container["args"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert set(mounts) == set(volumes)
    claim = {"claimName": "generations"}
    assert volumes["data"]["persistentVolumeClaim"] == claim
    files = [each for each in settings.values() if str(each).startswith("/etc/")]
    assert all(str(each).rpartition("/")[0] in mounts.values() for each in files)


def test_spark_works_on_a_copy_of_an_object_store_and_nobody_has_a_volume() -> None:
    values = rendering.CLUSTER_VALUES["generations in an object store"]
    found = rendering.documents("sharemesh-cluster", values)
    uri = values["cluster"]["storage"]["generations"]["uri"]
    [cluster] = rendering.of_kind(found, "ShareCluster")
    assert cluster["spec"]["storage"]["generations"] == {"uri": uri}
    assert not rendering.of_kind(found, "PersistentVolumeClaim")
    [job] = rendering.of_kind(found, "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["data"] == {"name": "data", "emptyDir": {}}
    [container] = pod["containers"]
    assert container["args"][:4] == ["sharemesh-spark", "compact", uri, "--commit"]
    assert "--work=/data" in container["args"]
    assert values["spark"]["env"][0] in container["env"]
    options = parser().parse_args(container["args"][1:])
    assert (options.data, str(options.work)) == (uri, "/data")


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


def test_role_pods_reach_the_ports_of_object_stores_that_are_named() -> None:
    named = egress("roles", networkPolicy={"objectStorePorts": [9000]})
    assert set(named) - set(egress("roles")) == {9000}
