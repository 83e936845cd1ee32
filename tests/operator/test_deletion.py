"""Deletion: what a ShareCluster waits for, and that a policy holds in whatever order (DEL)."""

import pytest

from sharemesh_operator.resources.tenants import awaited_by
from tests.operator.bodies import group, topic
from tests.operator.sample_objects import ready


def going(body):
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def test_a_cluster_waits_for_what_is_being_deleted_and_for_what_is_to_be_deleted_with_it():
    """DEL-2."""
    dropped, kept = topic({"deletionPolicy": "Delete"}), topic()
    assert awaited_by("main", [kept, group()]) == ""
    assert awaited_by("main", [going(kept), group()]) == "ShareTopic orders"
    assert awaited_by("main", [dropped, going(group())]) == (
        "ShareGroup billing, ShareTopic orders: the deletionPolicy of ShareTopic orders is Delete; "
        "delete it too, or set it to Retain"
    )
    assert awaited_by("another", [dropped, going(kept)]) == ""


def test_few_of_many_are_named():
    assert awaited_by("main", [going(topic())] * 7).endswith("ShareTopic orders and 2 more")


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_a_topic_and_a_group_that_are_deleted_after_their_cluster_go_by_their_policy(land):
    """DEL-1, DEL-2."""
    await ready(land)
    for kind, name in (("ShareTopic", "orders"), ("ShareGroup", "billing")):
        await land.kube.patch(kind, name, {"spec": {"deletionPolicy": "Delete"}})
    await land.kube.delete("ShareCluster", "main")
    (waits,) = await land.until(lambda: land.events("CleanUpWaits"))
    assert "waits for ShareTopic orders, ShareGroup billing" in waits
    assert await land.kube.list("StatefulSet"), "its pods serve until then"
    await land.kube.delete("ShareTopic", "orders")
    await land.kube.delete("ShareGroup", "billing")

    async def nothing_is_left():
        kinds = ("ShareCluster", "ShareTopic", "ShareGroup", "StatefulSet", "Pod")
        return not [each for kind in kinds for each in await land.kube.list(kind)]

    await land.until(nothing_is_left)
    told = await land.events("CleanedUp")
    assert "topic 'orders' and its records are deleted" in told
    assert "group 'billing' and its share state are deleted" in told


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_a_cluster_does_not_wait_for_ever_for_what_nobody_deletes(land, monkeypatch):
    """DEL-4."""
    monkeypatch.setattr("sharemesh_operator.cluster.engine.CLEAN_UP_LIMIT_S", 3)
    await ready(land)
    await land.kube.patch("ShareTopic", "orders", {"spec": {"deletionPolicy": "Delete"}})
    await land.kube.delete("ShareCluster", "main")

    async def gone():
        return await land.kube.get("ShareCluster", "main") is None

    await land.until(gone)
    assert (
        "the deletionPolicy of ShareTopic orders is Delete"
        in (await land.events("CleanUpGivenUp"))[0]
    )
    await land.condition("ShareTopic", "orders", "False", "ClusterNotFound")
