"""What the operator relies on of an API server, checked on the stand-in and on a real one alike."""

import asyncio
import json

import kopf
import pytest

from sharemesh_operator.cluster.kube import Kube, KubeError
from tests.operator.api_worlds import real_world, standin_world

GROUPS = "/apis/sharemesh.io/v1alpha1/namespaces/{ns}/sharegroups"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
DEADLINE_S = 20


@pytest.fixture(params=["standin", pytest.param("real", marks=pytest.mark.cluster)])
async def world(request):
    open_world = standin_world if request.param == "standin" else real_world
    async with open_world() as found:
        yield found


def group(name="billing", **spec):
    return {
        "apiVersion": "sharemesh.io/v1alpha1",
        "kind": "ShareGroup",
        "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "main"}, "topics": [{"name": "orders"}], **spec},
    }


def config_map(name="one", **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": name}},
        "data": data,
    }


async def eventually(ask):
    async with asyncio.timeout(DEADLINE_S):
        while not (found := await ask()):
            await asyncio.sleep(0.05)
        return found


async def test_custom_resources_are_discovered(world):
    assert await world.kube.served(("ShareCluster", "ShareTopic", "ShareGroup", "ShareUser"))


async def test_a_new_object_has_uid_generation_and_defaults(world):
    made = await world.kube.create(group())
    meta = made["metadata"]
    assert meta["generation"] == 1
    assert meta["uid"]
    assert meta["resourceVersion"]
    assert meta["creationTimestamp"].endswith("Z")
    assert made["spec"]["recordLockDurationSeconds"] == 30
    assert made["spec"]["deletionPolicy"] == "Retain"


async def test_unknown_fields_are_pruned(world):
    made = await world.kube.create(group(unknown=1))
    assert "unknown" not in made["spec"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"maxDeliveryAttempts": 1}, "maxDeliveryAttempts"),
        ({"maxDeliveryAttempts": 11}, "maxDeliveryAttempts"),
        ({"recordLockDurationSeconds": "30"}, "recordLockDurationSeconds"),
        ({"deletionPolicy": "Sometimes"}, "deletionPolicy"),
        ({"topics": []}, "topics"),
        ({"topics": [{"name": "a"}, {"name": "a"}]}, "topics"),
        ({"clusterRef": {}}, "clusterRef.name"),
        ({"clusterRef": {"name": "x" * 35}}, "clusterRef.name"),
    ],
)
async def test_what_the_schema_forbids_is_refused_with_the_fields_name(world, spec, field):
    with pytest.raises(KubeError) as refused:
        await world.kube.create(group(**spec))
    assert refused.value.status == 422
    assert refused.value.reason == "Invalid"
    assert field in refused.value.message


def user(**spec):
    return {
        "apiVersion": "sharemesh.io/v1alpha1",
        "kind": "ShareUser",
        "metadata": {"name": "jane"},
        "spec": {"clusterRef": {"name": "main"}, "principal": "User:jane", **spec},
    }


def rule(**changed):
    return {"acls": [{"resourceType": "Topic", "name": "a", "operations": ["Read"], **changed}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"principal": "jane"}, "principal"),
        ({"principal": "User:a b"}, "principal"),
        (rule(operations=[]), "operations"),
        (rule(operations=["Read", "Read"]), "operations"),
        (rule(operations=["read"]), "operations"),
        (rule(resourceType="Queue"), "resourceType"),
        (rule(patternType="Match"), "patternType"),
        (rule(name=""), "name"),
        (rule(permission="Maybe"), "permission"),
        ({"quotas": {"streams": 0}}, "streams"),
        ({"quotas": {"streams": "7"}}, "streams"),
    ],
)
async def test_idn_10_a_user_that_the_schema_forbids_is_refused(world, spec, field):
    with pytest.raises(KubeError) as refused:
        await world.kube.create(user(**spec))
    assert refused.value.status == 422
    assert field in refused.value.message


async def test_idn_10_a_user_has_its_defaults(world):
    made = await world.kube.create(user(**rule()))
    assert made["spec"]["deletionPolicy"] == "Delete"
    (given,) = made["spec"]["acls"]
    assert (given["patternType"], given["permission"]) == ("Literal", "Allow")


async def test_a_name_is_taken_once(world):
    await world.kube.create(group())
    with pytest.raises(KubeError) as refused:
        await world.kube.create(group())
    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")


