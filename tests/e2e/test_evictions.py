"""Eviction of every pod, as a node drain asks for it."""

import time

from tests.e2e import disruptions, environment
from tests.e2e.kube import until


def test_every_pod_can_be_evicted_one_by_one_and_the_budget_holds_the_second_back(mesh, timings):
    topic, group = mesh.topic_and_group("evicted")
    load = mesh.load(topic, group)
    load.flows()
    started = time.monotonic()
    refused = 0
    for role in environment.ROLES:
        for pod in mesh.pods(role):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]

            def granted(name=name) -> bool | None:
                nonlocal refused
                if disruptions.try_to_evict(mesh.kube, name):
                    return True
                refused += 1
                return None

            until(f"the eviction of {name} is granted", granted, timeout_s=150)
        disruptions.replaced(mesh.kube, name, uid)
        load.flows()
    timings.note("eviction of all role pods", time.monotonic() - started)
    assert refused > 0, "two pods of a role were let go at once"
    verdict = load.finish()
    verdict.check()
    timings.note("evictions: longest silence", verdict.longest_silence_ms / 1000)
    mesh.settled()


def test_a_budget_stands_before_each_role_and_the_operator(mesh):
    budgets = {found["metadata"]["name"]: found for found in mesh.kube.objects("pdb")}
    for role in environment.ROLES:
        assert budgets[f"main-{role}"]["spec"]["maxUnavailable"] == 1
    assert budgets["sharemesh-operator"]["status"]["disruptionsAllowed"] == 1
