"""ShareGroupOperations: done once, with the result in status."""

import json

import pytest

from tests.e2e import disruptions, objects
from tests.e2e.kube import until

RECORDS = 20


def produce(mesh, topic: str, records: int = RECORDS) -> None:
    """Produce numbered records."""
    pod = mesh.pods("share-leader")[0]["metadata"]["name"]
    script = (
        f"seq {records} | sharemesh produce {topic} --format text --bootstrap {mesh.bootstrap()}"
    )
    mesh.kube.exec(pod, "sh", "-c", script)


def consume(mesh, topic: str, group: str) -> list[str]:
    """Consume until nothing comes any more; return the values."""
    said = mesh.sharemesh("consume", topic, "--group", group, "--idle", "3000")
    return [line for line in said.splitlines() if line]


def groups(mesh) -> str:
    return mesh.sharemesh("groups", "list")


@pytest.fixture
def consumed(mesh):
    """A topic and a group that has consumed all of it, without members."""
    topic, group = mesh.topic_and_group("reset", partitions=2)
    produce(mesh, topic)
    first = consume(mesh, topic, group)
    assert len(first) == RECORDS
    assert consume(mesh, topic, group) == []
    yield topic, group
    mesh.kube.delete("sharegroup", group, wait=True)
    mesh.kube.delete("sharetopic", topic, wait=True)


def test_after_a_reset_to_the_beginning_all_records_come_again(mesh, consumed):
    topic, group = consumed
    mesh.kube.apply(
        objects.operation(
            "reset", "main", "ResetOffsets", groupRef={"name": group}, resetTo="Earliest"
        )
    )
    condition = mesh.kube.wait_for_condition("sharegroupoperation", "reset", "Succeeded")
    assert condition["message"]
    status = mesh.kube.get("sharegroupoperation", "reset")["status"]
    assert status["partitions"] == 2
    assert status["completionTime"]
    assert sorted(consume(mesh, topic, group)) == sorted(str(n + 1) for n in range(RECORDS))
    mesh.kube.delete("sharegroupoperation", "reset", wait=True)


def test_a_reset_of_a_group_with_members_fails_and_says_why(mesh):
    topic, group = mesh.topic_and_group("busy")
    load = mesh.load(topic, group)
    load.flows(20)
    mesh.kube.apply(
        objects.operation(
            "busy", "main", "ResetOffsets", groupRef={"name": group}, resetTo="Earliest"
        )
    )
    condition = mesh.kube.wait_for_condition(
        "sharegroupoperation", "busy", "Succeeded", status="False"
    )
    assert "member" in condition["message"]
    load.finish().check()


def test_deleted_state_is_gone_from_the_mesh(mesh, consumed):
    _, group = consumed
    assert group in groups(mesh)
    mesh.kube.apply(objects.operation("forget", "main", "DeleteState", groupRef={"name": group}))
    mesh.kube.wait_for_condition("sharegroupoperation", "forget", "Succeeded")
    assert group not in groups(mesh)


def test_a_drained_node_leads_nothing_and_clients_hardly_notice(mesh, timings):
    topic, group = mesh.topic_and_group("drained")
    load = mesh.load(topic, group)
    load.flows()
    node = "main-share-leader-0"
    mesh.kube.apply(objects.operation("drain", "main", "DrainNode", node=node))
    mesh.kube.wait_for_condition("sharegroupoperation", "drain", "Succeeded")
    said = json.loads(mesh.sharemesh("cluster", "--json"))
    led = {found["node"]: found["partitions"] for found in said["nodes"]}
    assert led[node] == 0
    load.flows()
    verdict = load.finish()
    verdict.check()
    timings.note("drain of a node: longest silence", verdict.longest_silence_ms / 1000)
    uid = mesh.kube.get("pod", node)["metadata"]["uid"]
    mesh.kube.delete("pod", node)  # it stays empty until it is started again
    disruptions.replaced(mesh.kube, node, uid)
    mesh.settled()


def test_a_finished_operation_goes_after_its_time(mesh):
    wanted = objects.operation(
        "brief",
        "main",
        "ResetOffsets",
        groupRef={"name": "nobody"},
        resetTo="Latest",
        ttlSecondsAfterFinished=1,
    )
    mesh.kube.apply(wanted)
    mesh.kube.gone("sharegroupoperation", "brief", timeout_s=120)


def test_an_operation_on_what_is_not_there_says_so(mesh):
    mesh.kube.apply(
        objects.operation(
            "lost", "main", "ResetOffsets", groupRef={"name": "nobody"}, resetTo="Latest"
        )
    )
    condition = until(
        "the operation says what is missing",
        lambda: mesh.kube.condition("sharegroupoperation", "lost", "Succeeded"),
    )
    assert condition["status"] != "True"
    assert "nobody" in condition["message"]
