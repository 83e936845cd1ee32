"""A ShareCluster from its YAML to serving, and what the operator does with it all its life."""

import asyncio

import aiohttp
import pytest

from sharemesh.client.connect import connect
from sharemesh_operator.health_pages import Standing
from tests.etcd_server import EtcdServer
from tests.operator.rights import allowed, asked

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


async def ready(land):
    await land.start_operator()
    await land.cluster()
    await land.topic()
    await land.group(autoOffsetReset="Earliest")
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    await land.condition("ShareTopic", "orders", "True", "InSync")
    await land.condition("ShareGroup", "billing", "True", "InSync")


def addresses(land):
    nodes = [process.node for process in land.node.processes.values() if process]
    return ",".join(f"{node.host}:{node.port}" for node in nodes)


async def configs_of(land, group):
    async with connect(addresses(land)).async_admin() as admin:
        return {
            each.name: each.value
            for each in await admin.describe_group_configs(group)
            if each.source == "group"
        }


async def test_from_yaml_to_records_edits_drift_operations_and_deletion(land):
    await ready(land)
    status = (await land.kube.get("ShareCluster", "main"))["status"]
    assert status["shareLeaders"] == {
        "replicas": 2,
        "ready": 2,
        "updated": 2,
        "draining": [],
        "selector": "app.kubernetes.io/component=share-leader,sharemesh.io/cluster=main",
    }
    assert status["placement"]["controller"] == "op-0"
    assert (status["placement"]["led"], status["version"]) == (2, "0.1.0")

    # A record goes through.
    cluster = connect(addresses(land))
    async with cluster.async_producer() as producer:
        await producer.send_and_wait("orders", b"one")
    async with cluster.async_share_consumer("billing") as consumer:
        await consumer.subscribe(["orders"])
        async with asyncio.timeout(30):
            while not (records := await consumer.poll(timeout_ms=500)):
                pass
        assert [record.value for record in records] == [b"one"]

    # An edit takes effect, and what somebody else set is corrected.
    await land.kube.patch("ShareGroup", "billing", {"spec": {"recordLockDurationSeconds": 20}})

    async def lock_is_20_s():
        found = await configs_of(land, "billing")
        return found["share.record.lock.duration.ms"] == "20000"

    await land.until(lock_is_20_s)
    async with connect(addresses(land)).async_admin() as admin:
        await admin.alter_group_configs("billing", {"share.record.lock.duration.ms": "25000"})
    await land.until(lock_is_20_s)

    # A topic grows, and its retention follows.
    change = {"spec": {"partitions": 3, "retentionSeconds": 120, "deletionPolicy": "Delete"}}
    await land.kube.patch("ShareTopic", "orders", change)

    async def has_grown():
        async with connect(addresses(land)).async_admin() as admin:
            topic = (await admin.describe_topics(["orders"]))["orders"]
        return len(topic.partitions) == 3 and topic.configs["retention.ms"] == "120000"

    await land.until(has_grown)

    # Operations, once each.
    await land.apply(
        "ShareGroupOperation",
        "rewind",
        {
            "clusterRef": {"name": "main"},
            "groupRef": {"name": "billing"},
            "operation": "ResetOffsets",
            "resetTo": "Earliest",
        },
    )
    await land.condition("ShareGroupOperation", "rewind", "True", "OffsetsReset", "Succeeded")
    done = (await land.kube.get("ShareGroupOperation", "rewind"))["status"]
    assert done["partitions"] == 3
    assert done["completionTime"]
    spec = {
        "clusterRef": {"name": "main"},
        "groupRef": {"name": "billing"},
        "operation": "DeleteState",
        "ttlSecondsAfterFinished": 0,
    }
    await land.apply("ShareGroupOperation", "forget", spec)

    async def gone_after_its_time():
        return await land.kube.get("ShareGroupOperation", "forget") is None

    await land.until(gone_after_its_time)
    assert await land.events("StateDeleted")

    # Deletion: the topic by its policy, the group keeps its state, the cluster goes last.
    await land.kube.delete("ShareCluster", "main")
    await land.kube.delete("ShareTopic", "orders")
    await land.kube.delete("ShareGroup", "billing")

    async def nothing_is_left():
        kinds = ("ShareCluster", "ShareTopic", "ShareGroup", "StatefulSet", "Service", "Pod")
        return not [each for kind in kinds for each in await land.kube.list(kind)]

    await land.until(nothing_is_left)
    told = await land.events("CleanedUp")
    assert "topic 'orders' and its records are deleted" in told
    assert "group 'billing' and its state are kept" in told

    # All of that with no more rights than the chart gives.
    own = [(method, path) for method, path, agent in land.server.requests if agent != "test"]
    assert asked(own) - allowed() == set()