async def test_generation_rises_with_spec_only(world):
    await world.kube.create(group())
    labelled = await world.kube.patch("ShareGroup", "billing", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    told = await world.kube.patch(
        "ShareGroup", "billing", {"status": {"members": 3}}, subresource="status"
    )
    assert told["metadata"]["generation"] == 1
    edited = await world.kube.patch("ShareGroup", "billing", {"spec": {"maxDeliveryAttempts": 7}})
    assert edited["metadata"]["generation"] == 2


async def test_status_is_written_by_its_own_door_only(world):
    await world.kube.create({**group(), "status": {"members": 9}})
    body = await world.kube.patch("ShareGroup", "billing", {"status": {"members": 5}})
    assert "members" not in body.get("status", {})
    change = {"status": {"members": 3}, "spec": {"maxDeliveryAttempts": 9}}
    body = await world.kube.patch("ShareGroup", "billing", change, subresource="status")
    assert body["status"]["members"] == 3
    assert body["spec"]["maxDeliveryAttempts"] == 5


async def test_a_patch_that_changes_nothing_is_no_new_version(world):
    await world.kube.create(group())
    change = {"status": {"members": 3}}
    one = await world.kube.patch("ShareGroup", "billing", change, subresource="status")
    two = await world.kube.patch("ShareGroup", "billing", change, subresource="status")
    assert one["metadata"]["resourceVersion"] == two["metadata"]["resourceVersion"]


async def test_null_takes_a_field_away(world):
    await world.kube.create(group(groupId="Billing.v2"))
    await world.kube.patch(
        "ShareGroup", "billing", {"status": {"members": 1, "groupId": "x"}}, subresource="status"
    )
    body = await world.kube.patch(
        "ShareGroup", "billing", {"status": {"groupId": None}}, subresource="status"
    )
    assert body["status"] == {"members": 1}


async def test_what_is_not_there_is_none(world):
    assert await world.kube.get("ShareGroup", "nobody") is None
    assert await world.kube.patch("ShareGroup", "nobody", {"spec": {}}) is None
    await world.kube.delete("ShareGroup", "nobody")


async def test_an_old_version_is_refused(world):
    made = await world.kube.create(group())
    await world.kube.patch("ShareGroup", "billing", {"metadata": {"labels": {"a": "b"}}})
    async with world.call("PUT", f"{GROUPS}/billing", json=made) as answer:
        assert answer.status == 409
        assert (await answer.json())["reason"] == "Conflict"


async def test_a_json_patch_whose_test_fails_changes_nothing(world):
    await world.kube.create(group())
    change = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "0"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    ]
    async with world.call(
        "PATCH", f"{GROUPS}/billing", data=json.dumps(change), headers=JSON_PATCH
    ) as answer:
        assert answer.status == 422
    assert "labels" not in (await world.kube.get("ShareGroup", "billing"))["metadata"]


