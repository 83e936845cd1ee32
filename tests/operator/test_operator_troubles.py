"""What goes wrong, what the operator says of it, and that nothing hangs for ever."""

import aiohttp
import pytest

from sharemesh.client.connect import connect
from tests.etcd_server import EtcdServer
from tests.operator.sample_objects import addresses, ready

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


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


async def test_pods_that_their_brokers_refuse_say_so_in_a_condition(land):
    await land.start_operator()
    roles = ("share-leader", "group-coordinator", "share-coordinator")
    land.node.unready |= {f"main-{role}-{number}" for role in roles for number in range(2)}
    brokers = {"bootstrapServers": ["kafka:9092"], "singleReplica": True}
    await land.cluster(storage={"type": "Kafka", "kafka": brokers})
    await land.condition("ShareCluster", "main", "Unknown", "Starting", "StorageReady")

    async def ends(code, words):
        ended = {"exitCode": code, "message": f"sharemesh: {words}\n"}
        state = {"name": "sharemesh", "state": {"terminated": ended}}
        status = {"status": {"containerStatuses": [state]}}
        await land.kube.patch("Pod", "main-share-leader-0", status, subresource="status")

    await ends(8, "no broker of kafka:9092 answers; start them")
    said = await land.condition("ShareCluster", "main", "False", "KafkaUnreachable", "StorageReady")
    assert said["message"] == "main-share-leader-0: no broker of kafka:9092 answers; start them"
    await ends(9, "broker kafka:9092 refuses user mesh; correct the password")
    await land.condition("ShareCluster", "main", "False", "AuthenticationFailed", "StorageReady")
    await land.condition("ShareCluster", "main", "False", "AuthenticationFailed")


async def test_etcd_away_is_a_condition_and_the_pods_are_made_all_the_same(land):
    await land.start_operator()
    land.node.unready |= {"main-share-leader-0", "main-share-leader-1"}
    land.node.unready |= {"main-group-coordinator-0", "main-share-coordinator-0"}
    await land.cluster(etcd={"endpoints": ["http://127.0.0.1:1"]})
    said = await land.condition("ShareCluster", "main", "False", "EtcdUnavailable")
    assert "etcd at http://127.0.0.1:1 does not answer" in said["message"]
    assert len(await land.kube.list("StatefulSet")) == 3


async def test_another_cluster_of_the_name_in_etcd_is_told_and_starts_no_controller(land):
    """As after a deletion that kept the data, and a new object with other shard counts."""
    await land.start_operator()
    cluster = await land.cluster(groupCoordinators={"replicas": 1, "shards": 3})
    await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
    await land.kube.delete("ShareCluster", "main")

    async def gone():
        return await land.kube.get("ShareCluster", "main") is None

    await land.until(gone)
    again = await land.cluster()
    assert again["metadata"]["uid"] != cluster["metadata"]["uid"]
    said = await land.condition("ShareCluster", "main", "False", "ClusterMismatch", "EtcdAvailable")
    assert "has 3 group shards" in said["message"]
    assert "shard counts are fixed at creation" in said["message"]
    ready = await land.condition("ShareCluster", "main", "False", "ClusterMismatch")
    assert ready["message"]


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
    monkeypatch.setattr("sharemesh_operator.cluster.status_and_events.INTERVAL_MS", 500)
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
        http.get(f"http://127.0.0.1:{process.ports[number]}{path}") as answer,
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
        rounds = process.figures()["sharemesh_operator_rounds_total"]
        change = {"metadata": {"labels": {"poke": f"again-{number}"}}}
        await land.kube.patch("Pod", "main-share-leader-0", change)
        await land.until(looked_again)
    since = land.server.requests[before:]
    applied = [path for method, path, agent in since if method == "PATCH" and agent != "test"]
    assert applied == []
    assert process.figures()["sharemesh_operator_status_writes_total"] == writes
