"""What goes when an object is deleted, and what stays."""

from tests.e2e import objects
from tests.e2e.kube import until

OWNED = ("statefulsets", "services", "configmaps", "poddisruptionbudgets", "pods")


def test_a_deleted_topic_takes_its_records_along_only_if_told_so(mesh):
    mesh.kube.apply(
        objects.topic("kept", "main", partitions=1),
        objects.topic("dropped", "main", partitions=1, deletionPolicy="Delete"),
    )
    for name in ("kept", "dropped"):
        mesh.kube.wait_for_condition("sharetopic", name)
        mesh.kube.delete("sharetopic", name, wait=True)
    topics = mesh.sharemesh("topics", "list").split()
    assert "kept" in topics
    assert "dropped" not in topics
    mesh.sharemesh("topics", "delete", "kept")


def test_a_deleted_group_takes_its_state_along_only_if_told_so(mesh):
    topic, _ = mesh.topic_and_group("policies", partitions=1)
    mesh.kube.apply(
        objects.group("group-kept", "main", topic),
        objects.group("group-dropped", "main", topic, deletionPolicy="Delete"),
    )
    for name in ("group-kept", "group-dropped"):
        mesh.kube.wait_for_condition("sharegroup", name)
        mesh.sharemesh("consume", topic, "--group", name, "--idle", "2000")
        mesh.kube.delete("sharegroup", name, wait=True)
    groups = mesh.sharemesh("groups", "list")
    assert "group-kept" in groups
    assert "group-dropped" not in groups


def test_a_deleted_cluster_leaves_no_object_and_keeps_its_data(mesh, small):
    small("gone")
    topic, group = mesh.topic_and_group("orphan", cluster="gone", partitions=1)
    load = mesh.load(topic, group, cluster="gone")
    load.flows(20)
    load.finish().check()
    mesh.kube.delete("sharecluster", "gone", wait=True, timeout_s=120)
    for kind in OWNED:
        until(
            f"no {kind} of the cluster are left",
            lambda kind=kind: not mesh.kube.names(kind, "sharemesh.io/cluster=gone") or None,
            timeout_s=120,
        )
    for kind, name in (("sharetopic", topic), ("sharegroup", group)):
        condition = mesh.kube.wait_for_condition(kind, name, status="False")
        assert condition["reason"] == "ClusterNotFound"
        mesh.kube.delete(kind, name, wait=True, timeout_s=120)
    left = mesh.as_root("look", f"ls /host/{mesh.namespace}/gone")
    assert left.strip(), "the data directory is empty"
