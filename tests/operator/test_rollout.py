"""The next step: one pod after another, hand over first, never while something is not served."""

from dataclasses import replace
from random import Random

import pytest

from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.names import ROLES
from sharemesh_operator.resources.rollout import NodeSeen, PodSeen, Seen, plan
from tests.operator.bodies import spec_of

LEADER = Role.SHARE_LEADER


def seen(spec, **changes):
    pods = tuple(
        PodSeen(spec.pod(role, number), role, number, ready=True)
        for role in ROLES
        for number in range(spec.roles[role].replicas)
    )
    nodes = {pod.name: NodeSeen(pod.name, draining=False, serves=2) for pod in pods}
    replicas = {role: spec.roles[role].replicas for role in ROLES}
    return replace(Seen(pods, replicas, nodes), **changes)


def with_pod(found, name, **changes):
    pods = tuple(replace(pod, **changes) if pod.name == name else pod for pod in found.pods)
    return replace(found, pods=pods)


def with_node(found, name, **changes):
    return replace(found, nodes={**found.nodes, name: replace(found.nodes[name], **changes)})


def outdated(found, *names):
    for name in names or [pod.name for pod in found.pods]:
        found = with_pod(found, name, outdated=True)
    return found


def test_a_cluster_as_wanted_needs_nothing():
    spec = spec_of()
    step = plan(spec, seen(spec))
    assert (step.reason, step.drain, step.delete) == ("UpToDate", (), ())
    assert not step.progressing


def test_more_pods_come_at_once():
    spec = spec_of({"shareLeaders": {"replicas": 3}})
    step = plan(spec, seen(spec_of()))
    assert step.replicas[LEADER] == 3
    assert step.reason == "ScalingUp"


def test_fewer_pods_hand_over_before_the_set_shrinks():
    spec = spec_of()
    found = seen(spec_of({"shareLeaders": {"replicas": 3}}))
    step = plan(spec, found)
    assert (step.replicas[LEADER], step.drain, step.reason) == (
        3,
        ("main-share-leader-2",),
        "Draining",
    )
    told = with_pod(found, "main-share-leader-2", drain_age_s=1)
    told = with_node(told, "main-share-leader-2", draining=True)
    assert (plan(spec, told).replicas[LEADER], plan(spec, told).drain) == (3, ())
    empty = with_node(told, "main-share-leader-2", serves=0)
    assert plan(spec, empty).replicas[LEADER] == 2


def test_a_hand_over_has_its_time_and_no_more():
    spec = spec_of()
    found = seen(spec_of({"shareLeaders": {"replicas": 3}}))
    late = with_pod(found, "main-share-leader-2", drain_age_s=40)
    assert plan(spec, late).replicas[LEADER] == 2


def test_a_roll_goes_coordinators_first_one_at_a_time():
    spec = spec_of()
    step = plan(spec, outdated(seen(spec)))
    assert step.drain == ("main-share-coordinator-1",)
    assert step.delete == ()
    assert step.reason == "RollingUpdate"


def test_a_pod_is_made_anew_when_it_serves_nothing():
    spec = spec_of()
    found = outdated(seen(spec))
    found = with_pod(found, "main-share-coordinator-1", drain_age_s=3)
    found = with_node(found, "main-share-coordinator-1", draining=True)
    assert plan(spec, found).delete == ()
    found = with_node(found, "main-share-coordinator-1", serves=0)
    assert plan(spec, found).delete == ("main-share-coordinator-1",)


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("main-share-leader-0", {"ready": False, "trouble": "waits: ErrImagePull"}, "ErrImagePull"),
        ("main-group-coordinator-0", {"terminating": True}, "is leaving"),
    ],
)
def test_a_roll_waits_while_another_pod_is_away(name, change, why):
    spec = spec_of()
    found = with_pod(outdated(seen(spec), "main-share-leader-1"), name, **change)
    step = plan(spec, found)
    assert (step.drain, step.delete) == ((), ())
    assert why in step.message


def test_a_roll_waits_while_something_has_no_leader():
    spec = spec_of()
    step = plan(spec, replace(outdated(seen(spec)), unled=1))
    assert (step.drain, step.delete) == ((), ())
    assert "1 partitions or shards are without a leader" in step.message


def test_a_roll_waits_while_the_mesh_cannot_be_asked():
    spec = spec_of()
    step = plan(spec, replace(outdated(seen(spec)), nodes=None))
    assert (step.drain, step.delete) == ((), ())


