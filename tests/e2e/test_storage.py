"""Where the data directory may lie."""

from tests.e2e import objects
from tests.e2e.kube import Kube


def volume(mesh, name: str) -> dict:
    """Return a PersistentVolume for many writers on the node."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{mesh.namespace}-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"name": name, "namespace": mesh.namespace},
            "hostPath": {"path": mesh.host_path(name), "type": "Directory"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": "kubernetes.io/hostname",
                                    "operator": "In",
                                    "values": [mesh.node],
                                }
                            ]
                        }
                    ]
                }
            },
        },
    }


def claim(mesh, name: str, mode: str) -> dict:
    """Return a claim on that volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": [mode],
            "storageClassName": "",
            "volumeName": f"{mesh.namespace}-{name}",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def test_a_shared_claim_carries_a_cluster_under_the_restricted_standard(mesh, small):
    label = "pod-security.kubernetes.io/enforce"
    mesh.make_directories("shared")
    mesh.kube.apply(volume(mesh, "shared"), claim(mesh, "shared", "ReadWriteMany"))
    Kube("default")("label", "namespace", mesh.namespace, f"{label}=restricted")
    try:
        storage = {"type": "Shared", "claimName": "shared"}
        mesh.kube.apply(objects.small_cluster("shared-cluster", mesh.etcd, storage))
        mesh.ready("shared-cluster")
        topic, group = mesh.topic_and_group("on-shared", cluster="shared-cluster")
        load = mesh.load(topic, group, cluster="shared-cluster")
        load.flows(20)
        load.finish().check()
    finally:
        Kube("default")("label", "namespace", mesh.namespace, f"{label}-")
        for kind, names in (
            ("sharegroup", ["on-shared-group"]),
            ("sharetopic", ["on-shared-topic"]),
            ("sharecluster", ["shared-cluster"]),
            ("pvc", ["shared"]),
            ("pv", [f"{mesh.namespace}-shared"]),
        ):
            mesh.kube.delete(kind, *names)


def test_a_claim_for_one_writer_is_refused_in_words(mesh, small):
    mesh.kube.apply(claim(mesh, "single", "ReadWriteOnce"))
    small("unshared", storage={"type": "Shared", "claimName": "single"}, ready=False)
    condition = mesh.kube.wait_for_condition(
        "sharecluster", "unshared", reason="StorageNotShared", status="False"
    )
    assert "ReadWriteMany" in condition["message"]
    assert not mesh.pods("share-leader", "unshared")
    mesh.kube.delete("pvc", "single")
