"""The production profile: what it makes is what docs/guides/security.md asks for."""

from typing import Any

import helm_python as helm
import jsonschema
import pytest

from sharemesh_operator.resources.cluster_spec import cluster_spec
from sharemesh_operator.resources.workloads import settings
from tests.charts import rendering
from tests.charts.custom_resources import check
from tests.charts.test_prometheus_operator import TEXT, TEXTS, closed

REF = closed(["name", "kind", "group"], name=TEXT, kind=TEXT, group=TEXT)
KEY = closed(
    ["algorithm", "size"],
    algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
    size={"enum": [256, 384, 521]},
    rotationPolicy={"enum": ["Never", "Always"]},
)
DURATION = {"type": "string", "pattern": r"^[0-9]+h$"}
USAGES = {"type": "array", "items": {"enum": ["digital signature", "server auth", "client auth"]}}
CERTIFICATE = closed(
    ["secretName", "issuerRef"],
    secretName=TEXT,
    issuerRef=REF,
    commonName={"type": "string", "maxLength": 64},
    duration=DURATION,
    renewBefore=DURATION,
    dnsNames=TEXTS,
    usages=USAGES,
    privateKey=KEY,
    isCA={"type": "boolean"},
)
ISSUER = closed([], selfSigned=closed([]), ca=closed(["secretName"], secretName=TEXT))
KINDS = {"Certificate": CERTIFICATE, "Issuer": ISSUER}
"""Of cert-manager 1.19 (cert-manager.io/v1) the fields that the chart uses: others are refused."""


def made(chart: str, **changed: Any) -> list[dict[str, Any]]:
    return rendering.documents(chart, rendering.values(chart, rendering.PRODUCTION) | changed)


def one(found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    [document] = rendering.of_kind(found, kind)
    return document


@pytest.mark.parametrize("issuer", ["", "corporate"])
def test_the_certificate_is_as_cert_manager_defines_it_and_names_the_pods(issuer: str) -> None:
    values = {"create": True, "issuerRef": {"name": issuer, "kind": "ClusterIssuer"}}
    found = made("sharemesh-cluster", certificate=values if issuer else {"create": True})
    made_by = [each for each in found if each["apiVersion"] == "cert-manager.io/v1"]
    for each in made_by:
        jsonschema.validate(each["spec"], KINDS[each["kind"]])
    assert len(made_by) == (1 if issuer else 4)
    pods = next(each["spec"] for each in made_by if "dnsNames" in each["spec"])
    assert pods["secretName"] == one(found, "ShareCluster")["spec"]["tls"]["secretName"]
    assert pods["dnsNames"] == ["*.queues.svc"]
    assert pods["issuerRef"]["name"] == (issuer or "main-ca")
    assert pods["privateKey"]["rotationPolicy"] == "Always"


def test_a_certificate_without_its_secret_is_refused_in_words() -> None:
    cluster = {"etcd": {"endpoints": ["http://a:2379"]}, "storage": {"type": "Shared"}}
    with pytest.raises(helm.HelmError, match=r"certificate\.create needs cluster\.spec\.tls"):
        rendering.texts("sharemesh-cluster", {"cluster": cluster, "certificate": {"create": True}})


def test_callers_are_known_by_tokens_and_may_do_what_rules_allow() -> None:
    found = made("sharemesh-cluster")
    cluster = one(found, "ShareCluster")
    assert check(cluster) == []
    cluster["metadata"] |= {"namespace": "queues", "uid": "u"}
    given = settings(cluster_spec(cluster, default_image="i:1"))
    assert given["authorizer"] == "acl"
    assert given["tls_client_certificates"] == "none"
    assert given["token_audience"] == "sharemesh"
    assert "User:system:serviceaccount:queues:main-pods" in given["super_users"]
    assert "User:system:serviceaccount:sharemesh:sharemesh-operator" in given["super_users"]
    account = one(found, "ServiceAccount")
    assert account["metadata"]["name"] == "main-pods"
    users = rendering.of_kind(found, "ShareUser")
    assert all(check(each) == [] and each["spec"]["quotas"] for each in users)
    test = one(found, "Pod")["spec"]
    assert test["serviceAccountName"] == "main-pods"
    [shown] = next(each for each in test["volumes"] if each["name"] == "mesh-token")["projected"][
        "sources"
    ]
    assert shown["serviceAccountToken"]["audience"] == "sharemesh"


def test_the_operator_shows_a_token_of_the_same_audience() -> None:
    found = made("sharemesh")
    spec = one(found, "Deployment")["spec"]["template"]["spec"]
    [source] = next(each for each in spec["volumes"] if each["name"] == "mesh-token")["projected"][
        "sources"
    ]
    assert source["serviceAccountToken"]["audience"] == "sharemesh"
    env = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    mounts = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    assert env["SHAREMESH_OPERATOR_TOKEN_FILE"] == mounts["mesh-token"] + "/token"


def test_every_port_of_every_pod_is_open_to_somebody_named_only() -> None:
    for policy in rendering.of_kind(made("sharemesh"), "NetworkPolicy"):
        assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        for rule in policy["spec"]["ingress"]:
            assert rule["from"], rule
    roles = next(
        each
        for each in rendering.of_kind(made("sharemesh"), "NetworkPolicy")
        if each["metadata"]["name"].endswith("-roles")
    )
    ports = {port["port"] for rule in roles["spec"]["ingress"] for port in rule["ports"]}
    assert ports == {9400, 9401, 9090}
    out = {port["port"] for rule in roles["spec"]["egress"] for port in rule["ports"]}
    assert {443, 6443} <= out, "the keys of tokens"


def test_spark_and_helm_test_reach_the_pods_and_not_etcd_where_clients_are_named() -> None:
    policies = rendering.of_kind(made("sharemesh"), "NetworkPolicy")
    for kind, component in (("CronJob", "spark"), ("Pod", "test")):
        pod = one(made("sharemesh-cluster", spark={"enabled": True}), kind)
        if kind == "CronJob":
            pod = pod["spec"]["jobTemplate"]["spec"]["template"]
        labels = pod["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == component
        let_in = {
            port["port"]
            for policy in policies
            for rule in policy["spec"]["ingress"]
            if any(_selects(peer, labels) for peer in rule["from"])
            for port in rule["ports"]
        }
        assert let_in == {9400}


def _selects(peer: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a peer of a policy is a pod with these labels, of the namespace."""
    if "namespaceSelector" in peer or "podSelector" not in peer:
        return False
    selector = peer["podSelector"]
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(
        each["key"] in labels
        if each["operator"] == "Exists"
        else labels.get(each["key"]) in each["values"]
        for each in selector.get("matchExpressions", ())
    )


def test_spark_commits_as_an_account_of_its_own() -> None:
    found = made("sharemesh-cluster", spark={"enabled": True})
    user = next(
        each
        for each in rendering.of_kind(found, "ShareUser")
        if each["metadata"]["name"] == "main-spark"
    )
    assert user["spec"]["acls"] == [{"resourceType": "Cluster", "operations": ["ClusterAction"]}]
    assert user["spec"]["principal"] == "User:system:serviceaccount:queues:main-spark"
    spec = one(found, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "main-spark"
    env = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    assert env["SHAREMESH_TOKEN_FILE"] == "/etc/sharemesh/token/token"
