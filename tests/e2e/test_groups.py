"""ShareGroup and ShareTopic objects against the running mesh."""

import pytest

from tests.e2e import environment, objects
from tests.e2e.kube import restarts, until


@pytest.fixture(scope="module")
def edited(mesh):
    return mesh.topic_and_group("edited", partitions=1)[1]


def test_an_edited_lock_duration_and_delivery_limit_take_effect_without_a_restart(mesh, edited):
    before = {
        pod["metadata"]["uid"]: restarts(pod)
        for role in environment.ROLES
        for pod in mesh.pods(role)
    }
    change = {"recordLockDurationSeconds": 20, "maxDeliveryAttempts": 3}
    mesh.kube.patch("sharegroup", edited, {"spec": change})
    mesh.kube.wait_for_condition("sharegroup", edited)
    assert mesh.group_config(edited, "share.record.lock.duration.ms") == "20000"
    assert mesh.group_config(edited, "share.delivery.count.limit") == "3"
    after = {
        pod["metadata"]["uid"]: restarts(pod)
        for role in environment.ROLES
        for pod in mesh.pods(role)
    }
    assert after == before


def test_what_was_changed_behind_the_operators_back_is_put_right(mesh, edited):
    name = "share.partition.max.record.locks"
    mesh.sharemesh("configs", "alter", "--group", edited, f"{name}=150")
    touch = {"metadata": {"annotations": {"test/look": "again"}}}
    mesh.kube.patch("sharegroup", edited, touch)
    until(
        "the drift is corrected",
        lambda: mesh.group_config(edited, name) == "2000" or None,
        timeout_s=60,
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recordLockDurationSeconds": 14}, "should be greater than or equal to 15"),
        ({"recordLockDurationSeconds": 61}, "should be less than or equal to 60"),
        ({"maxDeliveryAttempts": 11}, "should be less than or equal to 10"),
        ({"memberHeartbeatIntervalSeconds": 15, "memberSessionTimeoutSeconds": 44}, "45"),
        ({"autoOffsetReset": "ByDuration"}, "autoOffsetResetDurationSeconds goes with"),
        ({"autoOffsetReset": "Newest"}, "Unsupported value"),
        ({"clusterRef": {"name": "other"}}, "clusterRef is immutable"),
        ({"groupId": "other"}, "groupId can not be added"),
        ({"topics": []}, "should have at least 1 items"),
        ({"lockDuration": 30}, "unknown field"),
    ],
)
def test_an_invalid_group_is_refused_with_a_readable_message(mesh, edited, change, words):
    topic = f"{edited.removesuffix('-group')}-topic"
    wrong = objects.group(edited, "main", topic)
    wrong["spec"] |= change
    assert words in mesh.kube.refused(wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (objects.topic("wrong", "main", partitions=0), "should be greater than or equal to 1"),
        (objects.topic("wrong", "main", topicName="a b"), "should match"),
        (objects.topic("wrong", "main", topicName=".."), "can not be named . or .."),
        (objects.operation("wrong", "main", "ResetOffsets"), "ResetOffsets needs it"),
        (objects.operation("wrong", "main", "DrainNode"), "DrainNode needs node"),
        (
            objects.small_cluster("wrong", "http://e:2379", {"type": "Shared"}),
            "Shared storage needs claimName",
        ),
        (
            objects.small_cluster("w" * 35, "http://e:2379", {"type": "Shared", "claimName": "c"}),
            "at most 34 characters",
        ),
    ],
)
def test_other_invalid_objects_are_refused_too(mesh, wrong, words):
    assert words in mesh.kube.refused(wrong)


def test_partitions_grow_and_never_shrink(mesh, edited):
    topic = f"{edited.removesuffix('-group')}-topic"
    mesh.kube.patch("sharetopic", topic, {"spec": {"partitions": 3}})
    mesh.kube.wait_for_condition("sharetopic", topic)
    assert mesh.kube.get("sharetopic", topic)["status"]["partitions"] == 3
    fewer = objects.topic(topic, "main", partitions=2)
    assert "partitions can not be reduced" in mesh.kube.refused(fewer)


def test_a_group_of_a_cluster_that_is_not_there_says_so_and_heals(mesh):
    mesh.kube.apply(objects.group("early", "nowhere", "orders"))
    condition = mesh.kube.wait_for_condition("sharegroup", "early", status="False")
    assert condition["reason"] == "ClusterNotFound"
    assert "nowhere" in condition["message"]
    mesh.kube.delete("sharegroup", "early", wait=True)


def test_a_paused_group_is_left_alone_and_says_so(mesh, edited):
    annotation = "sharemesh.io/pause-reconciliation"
    mesh.kube.patch("sharegroup", edited, {"metadata": {"annotations": {annotation: "true"}}})
    mesh.kube.wait_for_condition("sharegroup", edited, status="Unknown", reason="Paused")
    mesh.kube.patch("sharegroup", edited, {"spec": {"recordLockDurationSeconds": 40}})
    mesh.kube.wait_for_condition("sharegroup", edited, status="Unknown", reason="Paused")
    assert mesh.group_config(edited, "share.record.lock.duration.ms") == "20000"
    mesh.kube.patch("sharegroup", edited, {"metadata": {"annotations": {annotation: None}}})
    until(
        "the change arrives after the pause",
        lambda: mesh.group_config(edited, "share.record.lock.duration.ms") == "40000" or None,
    )