async def test_apply_creates_then_changes_then_takes_away(world):
    first = await world.kube.apply(config_map(a="1", b="2"))
    assert first["data"] == {"a": "1", "b": "2"}
    again = await world.kube.apply(config_map(a="1", b="2"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    changed = await world.kube.apply(config_map(a="3"))
    assert changed["data"] == {"a": "3"}


async def test_apply_leaves_what_others_added(world):
    await world.kube.apply(config_map(a="1"))
    async with world.call(
        "PATCH",
        "/api/v1/namespaces/{ns}/configmaps/one?fieldManager=somebody",
        json={"data": {"theirs": "x"}},
        headers=MERGE,
    ) as answer:
        assert answer.status == 200
    body = await world.kube.apply(config_map(a="2"))
    assert body["data"] == {"a": "2", "theirs": "x"}


async def test_apply_takes_back_what_others_changed(world):
    await world.kube.apply(config_map(a="1"))
    await world.kube.patch("ConfigMap", "one", {"data": {"a": "drift"}})
    assert (await world.kube.apply(config_map(a="1")))["data"] == {"a": "1"}


async def test_lists_select_by_label_and_come_in_pages(world):
    for number in range(3):
        await world.kube.apply(config_map(f"one-{number}"))
    found = await world.kube.list("ConfigMap", {"app": "one-1"})
    assert [each["metadata"]["name"] for each in found] == ["one-1"]
    assert {(each["apiVersion"], each["kind"]) for each in found} == {("v1", "ConfigMap")}
    names, more = [], ""
    while True:
        path = f"/api/v1/namespaces/{{ns}}/configmaps?limit=2&continue={more}"
        async with world.call("GET", path) as answer:
            page = await answer.json()
        names += [each["metadata"]["name"] for each in page["items"]]
        more = page["metadata"].get("continue", "")
        if not more:
            break
        assert len(page["items"]) == 2
    assert {"one-0", "one-1", "one-2"} <= set(names)
    assert len(names) == len(set(names))


async def test_a_finalizer_keeps_a_deleted_object_until_it_is_taken_off(world):
    body = group()
    body["metadata"]["finalizers"] = ["sharemesh.io/operator"]
    await world.kube.create(body)
    await world.kube.delete("ShareGroup", "billing")
    dying = await world.kube.get("ShareGroup", "billing")
    assert dying["metadata"]["deletionTimestamp"]
    assert dying["metadata"]["generation"] == 2
    await world.kube.patch("ShareGroup", "billing", {"metadata": {"finalizers": []}})
    assert await world.kube.get("ShareGroup", "billing") is None


async def test_a_deletion_of_another_uid_is_not_done(world):
    await world.kube.create(group())
    await world.kube.delete("ShareGroup", "billing", uid="b0b5c0de-0000-4000-8000-000000000000")
    assert await world.kube.get("ShareGroup", "billing") is not None


async def test_owned_objects_go_with_their_owner(world):
    owner = await world.kube.create(group())
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "sharemesh.io/v1alpha1",
            "kind": "ShareGroup",
            "name": "billing",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]
    await world.kube.apply(child)
    await world.kube.delete("ShareGroup", "billing")

    async def gone():
        return await world.kube.get("ConfigMap", "child") is None

    assert await eventually(gone)


async def test_scale_is_a_door_to_the_leaders_replicas(world):
    await world.kube.create(
        {
            "apiVersion": "sharemesh.io/v1alpha1",
            "kind": "ShareCluster",
            "metadata": {"name": "main"},
            "spec": {
                "etcd": {"endpoints": ["http://etcd:2379"]},
                "storage": {"type": "Shared", "claimName": "data"},
            },
        }
    )
    body = await world.kube.get("ShareCluster", "main")
    assert body["spec"]["shareLeaders"]["replicas"] == 2
    assert body["spec"]["etcd"]["prefix"] == "/sharemesh"
    path = "/apis/sharemesh.io/v1alpha1/namespaces/{ns}/shareclusters/main/scale"
    async with world.call("PATCH", path, json={"spec": {"replicas": 3}}, headers=MERGE) as answer:
        assert answer.status == 200
    body = await world.kube.get("ShareCluster", "main")
    assert body["spec"]["shareLeaders"]["replicas"] == 3


async def test_a_watch_tells_changes_in_order_from_a_version_on(world):
    made = await world.kube.create(group())
    await world.kube.patch("ShareGroup", "billing", {"spec": {"maxDeliveryAttempts": 7}})
    await world.kube.delete("ShareGroup", "billing")
    version = made["metadata"]["resourceVersion"]
    path = f"{GROUPS}?watch=true&resourceVersion={version}&timeoutSeconds=5"
    seen = []
    async with asyncio.timeout(DEADLINE_S), world.call("GET", path) as answer:
        async for line in answer.content:
            event = json.loads(line)
            seen.append((event["type"], event["object"]["spec"]["maxDeliveryAttempts"]))
            if len(seen) == 2:
                break
    assert seen == [("MODIFIED", 7), ("DELETED", 7)]


async def test_an_event_is_posted(world):
    made = await world.kube.create(group())
    posted = await world.kube.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "billing.", "namespace": world.namespace},
            "involvedObject": {
                "apiVersion": "sharemesh.io/v1alpha1",
                "kind": "ShareGroup",
                "name": "billing",
                "namespace": world.namespace,
                "uid": made["metadata"]["uid"],
            },
            "reason": "Tried",
            "message": "it was tried",
            "type": "Normal",
            "source": {"component": "sharemesh-operator"},
        }
    )
    assert posted["metadata"]["name"].startswith("billing.")


async def test_an_unreachable_server_is_an_error_of_status_0(world):
    nobody = kopf.ConnectionInfo(server="http://127.0.0.1:1")
    async with Kube(lambda: nobody, "here") as kube:
        with pytest.raises(KubeError) as failed:
            await kube.get("ShareGroup", "billing")
    assert failed.value.status == 0


async def test_the_standin_says_410_when_history_is_gone():
    async with standin_world() as world:
        await world.kube.create(group())
        world.server.store.compact()
        async with world.call("GET", f"{GROUPS}?watch=true&resourceVersion=0") as answer:
            event = json.loads(await answer.content.readline())
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