async def test_a_new_image_rolls_one_pod_after_another_and_scale_goes_through_drain(land):
    await ready(land)
    land.node.stopped.clear()
    await land.kube.patch("ShareCluster", "main", {"spec": {"image": "localhost/sharemesh:0.2.0"}})

    async def rolled():
        status = (await land.kube.get("ShareCluster", "main"))["status"]
        return status.get("version") == "0.2.0" and status["shareLeaders"]["ready"] == 2

    await land.until(rolled, "the rolling update")
    assert land.node.stopped == [
        "main-share-coordinator-0",
        "main-group-coordinator-0",
        "main-share-leader-1",
        "main-share-leader-0",
    ]
    assert sorted(await land.events("PodDraining")) == [
        "main-share-leader-0 hands over what it leads",
        "main-share-leader-1 hands over what it leads",
    ]
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")

    await land.kube.patch("ShareCluster", "main", {"spec": {"shareLeaders": {"replicas": 3}}})

    async def leaders(count):
        status = (await land.kube.get("ShareCluster", "main"))["status"]
        return status["shareLeaders"]["ready"] == status["shareLeaders"]["replicas"] == count

    await land.until(lambda: leaders(3))
    assert await land.kube.get("Service", "main-share-leader-2")
    await land.kube.patch("ShareCluster", "main", {"spec": {"shareLeaders": {"replicas": 2}}})
    await land.until(lambda: leaders(2))

    async def service_gone():
        return await land.kube.get("Service", "main-share-leader-2") is None

    await land.until(service_gone)
    assert land.node.stopped[-1] == "main-share-leader-2"
    assert "main-share-leader-2 hands over what it leads" in await land.events("PodDraining")
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")


async def test_a_second_replica_takes_over_at_once_and_goes_on(land):
    first = await land.start_operator("op-0")
    await land.leading(first)
    second = await land.start_operator("op-1")
    await land.cluster()
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    assert second.standing() is Standing.STANDING_BY
    began = asyncio.get_running_loop().time()
    await land.stop_operator(first)
    await land.leading(second)
    took_s = asyncio.get_running_loop().time() - began
    print(f"planned hand-over in {took_s:.2f} s")
    assert took_s < 1.5  # goal: 1 s; half a second is left to a busy machine
    await land.topic()
    await land.condition("ShareTopic", "orders", "True", "InSync")

    async def controller_is_second():
        status = (await land.kube.get("ShareCluster", "main"))["status"]
        return status["placement"]["controller"] == "op-1"

    await land.until(controller_is_second)


async def test_drift_of_owned_objects_is_corrected_and_pause_stops_it(land):
    await land.start_operator()
    await land.cluster()
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    await land.kube.delete("Service", "main-bootstrap")
    await land.until(lambda: land.kube.get("Service", "main-bootstrap"))
    await land.kube.patch("StatefulSet", "main-share-leader", {"spec": {"replicas": 1}})

    async def two_again():
        return (await land.kube.get("StatefulSet", "main-share-leader"))["spec"]["replicas"] == 2

    await land.until(two_again)
    pause = {"metadata": {"annotations": {"sharemesh.io/pause-reconciliation": "true"}}}
    await land.kube.patch("ShareCluster", "main", pause)
    await land.condition("ShareCluster", "main", "True", "Paused", "ReconciliationPaused")
    await land.kube.delete("PodDisruptionBudget", "main-share-leader")
    changed = {"spec": {"shareLeaders": {"replicas": 3}}}
    await land.kube.patch("ShareCluster", "main", changed)

    async def seen():
        return (await land.kube.get("ShareCluster", "main"))["status"]["observedGeneration"] == 2

    await land.until(seen)
    assert await land.kube.get("PodDisruptionBudget", "main-share-leader") is None
    await two_again()
    go_on = {"metadata": {"annotations": {"sharemesh.io/pause-reconciliation": None}}}
    await land.kube.patch("ShareCluster", "main", go_on)
    await land.until(lambda: land.kube.get("PodDisruptionBudget", "main-share-leader"))


