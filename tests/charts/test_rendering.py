"""Every document that the charts can make is one that the API server takes."""

from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import yaml

from tests.charts import rendering
from tests.charts.custom_resources import check

VERSIONS = ("1.30", "1.34", "1.37")
CUSTOM = "sharemesh.io"
CERT_MANAGER = "cert-manager.io"


@pytest.mark.parametrize(("chart", "case"), rendering.MATRIX)
def test_each_document_fits_the_schemas_of_kubernetes(chart: str, case: str) -> None:
    found = rendering.documents(chart, rendering.values(chart, case))
    assert found
    for document in found:
        if document["apiVersion"].startswith(CUSTOM):
            assert check(document) == []
        elif not document["apiVersion"].startswith(CERT_MANAGER):  # test_production holds these
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize(("chart", "case"), rendering.MATRIX)
def test_names_are_unique_and_short_enough(chart: str, case: str) -> None:
    found = rendering.documents(chart, rendering.values(chart, case))
    names = [(d["apiVersion"], d["kind"], d["metadata"]["name"]) for d in found]
    assert len(names) == len(set(names))
    for _, kind, name in names:
        assert kind == "CustomResourceDefinition" or len(name) <= 63


@pytest.mark.parametrize(("chart", "case"), rendering.MATRIX)
def test_each_object_says_what_it_belongs_to(chart: str, case: str) -> None:
    for document in rendering.documents(chart, rendering.values(chart, case)):
        assert document["metadata"]["labels"]["app.kubernetes.io/part-of"] == "sharemesh"


def pod_specs(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pod spec of everything that makes pods."""
    specs = [d["spec"] for d in rendering.of_kind(found, "Pod")]
    for kind in ("Deployment", "StatefulSet"):
        specs += [d["spec"]["template"]["spec"] for d in rendering.of_kind(found, kind)]
    for job in rendering.of_kind(found, "CronJob"):
        specs.append(job["spec"]["jobTemplate"]["spec"]["template"]["spec"])
    for config in rendering.of_kind(found, "ConfigMap"):
        if "executor.yaml" in config["data"]:
            specs.append(yaml.safe_load(config["data"]["executor.yaml"])["spec"])
    return specs


@pytest.mark.parametrize(("chart", "case"), rendering.MATRIX)
def test_pods_keep_to_the_restricted_pod_security_standard(chart: str, case: str) -> None:
    for spec in pod_specs(rendering.documents(chart, rendering.values(chart, case))):
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] >= 10000
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(("chart", "case"), rendering.MATRIX)
def test_only_who_asks_the_api_server_gets_a_token(chart: str, case: str) -> None:
    for spec in pod_specs(rendering.documents(chart, rendering.values(chart, case))):
        asks = {"operator", "spark"} | ({"test"} if "serviceAccountName" in spec else set())
        names = {container["name"] for container in spec["containers"]}
        if spec["automountServiceAccountToken"]:
            assert names <= asks
            assert spec["serviceAccountName"]


def test_crds_and_data_stay_when_a_release_is_uninstalled() -> None:
    keep = {"helm.sh/resource-policy": "keep"}
    for crd in rendering.documents("sharemesh-crds", {}):
        assert crd["metadata"]["annotations"] == keep
    inside = rendering.documents("sharemesh", {"etcd": {"inCluster": {"enabled": True}}})
    assert rendering.of_kind(inside, "PersistentVolumeClaim")[0]["metadata"]["annotations"] == keep
    values = {"cluster": rendering.CLUSTER_VALUES["a claim of its own"]["cluster"]}
    data = rendering.documents("sharemesh-cluster", values | {"claim": {"create": True}})
    for kind in ("ShareCluster", "PersistentVolumeClaim"):
        assert rendering.of_kind(data, kind)[0]["metadata"]["annotations"] == keep


@pytest.mark.parametrize(
    ("chart", "wrong", "words"),
    [
        ("sharemesh", {"opreator": {}}, "opreator"),
        ("sharemesh", {"operator": {"replicas": 0}}, "replicas"),
        ("sharemesh", {"etcd": {"endpoints": ["etcd:2379"]}}, "endpoints"),
        ("sharemesh", {"image": {"digest": "latest"}}, "digest"),
        ("sharemesh-cluster", {"cluster": {"storage": {"type": "Local"}}}, "storage"),
        ("sharemesh-cluster", {"topics": [{"name": "a"}]}, "partitions"),
        (
            "sharemesh-cluster",
            {"groups": [{"name": "g", "topics": ["a"], "maxDeliveryAttempts": 11}]},
            "maxDeliveryAttempts",
        ),
        ("sharemesh-crds", {"keep": True}, "keep"),
    ],
)
def test_wrong_values_are_refused_with_their_name(chart: str, wrong: dict, words: str) -> None:
    with pytest.raises(helm.HelmError, match=words):
        rendering.texts(chart, wrong)


def test_without_an_etcd_the_charts_say_what_to_set() -> None:
    with pytest.raises(helm.HelmError, match=r"name etcd\.endpoints, or set etcd\.inCluster"):
        rendering.texts("sharemesh", {})
    with pytest.raises(helm.HelmError, match=r"cluster\.etcd\.endpoints is empty"):
        rendering.texts("sharemesh-cluster", {})


@pytest.mark.parametrize(("chart", "case"), [m for m in rendering.MATRIX if "crds" not in m[0]])
def test_notes_say_how_to_test_and_warn_of_what_is_off(chart: str, case: str) -> None:
    values = rendering.values(chart, case)
    said = rendering.notes(chart, values)
    has_tests = values.get("tests", {}).get("enabled", True)
    assert ("helm -n queues test main" in said) == has_tests
    if chart == "sharemesh":
        assert ("without TLS" in said) == (not values["etcd"].get("tlsSecretName"))
        assert ("one member" in said) == ("inCluster" in values["etcd"])
    else:
        tls = "tls" in values["cluster"].get("spec", {})
        assert ("plain text" in said) == (not tls)


def test_every_value_stands_in_the_schema_and_the_schema_names_no_other() -> None:
    for chart in ("sharemesh", "sharemesh-cluster"):
        with helm.Chart.load(rendering.CHARTS / chart) as loaded:
            defaults, schema = loaded.values, loaded.schema
        assert schema is not None
        assert schema["properties"].keys() - {"global"} == defaults.keys()
        for name, value in defaults.items():
            inner = schema["properties"][name].get("properties")
            if isinstance(value, dict) and inner:
                assert inner.keys() == value.keys(), name


def test_dashboards_and_rules_are_the_files_of_the_chart() -> None:
    found = rendering.documents("sharemesh", {"etcd": {"endpoints": ["http://e:2379"]}})
    data = {d["metadata"]["name"]: d["data"] for d in rendering.of_kind(found, "ConfigMap")}
    chart = rendering.CHARTS / "sharemesh"
    dashboard = (chart / "dashboards" / "sharemesh.json").read_text()
    assert data["main-sharemesh-dashboards"]["sharemesh.json"] == dashboard
    rules = (chart / "rules" / "sharemesh.yaml").read_text()
    assert data["main-sharemesh-rules"]["sharemesh.yaml"] == rules
