"""helm upgrade, uninstall and install again."""

import json
import os
from pathlib import Path

from tests.e2e.audit import Account, denied_with_rights, requests_of
from tests.e2e.environment import CHARTS, definitions_alone, install_definitions
from tests.e2e.kube import Kube, until
from tests.e2e.test_operations import consume, produce


def deployment(mesh):
    return mesh.kube.get("deployment", "sharemesh-operator")["spec"]


def cluster_values(mesh, **more: str) -> list[str]:
    storage = mesh.storage("released")
    values = {
        "cluster.etcd.endpoints": "{" + mesh.etcd + "}",
        "cluster.storage.type": storage["type"],
        "cluster.storage.node": storage["node"],
        "cluster.storage.hostPath": storage["hostPath"],
        "cluster.spec.shareLeaders.replicas": "1",
        "cluster.spec.groupCoordinators.replicas": "1",
        "cluster.spec.shareCoordinators.replicas": "1",
        "tests.image": mesh.images.sharemesh,
        "topics[0].name": "parcels",
        "topics[0].partitions": "2",
        "groups[0].name": "couriers",
        "groups[0].topics": "{parcels}",
        "groups[0].autoOffsetReset": "Earliest",
        **more,
    }
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def test_an_upgrade_to_another_tag_and_other_values_keeps_records_flowing(mesh):
    topic, group = mesh.topic_and_group("upgraded")
    load = mesh.load(topic, group)
    load.flows()
    more = {"image.tag": mesh.images.newer_tag, "operator.logFormat": "text"}
    values = mesh.operator_values(**more)
    mesh.kube.helm("upgrade", "sharemesh", str(CHARTS / "sharemesh"), *values, "--wait")
    container = deployment(mesh)["template"]["spec"]["containers"][0]
    assert container["image"] == mesh.images.newer
    load.flows()
    mesh.settled(timeout_s=300)
    verdict = load.finish()
    verdict.check()


def test_a_cluster_from_the_chart_passes_its_own_test_and_takes_other_values(mesh):
    mesh.make_directories("released")
    chart = str(CHARTS / "sharemesh-cluster")
    mesh.kube.helm("install", "released", chart, *cluster_values(mesh))
    mesh.ready("released")
    mesh.kube.wait_for_condition("sharegroup", "couriers")
    said = mesh.kube.helm("test", "released", "--logs")
    assert "came back" in said
    changed = {"groups[0].recordLockDurationSeconds": "25", "topics[0].partitions": "3"}
    mesh.kube.helm("upgrade", "released", chart, *cluster_values(mesh, **changed))
    mesh.kube.wait_for_condition("sharegroup", "couriers")
    mesh.kube.wait_for_condition("sharetopic", "parcels")
    assert mesh.kube.get("sharetopic", "parcels")["status"]["partitions"] == 3
    name = "share.record.lock.duration.ms"
    assert mesh.group_config("couriers", name, cluster="released") == "25000"


def test_after_uninstall_and_install_the_records_are_still_there(mesh):
    topic, group = mesh.topic_and_group("survivor", partitions=2)
    produce(mesh, topic)
    mesh.kube.helm("uninstall", "sharemesh", "--wait")
    assert "sharemesh-etcd" in mesh.kube.names("pvc")
    assert "main" in mesh.kube.names("sharecluster")
    values = mesh.operator_values()
    mesh.kube.helm("install", "sharemesh", str(CHARTS / "sharemesh"), *values, "--wait")
    mesh.settled(timeout_s=300)
    got: list[str] = []

    def all_back() -> bool | None:
        got.extend(consume(mesh, topic, group))
        return len(got) >= 20 or None

    until("the records are consumed", all_back, timeout_s=120)
    assert sorted(got) == sorted(str(n + 1) for n in range(20))


def test_an_uninstalled_cluster_chart_keeps_the_cluster_and_installs_again(mesh):
    chart = str(CHARTS / "sharemesh-cluster")
    values = cluster_values(mesh, **{"topics[0].partitions": "3"})
    mesh.make_directories("released")
    mesh.kube.helm("upgrade", "--install", "released", chart, *values)
    mesh.ready("released")
    mesh.kube.helm("uninstall", "released", "--wait")
    assert "released" in mesh.kube.names("sharecluster")
    mesh.kube.helm("install", "released", chart, *values)
    mesh.ready("released")
    mesh.kube.helm("uninstall", "released", "--wait")
    mesh.kube.delete("sharecluster", "released", wait=True, timeout_s=120)


def test_definitions_stay_when_their_chart_is_uninstalled(mesh):
    crds = Kube("default")
    with definitions_alone():
        crds.helm("uninstall", "sharemesh-crds")
        assert "sharegroups.sharemesh.io" in crds.names("crd")
        assert mesh.kube.names("sharecluster")
    install_definitions()
    until("definitions are served", lambda: mesh.kube.names("sharegroups") is not None)


def test_no_request_of_an_operator_was_denied_while_it_had_its_role(mesh):
    """By the API server's audit log where it is at hand, else by what operators said of it."""
    audit = os.environ.get("SHAREMESH_E2E_AUDIT_LOG")
    if audit is None:
        said = mesh.operator_logs().lower()
        assert "forbidden" not in said
        return
    account = Account(mesh.namespace, "sharemesh-operator")
    events = [json.loads(line) for line in Path(audit).read_text().splitlines()]
    assert len(requests_of(account, events)) > 100
    assert denied_with_rights(account, events) == []