async def test_without_a_cluster_conditions_say_so_and_deletion_ends(land):
    await land.start_operator()
    await land.topic(deletionPolicy="Delete")
    await land.group(deletionPolicy="Delete")
    said = await land.condition("ShareTopic", "orders", "False", "ClusterNotFound")
    assert said["message"] == (
        "there is no ShareCluster 'main' in namespace 'queues'; create it, or correct clusterRef"
    )
    await land.condition("ShareGroup", "billing", "False", "ClusterNotFound")
    await land.kube.delete("ShareTopic", "orders")
    await land.kube.delete("ShareGroup", "billing")

    async def gone():
        return not await land.kube.list("ShareTopic") and not await land.kube.list("ShareGroup")

    await land.until(gone)


async def test_storage_that_is_not_shared_starts_no_pod(land):
    await land.start_operator()
    storage = {"type": "Shared", "claimName": "data"}
    await land.cluster(storage=storage)
    await land.condition("ShareCluster", "main", "False", "ClaimNotFound")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    await land.kube.apply(claim)
    said = await land.condition("ShareCluster", "main", "False", "StorageNotShared")
    assert "use a claim with access mode ReadWriteMany" in said["message"]
    assert await land.kube.list("StatefulSet") == []
    claim["spec"]["accessModes"] = ["ReadWriteMany"]
    await land.kube.apply(claim)
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")


async def test_etcd_away_is_a_condition_and_the_pods_are_made_all_the_same(land):
    await land.start_operator()
    land.node.unready |= {"main-share-leader-0", "main-share-leader-1"}
    land.node.unready |= {"main-group-coordinator-0", "main-share-coordinator-0"}
    await land.cluster(etcd={"endpoints": ["http://127.0.0.1:1"]})
    said = await land.condition("ShareCluster", "main", "False", "EtcdUnavailable")
    assert "etcd at http://127.0.0.1:1 does not answer" in said["message"]
    assert len(await land.kube.list("StatefulSet")) == 3


async def test_a_lost_etcd_of_a_cluster_is_told_and_over_when_it_is_back(land):
    """An etcd of its own: without the one it is elected in, an operator does nothing at all."""
    etcd = EtcdServer(land.directory / "etcd-of-main")
    await etcd.start()
    try:
        await land.start_operator()
        await land.cluster(etcd={"endpoints": [f"http://{etcd.endpoint}"], "sessionTTLSeconds": 5})
        await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
        etcd.stop()
        said = await land.condition(
            "ShareCluster", "main", "False", "EtcdUnavailable", "EtcdAvailable"
        )
        assert "start etcd again" in said["message"]
        assert len(await land.pods()) == 4
        await etcd.start()
        await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    finally:
        etcd.stop()


async def test_a_cluster_that_never_answers_holds_no_finalizer_for_ever(land, monkeypatch):
    monkeypatch.setattr("sharemesh_operator.cluster.engine.CLEAN_UP_LIMIT_S", 3)
    await land.start_operator()
    await land.cluster(etcd={"endpoints": ["http://127.0.0.1:1"]})
    land.node.unready |= {f"main-share-leader-{number}" for number in range(2)}
    land.node.unready |= {"main-group-coordinator-0", "main-share-coordinator-0"}
    await land.topic(deletionPolicy="Delete")
    await land.condition("ShareTopic", "orders", "False", "EtcdUnavailable")
    await land.kube.delete("ShareTopic", "orders")

    async def gone():
        return await land.kube.get("ShareTopic", "orders") is None

    await land.until(gone)
    assert "given up after" in (await land.events("CleanUpGivenUp"))[0]


async def test_a_drained_node_stays_drained_until_its_pod_is_made_anew(land, monkeypatch):
    monkeypatch.setattr("sharemesh_operator.cluster.status_writer.INTERVAL_MS", 500)
    await ready(land)
    await land.apply(
        "ShareGroupOperation",
        "empty-it",
        {"clusterRef": {"name": "main"}, "operation": "DrainNode", "node": "main-share-leader-1"},
    )
    await land.condition("ShareGroupOperation", "empty-it", "True", "Drained", "Succeeded")

    async def shown():
        status = (await land.kube.get("ShareCluster", "main"))["status"]
        return status["shareLeaders"]["draining"] == ["main-share-leader-1"]

    await land.until(shown)
    assert land.node.stopped == []
    await land.kube.delete("Pod", "main-share-leader-1")

    async def takes_part():
        found = (await land.kube.get("ShareCluster", "main"))["status"]["shareLeaders"]
        return found["draining"] == [] and found["ready"] == 2

    await land.until(takes_part)


