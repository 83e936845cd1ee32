"""Backup and restore as docs/guides/backup-and-restore.md tells it."""

import shlex
import time

import yaml

from tests.e2e import environment
from tests.e2e.kube import until
from tests.e2e.test_operations import consume, produce

PAUSE = "sharemesh.io/pause-reconciliation"
SNAPSHOT = "/var/lib/etcd/backup.db"
RESTORE = environment.ROOT / "examples" / "kubernetes" / "restore-etcd.yaml"


def stop(mesh) -> None:
    """Stop all role pods; the operator leaves them so."""
    mesh.kube("annotate", "sharecluster", "main", f"{PAUSE}=true", "--overwrite")
    mesh.kube.wait_for_condition("sharecluster", "main", "ReconciliationPaused")
    mesh.kube("scale", "statefulset", "-l", "sharemesh.io/cluster=main", "--replicas=0")
    until(
        "all role pods are gone",
        lambda: not mesh.kube.names("pods", "sharemesh.io/cluster=main") or None,
        timeout_s=180,
    )


def go_on(mesh) -> None:
    """Let the operator start them again; until it has looked, its conditions are the old ones."""
    mesh.kube("annotate", "sharecluster", "main", f"{PAUSE}-")
    until("pods of all roles", lambda: all(map(mesh.pods, environment.ROLES)))
    pods = ("pods", "-l", "sharemesh.io/cluster=main")
    mesh.kube("wait", *pods, "--for=condition=Ready", "--timeout=60s")
    mesh.settled()


def back_up(mesh) -> None:
    stop(mesh)
    mesh.kube.exec("sharemesh-etcd-0", "etcdctl", "snapshot", "save", SNAPSHOT)
    where = shlex.quote(f"/host/{mesh.namespace}")
    mesh.as_root("back-up", f"tar -C {where}/main -cf {where}/main.tar .")
    go_on(mesh)


def restore(mesh) -> None:
    stop(mesh)
    mesh.kube("scale", "statefulset/sharemesh-etcd", "--replicas=0")
    mesh.kube.gone("pod", "sharemesh-etcd-0")
    job = yaml.safe_load(RESTORE.read_text())
    pod = job["spec"]["template"]["spec"]
    pod["initContainers"][0]["image"] = f"{mesh.images.registry}/etcd:{mesh.images.etcd_tag}"
    pod["containers"][0]["image"] = mesh.images.sharemesh
    mesh.kube.apply(job)
    mesh.kube("wait", "job/restore-etcd", "--for=condition=Complete", "--timeout=60s")
    mesh.kube.delete("job", "restore-etcd")
    where = shlex.quote(f"/host/{mesh.namespace}")
    clear = f"find {where}/main -mindepth 1 -delete"
    mesh.as_root("restore", f"{clear}; tar -C {where}/main -xf {where}/main.tar")
    mesh.kube("scale", "statefulset/sharemesh-etcd", "--replicas=1")
    mesh.kube("rollout", "status", "statefulset/sharemesh-etcd", "--timeout=60s")
    go_on(mesh)


def test_after_a_restore_the_mesh_stands_where_the_backup_was_made(mesh, timings):
    topic, group = mesh.topic_and_group("saved", partitions=2)
    produce(mesh, topic)
    said = mesh.sharemesh("consume", topic, "--group", group, "--max-records", "8")
    before = [line for line in said.splitlines() if line]
    assert len(before) == 8
    started = time.monotonic()
    back_up(mesh)
    timings.note("backup, with all pods stopped", time.monotonic() - started)
    produce(mesh, topic, 5)
    consume(mesh, topic, group)
    started = time.monotonic()
    restore(mesh)
    timings.note("restore", time.monotonic() - started)
    after = consume(mesh, topic, group)
    assert sorted([*before, *after]) == sorted(str(n + 1) for n in range(20))
