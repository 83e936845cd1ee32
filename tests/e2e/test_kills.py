"""kill -9 and deletion of each kind of pod, under load."""

import time

import pytest

from tests.e2e import disruptions, environment
from tests.e2e.kube import is_ready, restarts, until

# Its image has no shell: it is killed from the node, and known by the address that it advertises.
KILL_ETCD = """
for entry in /proc/[0-9]*; do
    if tr '\\0' ' ' 2>/dev/null < $entry/cmdline | grep -q '^/usr/local/bin/etcd .*={url} '; then
        kill -9 ${{entry#/proc/}}
        exit 0
    fi
done
echo "no etcd has {url}"
exit 1
"""


@pytest.mark.parametrize("role", environment.ROLES)
def test_a_killed_role_process_costs_no_record_and_repeats_none(mesh, timings, role):
    topic, group = mesh.topic_and_group(f"kill-{role}")
    load = mesh.load(topic, group)
    load.flows()
    for pod in mesh.pods(role):
        started = time.monotonic()
        disruptions.kill_guarded_process(mesh.kube, pod["metadata"]["name"])
        timings.note(f"kill -9 of {role}: ready again", time.monotonic() - started)
        load.flows()
    verdict = load.finish()
    verdict.check()
    timings.note(f"kill -9 of {role}: longest silence", verdict.longest_silence_ms / 1000)


def test_a_killed_etcd_comes_back_and_costs_no_record(mesh, timings):
    topic, group = mesh.topic_and_group("kill-etcd")
    load = mesh.load(topic, group)
    load.flows()
    before = restarts(mesh.kube.get("pod", "sharemesh-etcd-0"))
    started = time.monotonic()
    mesh.as_root("kill-etcd", KILL_ETCD.format(url=mesh.etcd), host_processes=True)

    def back() -> bool | None:
        found = mesh.kube.get("pod", "sharemesh-etcd-0")
        return (restarts(found) > before and is_ready(found)) or None

    until("etcd is back after it was killed", back, timeout_s=90)
    timings.note("kill -9 of etcd: ready again", time.monotonic() - started)
    load.flows()
    verdict = load.finish()
    verdict.check()
    timings.note("kill -9 of etcd: longest silence", verdict.longest_silence_ms / 1000)
    mesh.settled()


def test_deleted_pods_of_every_role_come_back_and_lose_nothing(mesh, timings):
    topic, group = mesh.topic_and_group("deleted")
    load = mesh.load(topic, group)
    load.flows()
    for role in environment.ROLES:
        pod = mesh.pods(role)[0]["metadata"]
        started = time.monotonic()
        mesh.kube.delete("pod", pod["name"])
        disruptions.replaced(mesh.kube, pod["name"], pod["uid"])
        timings.note(f"deletion of a {role} pod: ready again", time.monotonic() - started)
        load.flows()
    verdict = load.finish()
    verdict.check()
    timings.note("deletion of pods: longest silence", verdict.longest_silence_ms / 1000)


def test_pods_killed_without_grace_lose_nothing(mesh, timings):
    topic, group = mesh.topic_and_group("no-grace")
    load = mesh.load(topic, group)
    load.flows()
    for role in environment.ROLES:
        pod = mesh.pods(role)[-1]["metadata"]
        disruptions.kill_pod(mesh.kube, pod["name"])
        disruptions.replaced(mesh.kube, pod["name"], pod["uid"])
        load.flows()
    verdict = load.finish()
    verdict.check()
    timings.note("pods killed without grace: longest silence", verdict.longest_silence_ms / 1000)


def test_without_an_operator_the_data_plane_goes_on_and_leaders_fail_over(mesh, timings):
    topic, group = mesh.topic_and_group("no-operator")
    load = mesh.load(topic, group)
    load.flows()
    mesh.kube("scale", "deployment/sharemesh-operator", "--replicas=0")
    try:
        leader = mesh.pods("share-leader")[0]["metadata"]["name"]
        disruptions.kill_guarded_process(mesh.kube, leader)
        load.flows()
    finally:
        mesh.kube("scale", "deployment/sharemesh-operator", "--replicas=2")
        mesh.kube("rollout", "status", "deployment/sharemesh-operator", "--timeout=60s")
    verdict = load.finish()
    verdict.check()
    mesh.settled()