async def test_operations_that_cannot_be_done_say_why_and_are_over(land):
    await ready(land)
    ref = {"clusterRef": {"name": "main"}}
    await land.apply(
        "ShareGroupOperation", "a", {**ref, "operation": "DrainNode", "node": "nobody"}
    )
    await land.condition("ShareGroupOperation", "a", "False", "NodeNotFound", "Succeeded")
    reset = {**ref, "operation": "ResetOffsets", "resetTo": "Latest"}
    await land.apply("ShareGroupOperation", "b", {**reset, "groupRef": {"name": "nobody"}})
    await land.condition("ShareGroupOperation", "b", "False", "GroupNotFound", "Succeeded")
    async with connect(addresses(land)).async_share_consumer("billing") as consumer:
        await consumer.subscribe(["orders"])
        await consumer.poll(timeout_ms=500)
        await land.apply("ShareGroupOperation", "c", {**reset, "groupRef": {"name": "billing"}})
        said = await land.condition(
            "ShareGroupOperation", "c", "False", "GroupNotEmpty", "Succeeded"
        )
    assert "stop its consumers" in said["message"]


async def test_secrets_that_the_operator_was_not_given_are_named(land):
    await land.start_operator()
    land.node.unready |= {"main-share-leader-0", "main-share-leader-1"}
    land.node.unready |= {"main-group-coordinator-0", "main-share-coordinator-0"}
    await land.cluster(tls={"secretName": "certs"})
    said = await land.condition("ShareCluster", "main", "False", "SecretNotMounted")
    assert "no ca.crt, tls.crt, tls.key of Secret 'certs'" in said["message"]
    assert "value secrets of chart sharemesh" in said["message"]


async def test_a_group_with_members_is_not_deleted_under_them(land):
    await ready(land)
    await land.kube.patch("ShareGroup", "billing", {"spec": {"deletionPolicy": "Delete"}})
    async with connect(addresses(land)).async_share_consumer("billing") as consumer:
        await consumer.subscribe(["orders"])
        await consumer.poll(timeout_ms=500)
        await land.kube.delete("ShareGroup", "billing")
        await land.until(lambda: land.events("CleanUpWaits"))
        assert await land.kube.get("ShareGroup", "billing") is not None

    async def gone():
        return await land.kube.get("ShareGroup", "billing") is None

    await land.until(gone)
    assert await land.events("CleanedUp") == ["group 'billing' and its share state are deleted"]


async def page(process, number, path):
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{process.pages.ports[number]}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_pages_tell_who_leads_and_readiness_follows_etcd_while_liveness_does_not(land):
    process = await land.start_operator()
    await land.leading(process)
    assert await page(process, 0, "/healthz") == (200, "leading\n")
    assert await page(process, 0, "/readyz") == (200, "leading\n")
    _, text = await page(process, 1, "/metrics")
    assert "\nsharemesh_operator_leader 1\n" in text
    assert "\nsharemesh_operator_denied_requests_total 0\n" in text
    land.etcd.stop()

    async def not_ready():
        return (await page(process, 0, "/readyz"))[0] == 503

    await land.until(not_ready)
    assert await page(process, 0, "/healthz") == (200, "without etcd\n")
    await land.etcd.start()
    await land.leading(process)


async def test_a_calm_cluster_is_not_written_to(land):
    process = await land.start_operator()
    await land.cluster()
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    rounds = process.figures()["sharemesh_operator_rounds_total"]
    await land.kube.patch("Pod", "main-share-leader-0", {"metadata": {"labels": {"poke": "1"}}})

    async def looked_again():
        return process.figures()["sharemesh_operator_rounds_total"] > rounds

    await land.until(looked_again)
    before = len(land.server.requests)
    writes = process.figures()["sharemesh_operator_status_writes_total"]
    for number in range(5):
        change = {"metadata": {"labels": {"poke": f"again-{number}"}}}
        await land.kube.patch("Pod", "main-share-leader-0", change)
        rounds = process.figures()["sharemesh_operator_rounds_total"]
        await land.until(looked_again)
    since = land.server.requests[before:]
    applied = [path for method, path, agent in since if method == "PATCH" and agent != "test"]
    assert applied == []
    assert process.figures()["sharemesh_operator_status_writes_total"] == writes
