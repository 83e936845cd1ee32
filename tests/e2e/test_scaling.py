"""kubectl scale on a ShareCluster."""

import json
import time

import pytest

from tests.e2e.kube import until


def leads(mesh) -> dict[str, int]:
    """Return how many partitions each share-leader pod leads."""
    said = json.loads(mesh.sharemesh("cluster", "--json"))
    return {
        node["node"]: node["partitions"] for node in said["nodes"] if node["role"] == "share-leader"
    }


@pytest.fixture
def scale(mesh):
    """Change the number of leaders; in the end it is two again.

    Balance waits until nothing has changed for half a minute; here it need not.
    """
    mesh.kube.patch("sharecluster", "main", {"spec": {"placement": {"settleSeconds": 2}}})

    def change(replicas: int) -> None:
        mesh.kube("scale", "sharecluster/main", f"--replicas={replicas}")
        mesh.settled()

    yield change
    mesh.kube.patch("sharecluster", "main", {"spec": {"placement": {"settleSeconds": 30}}})
    change(2)


def test_from_two_leaders_to_three_and_back_nothing_is_lost(mesh, scale, timings):
    topic, group = mesh.topic_and_group("scaled", partitions=6)
    load = mesh.load(topic, group)
    load.flows()
    started = time.monotonic()
    scale(3)
    until("the new leader leads", lambda: leads(mesh).get("main-share-leader-2", 0) > 0 or None)
    timings.note("scale 2 to 3: the new leader leads", time.monotonic() - started)
    load.flows()
    started = time.monotonic()
    scale(2)
    mesh.kube.gone("pod", "main-share-leader-2")
    timings.note("scale 3 to 2: settled", time.monotonic() - started)
    load.flows()
    assert "main-share-leader-2" not in leads(mesh)
    verdict = load.finish()
    verdict.check()
    timings.note("scaling: longest silence", verdict.longest_silence_ms / 1000)


def test_the_scale_subresource_names_the_pods(mesh):
    path = f"/apis/sharemesh.io/v1alpha1/namespaces/{mesh.namespace}/shareclusters/main/scale"

    def told() -> str | None:
        found = json.loads(mesh.kube("get", "--raw", path))
        counts = found["spec"]["replicas"], found["status"]["replicas"]
        return found["status"]["selector"] if counts == (2, 2) else None

    selector = until("spec and status say two", told, timeout_s=30)
    assert len(mesh.kube.names("pods", selector)) == 2
