"""Conditions say what is so, what is wrong, and what to do."""

from dataclasses import replace

import pytest

from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.cluster_status import (
    ClusterSeen,
    PlacementSeen,
    conditions,
    status,
    storage_problem,
)
from sharemesh_operator.resources.conditions import Condition, flipped, merged
from sharemesh_operator.resources.problems import Problem
from sharemesh_operator.resources.rollout import plan, pod_seen, settled
from tests.operator.bodies import spec_of
from tests.operator.test_rollout import seen

PLACED = PlacementSeen(controller="op-0", token=7, partitions=4, led=4, loads=(2, 2), generation=9)


def found(spec, **changes):
    pods = seen(spec)
    return replace(ClusterSeen(pods, plan(spec, pods), PLACED), **changes)


def said(spec, whole):
    return {each.kind: each for each in conditions(spec, whole)}


def test_all_is_well():
    spec = spec_of()
    told = said(spec, found(spec))
    assert (told["Ready"].status, told["Ready"].reason) == (True, "AllLeadersServing")
    assert told["Ready"].message == "4 of 4 partitions are led"
    assert told["Progressing"].status is False
    assert told["StorageReady"].status
    assert told["EtcdAvailable"].status
    assert told["Balanced"].status
    assert "ReconciliationPaused" not in told


def test_a_partition_without_leader_is_named_with_its_reason():
    spec = spec_of()
    placed = replace(PLACED, led=3, examples=("orders/1: it is being elected",))
    told = said(spec, found(spec, placement=placed))["Ready"]
    assert (told.status, told.reason) == (False, "PartitionsNotLed")
    assert told.message == "1 of 4 partitions have no leader; orders/1: it is being elected"


def test_shards_without_leader():
    spec = spec_of()
    told = said(spec, found(spec, placement=replace(PLACED, unled_shards=2)))
    assert told["Ready"].reason == "CoordinatorsNotElected"
    assert told["CoordinatorsElected"].status is False


def test_what_the_own_topics_lost_or_became_is_said_of_the_storage():
    kafka = {"type": "Kafka", "kafka": {"bootstrapServers": ["kafka-0.kafka:9092"]}}
    spec = spec_of({"storage": kafka})
    wrong = replace(PLACED, storage_problems=("topic s has retention.ms=1, it must be -1: …",))
    told = said(spec, found(spec, placement=wrong))["StorageReady"]
    assert (told.status, told.reason) == (False, "TopicsMisconfigured")
    assert told.message.startswith("topic s has retention.ms=1")
    lost = replace(wrong, losses=("Kafka lost records of shard state-3 …",))
    told = said(spec, found(spec, placement=lost))["StorageReady"]
    assert (told.reason, told.message) == ("RecordsLost", "Kafka lost records of shard state-3 …")
    damaged = replace(PLACED, damages=("topic s partition 3: a batch begins at offset 9 …",))
    told = said(spec, found(spec, placement=damaged))["StorageReady"]
    assert (told.reason, told.message) == ("LogDamaged", damaged.damages[0])


def test_missing_pods_come_before_what_they_do_not_serve():
    spec = spec_of({"shareLeaders": {"replicas": 3}})
    pods = seen(spec_of())
    told = said(spec, ClusterSeen(pods, plan(spec, pods), replace(PLACED, led=1)))["Ready"]
    assert told.reason == "PodsNotReady"
    assert "2 of 3 share-leader pods are ready" in told.message


def test_what_etcd_says_is_said_of_the_cluster():
    spec = spec_of()
    problem = Problem("EtcdUnavailable", "etcd at http://etcd-0:2379 does not answer")
    told = said(spec, found(spec, placement=None, mesh_problem=problem))
    assert told["Ready"].reason == told["EtcdAvailable"].reason == "EtcdUnavailable"
    assert told["EtcdAvailable"].status is False