def test_a_roll_waits_until_templates_were_seen():
    spec = spec_of()
    step = plan(spec, replace(outdated(seen(spec)), settled=False))
    assert (step.drain, step.delete) == ((), ())


def test_an_outdated_pod_that_is_broken_is_replaced_first():
    spec = spec_of()
    found = with_pod(outdated(seen(spec)), "main-share-leader-0", ready=False)
    assert plan(spec, found).delete == ("main-share-leader-0",)


def test_a_pod_alone_in_its_role_goes_without_hand_over():
    spec = spec_of({"groupCoordinators": {"replicas": 1}})
    found = outdated(seen(spec), "main-group-coordinator-0")
    assert plan(spec, found).delete == ("main-group-coordinator-0",)


def test_skip_drain_is_an_escape():
    spec = spec_of()
    found = with_pod(outdated(seen(spec)), "main-share-coordinator-1", skip_drain=True)
    assert plan(spec, found).delete == ("main-share-coordinator-1",)


def test_a_pod_that_was_told_to_leave_goes_first():
    spec = spec_of()
    found = with_pod(outdated(seen(spec)), "main-share-leader-0", drain_age_s=1)
    found = with_node(found, "main-share-leader-0", draining=True)
    step = plan(spec, found)
    assert step.drain == ()
    assert "main-share-leader-0 hands over" in step.message


def test_a_pod_left_drained_by_a_roll_that_was_called_off_is_made_anew():
    spec = spec_of()
    found = with_pod(seen(spec), "main-share-leader-0", drain_age_s=5)
    found = with_node(found, "main-share-leader-0", draining=True, serves=0)
    assert plan(spec, found).delete == ("main-share-leader-0",)
    held = with_pod(found, "main-share-leader-0", held="drain-1")
    assert plan(spec, held).delete == ()


def test_two_may_be_away_where_two_are_allowed():
    spec = spec_of({"shareLeaders": {"replicas": 4, "maxUnavailable": 2}})
    found = outdated(seen(spec), "main-share-leader-3")
    found = with_pod(found, "main-share-leader-0", ready=False)
    assert plan(spec, found).drain == ("main-share-leader-3",)


def test_any_way_leads_to_the_end_and_never_takes_two_pods_at_once():
    """A little world that does what a plan says reaches UpToDate from any start."""
    for seed in range(60):
        chance = Random(seed)
        wanted = {"shareLeaders": {"replicas": chance.randint(1, 4)}}
        spec = spec_of(wanted)
        start = spec_of({"shareLeaders": {"replicas": chance.randint(1, 4)}})
        found = seen(start)
        found = outdated(found, *chance.sample([p.name for p in found.pods], k=3))
        steps = 0
        while (step := plan(spec, found)).progressing:
            steps += 1
            assert steps < 200, f"seed {seed}: {step}"
            assert len(step.delete) <= 1, f"seed {seed}"
            away = {pod.name for pod in found.pods if not pod.ready}
            assert not (step.delete and away - set(step.delete)), f"seed {seed}"
            found = _after(spec, found, step, chance)


def _after(spec, found, step, chance):
    """Do what the plan says, with some delay."""
    for name in step.drain:
        found = with_pod(found, name, drain_age_s=0)
        found = with_node(found, name, draining=True)
    pods, nodes = [], dict(found.nodes)
    for pod in found.pods:
        if pod.ordinal >= step.replicas[pod.role]:
            nodes.pop(pod.name, None)
            continue
        if pod.name in step.delete:
            nodes.pop(pod.name, None)
            pod = PodSeen(pod.name, pod.role, pod.ordinal, ready=False)  # noqa: PLW2901
        elif not pod.ready and chance.random() < 0.5:
            pod = replace(pod, ready=True)  # noqa: PLW2901
            nodes[pod.name] = NodeSeen(pod.name, draining=False, serves=1)
        elif pod.name in nodes and nodes[pod.name].draining and chance.random() < 0.5:
            nodes[pod.name] = replace(nodes[pod.name], serves=0)
        pods.append(pod)
    names = {pod.name for pod in pods}
    for role in ROLES:
        for number in range(step.replicas[role]):
            if spec.pod(role, number) not in names:
                pods.append(PodSeen(spec.pod(role, number), role, number, ready=False))
    return replace(found, pods=tuple(pods), nodes=nodes, replicas=dict(step.replicas))
