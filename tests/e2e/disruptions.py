"""Ways to take a pod away."""

import json

from tests.e2e.kube import Kube, is_ready, restarts, until

# The first process of a container of ours is the guard; what it guards is the role or the operator.
KILL_GUARDED = """
import os, pathlib, signal
for entry in pathlib.Path("/proc").iterdir():
    if entry.name.isdigit() and int(entry.name) not in (1, os.getpid()):
        if b"sharemesh" in (entry / "cmdline").read_bytes():
            os.kill(int(entry.name), signal.SIGKILL)
            print("killed", entry.name)
"""


def kill_guarded(kube: Kube, pod: str) -> None:
    """Send SIGKILL to what a pod's guard guards."""
    assert "killed" in kube.exec(pod, "python3", "-c", KILL_GUARDED)


def kill_guarded_process(kube: Kube, pod: str) -> None:
    """Send SIGKILL to what a pod's guard guards; return when its container was started again."""
    before = restarts(kube.get("pod", pod))
    kill_guarded(kube, pod)

    def back() -> bool | None:
        found = kube.get("pod", pod)
        return (restarts(found) > before and is_ready(found)) or None

    until(f"{pod} is back after its process was killed", back, timeout_s=90)


def replaced(kube: Kube, pod: str, uid: str, *, timeout_s: float = 150) -> None:
    """Wait until a pod of the same name, but another one, is ready."""

    def back() -> bool | None:
        found = kube.get("pod", pod)
        return (found["metadata"]["uid"] != uid and is_ready(found)) or None

    until(f"another {pod} is ready", back, timeout_s=timeout_s)


def kill_pod(kube: Kube, pod: str) -> None:
    """Delete a pod without any grace: all its processes get SIGKILL."""
    kube("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")


def try_to_evict(kube: Kube, pod: str) -> bool:
    """Ask for an eviction; return whether it was granted (a disruption budget may refuse it)."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": kube.namespace},
    }
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{pod}/eviction"
    refusal = kube.complaint("create", "--raw", path, "-f", "-", text=json.dumps(eviction))
    assert not refusal or "disruption budget" in refusal, refusal
    return not refusal