@pytest.mark.parametrize(
    ("claim", "reason", "hint"),
    [
        (None, "ClaimNotFound", "create it with access mode ReadWriteMany"),
        ({"spec": {"accessModes": ["ReadWriteOnce"]}}, "StorageNotShared", "SingleNode"),
        (
            {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Lost"}},
            "ClaimLost",
            "bind it",
        ),
    ],
)
def test_storage_that_cannot_be_used_says_what_to_do(claim, reason, hint):
    problem = storage_problem(spec_of(), claim)
    assert problem.reason == reason
    assert hint in problem.message


def test_a_shared_claim_and_a_single_node_are_fine():
    shared = {"spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}}
    assert storage_problem(spec_of(), shared) is None
    single = {"storage": {"type": "SingleNode", "node": "one", "hostPath": "/data/x"}}
    assert storage_problem(spec_of(single), None) is None


def test_one_partition_more_than_the_mean_is_no_imbalance():
    spec = spec_of()
    assert said(spec, found(spec, placement=replace(PLACED, loads=(3, 2))))["Balanced"].status
    skewed = replace(PLACED, loads=(20, 2))
    assert said(spec, found(spec, placement=skewed))["Balanced"].status is False


def test_paused_says_how_to_go_on():
    spec = spec_of(annotations={"sharemesh.io/pause-reconciliation": "true"})
    told = said(spec, found(spec))
    assert told["ReconciliationPaused"].status
    assert "remove the annotation" in told["ReconciliationPaused"].message
    assert told["Progressing"].reason == "NotManaged"


def test_the_version_is_told_only_when_all_pods_run_it():
    spec = spec_of()
    assert status(spec, found(spec))["version"] == "0.1.0"
    pods = seen(spec)
    old = replace(pods.pods[0], outdated=True)
    mixed = replace(pods, pods=(old, *pods.pods[1:]))
    assert status(spec, ClusterSeen(mixed, plan(spec, mixed), PLACED))["version"] == ""
    unwritten = replace(pods, settled=False)  # nobody can know yet which pods are outdated
    assert status(spec, ClusterSeen(unwritten, plan(spec, unwritten), PLACED))["version"] == ""
    assert plan(spec, unwritten).reason == "TemplatesChanging"


def test_status_has_numbers_and_a_token_as_text():
    told = status(spec_of(), found(spec_of()))
    assert told["placement"]["fencingToken"] == "7"
    assert told["shareLeaders"]["ready"] == 2
    assert told["bootstrap"] == "main-bootstrap.queues.svc:9400"
    assert told["externalBootstrap"] is None
    outside = spec_of({"external": {"host": "{pod}.example.org"}})
    assert status(outside, found(outside))["externalBootstrap"] == (
        "main-bootstrap.example.org:30399"
    )


def test_a_transition_has_its_time_only_when_the_status_changed():
    old = merged([], [Condition.true("Ready", "A")], generation=1, now="t1")
    same = merged(old, [Condition.true("Ready", "B", "text")], generation=2, now="t2")
    assert (same[0]["lastTransitionTime"], same[0]["observedGeneration"]) == ("t1", 2)
    other = merged(same, [Condition.false("Ready", "C")], generation=2, now="t3")
    assert other[0]["lastTransitionTime"] == "t3"
    assert flipped(old, same)
    assert not flipped(same, merged(same, [Condition.true("Ready", "B")], generation=3, now="t4"))


def pod(**changes):
    return {
        "metadata": {
            "name": "main-share-leader-12",
            "labels": {
                "app.kubernetes.io/component": "share-leader",
                "controller-revision-hash": "old",
            },
            "annotations": {"sharemesh.io/drain-requested-at": "90"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        **changes,
    }


def test_a_pod_is_read():
    sets = {Role.SHARE_LEADER: {"metadata": {}, "status": {"updateRevision": "new"}}}
    found_pod = pod_seen(pod(), sets, now_s=100)
    assert (found_pod.ordinal, found_pod.ready, found_pod.outdated) == (12, True, True)
    assert found_pod.drain_age_s == 10
    assert pod_seen({"metadata": {"name": "client"}}, sets, now_s=100) is None


def test_why_a_pod_is_not_ready_is_told():
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
    waiting["lastState"] = {"terminated": {"exitCode": 3}}
    found_pod = pod_seen(pod(status={"containerStatuses": [waiting]}), {}, now_s=100)
    assert found_pod.trouble == "waits: CrashLoopBackOff (it ended with 3) back-off"
    pending = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}
    assert pod_seen(pod(status=pending), {}, now_s=0).trouble == "is not scheduled: no room"


def test_templates_are_settled_when_their_controller_has_seen_them():
    def sets(observed):
        return {
            Role.SHARE_LEADER: {
                "metadata": {"generation": 2},
                "status": {"observedGeneration": observed},
            }
        }

    assert settled(sets(2))
    assert not settled(sets(1))
