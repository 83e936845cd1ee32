"""The operator's replicas: killed, and handing over when it is planned."""

import subprocess
import time
from datetime import datetime

import pytest

from tests.e2e import disruptions, environment
from tests.e2e.kube import program, until

HAND_OVER_GOAL_S = 1.0


def elected(mesh) -> str:
    """Return the name of the pod that leads, as etcd has it; empty while there is none."""
    words = ["--prefix", "/sharemesh-operator/election/", "--sort-by=CREATE", "--limit=1"]
    said = mesh.kube.exec("sharemesh-etcd-0", "etcdctl", "get", *words, "--print-value-only")
    return said.strip()


def followed(mesh, leader: str) -> str:
    """Wait until another pod leads; return its name."""
    return until(
        f"another operator than {leader} is elected",
        lambda: (found := elected(mesh)) not in ("", leader) and found,
    )


def spoken(log: str, event: str) -> datetime | None:
    """Return when a pod said something last, by the kubelet's time stamps."""
    lines = [line for line in log.splitlines() if f'"{event}"' in line]
    return datetime.fromisoformat(lines[-1].split()[0][:26] + "+00:00") if lines else None


@pytest.fixture
def two_replicas(mesh):
    """Both replicas stand for election, before and after."""
    selector = environment.OPERATOR
    until("both are ready", lambda: len(mesh.kube.ready_pods(selector)) == 2 or None)
    yield
    until("both are ready again", lambda: len(mesh.kube.ready_pods(selector)) == 2 or None)


def works(mesh, name: str) -> None:
    """Check that somebody looks after objects."""
    mesh.topic_and_group(name, partitions=1)


@pytest.mark.usefixtures("two_replicas")
def test_a_killed_operator_is_followed_at_once_not_when_its_lease_runs_out(mesh, timings):
    leader = elected(mesh)
    started = time.monotonic()
    disruptions.kill_guarded(mesh.kube, leader)
    followed(mesh, leader)
    took_s = time.monotonic() - started
    timings.note("kill -9 of the operator: another one is elected", took_s)
    works(mesh, "after-kill")


@pytest.mark.usefixtures("two_replicas")
def test_a_planned_hand_over_takes_less_than_a_second(mesh, timings):
    leader = elected(mesh)
    words = ["-n", mesh.namespace, "logs", "-f", "--timestamps", leader]
    with subprocess.Popen([program("kubectl"), *words], stdout=subprocess.PIPE, text=True) as log:
        mesh.kube("delete", "pod", leader, "--wait=false")
        successor = followed(mesh, leader)
        said, _ = log.communicate(timeout=60)
    stopping = spoken(said, "stopping")
    leading = until(
        "the successor leads",
        lambda: spoken(mesh.kube.logs(successor, "--timestamps"), "leading"),
    )
    assert stopping, said[-500:]
    took_s = (leading - stopping).total_seconds()
    timings.note("planned hand-over of the operator", took_s)
    next_said = mesh.kube.logs(successor, "--timestamps")
    assert took_s < HAND_OVER_GOAL_S, f"{said[-3_000:]}\n{next_said[-3_000:]}"
    works(mesh, "after-hand-over")
