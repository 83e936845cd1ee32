"""Section T over real processes: every row of spec ACL with a table of access rules."""

import asyncio
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import AsyncAdminClient, AsyncProducer, AsyncShareConsumer
from sharemesh.client.acls import AclBinding, AclBindingFilter
from sharemesh.client.admin_results import NewTopic
from sharemesh.client.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.local_cluster import LocalCluster
from sharemesh.v1 import admin_pb2, record_log_pb2
from sharemesh.v1 import group_coordinator_pb2 as group_pb
from sharemesh.v1 import share_coordinator_pb2 as state_pb
from sharemesh.v1 import share_leader_pb2 as leader_pb
from tests.conformance.scenario import scenario

pytestmark = [pytest.mark.integration, pytest.mark.slow]

HEADER = "x-user"
TABLE_S = 10
READ_G, DESCRIBE_G, DELETE_G = ("read", "group"), ("describe", "group"), ("delete", "group")
READ_T, DESCRIBE_T = ("read", "topic"), ("describe", "topic")
ACTION = ("cluster_action", "cluster")
NAMES = {"group": "g", "topic": "a", "cluster": "kafka-cluster"}
GROUP, LEADER, STATE = "group-coordinator", "share-leader", "share-coordinator"


@dataclass
class Real:
    """A cluster of processes with access rules, and callers by user name."""

    cluster: LocalCluster
    callers: dict[str, GrpcCaller]
    topics: dict[str, bytes]

    def settings(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": ",".join(self.cluster.bootstrap),
            "request.headers": f"{HEADER}={user}",
        }

    async def call(self, user, method, request, role) -> Any:
        caller = self.callers.get(user)
        if caller is None:
            caller = GrpcCaller(SystemClock(), headers=[(HEADER, user)])
            self.callers[user] = caller
        return await caller.call(method, request, to=self.cluster.status(role).address)

    async def allow(
        self, user: str, *needs: tuple[str, str], names: dict[str, str] = NAMES
    ) -> None:
        rules = [AclBinding(f"User:{user}", how, what, names[what]) for how, what in needs]
        async with AsyncAdminClient(self.settings("root")) as admin:
            problems = await admin.create_acls(rules)
        assert set(problems.values()) <= {None}

    async def until(self, condition: Callable[[], Any]) -> None:
        """Rules reach each process by its own watch."""
        began = time.monotonic()
        while not await condition():
            assert time.monotonic() - began < TABLE_S, "the rules did not arrive"
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(tmp_path_factory):
    serve = ServeSettings(
        data_directory=tmp_path_factory.mktemp("acls"),
        group_shards=1,
        state_shards=1,
        authorizer="acl",
        super_users=("User:root",),
        principal_header=HEADER,
    )
    one = UpSettings(base_port=0, share_leaders=1, group_coordinators=1, share_coordinators=1)
    cluster = LocalCluster(serve, one, clock=SystemClock())
    await cluster.start()
    made = Real(cluster, {}, {})
    try:
        async with AsyncAdminClient(made.settings("root")) as admin:
            await admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
        metadata = await made.call(
            "root", methods.METADATA, admin_pb2.MetadataRequest(), "share-leader"
        )
        made.topics = {topic.name: topic.topic_id for topic in metadata.topics}
        yield made
    finally:
        for caller in made.callers.values():
            await caller.close()
        await cluster.stop(fast=True)


def top(response):
    return response.error_code


def entry(response):
    """The error of the only group, result, coordinator or topic, else of its only partition."""
    for name in ("groups", "results", "coordinators", "topics", "responses", "partitions"):
        if getattr(response, name, None):
            [inner] = getattr(response, name)
            return getattr(inner, "error_code", 0) or entry(inner)
    return getattr(response, "error_code", 0)


def heartbeat(member, *topics, epoch=0):
    request = group_pb.ShareGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, max_wait_ms=5_000
    )
    if topics:
        request.subscribed_topic_names.names.extend(topics)
    return request


def offsets_of_a():
    request = group_pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id="g").topics.topics.add(topic_name="a", partitions=[0])
    return request


def altered():
    request = group_pb.AlterShareGroupOffsetsRequest(group_id="g")
    request.topics.add(topic_name="a").partitions.add(partition=0, start_offset=0)
    return request


def config(validate_only=True):
    request = group_pb.AlterGroupConfigsRequest(group_id="g", validate_only=validate_only)
    request.configs.add(name="share.isolation.level", value="read_committed")
    return request


def group_rows():
    """Method, request, and for each permission the error without it and where it stands."""
    g = methods
    return [
        (g.SHARE_GROUP_HEARTBEAT, heartbeat("m1", "a"), {READ_G: (30, top), DESCRIBE_T: (29, top)}),
        (
            g.SHARE_GROUP_DESCRIBE,
            group_pb.ShareGroupDescribeRequest(group_ids=["g"]),
            {DESCRIBE_G: (30, entry), DESCRIBE_T: (29, entry)},
        ),
        (
            g.DESCRIBE_SHARE_GROUP_OFFSETS,
            offsets_of_a(),
            {DESCRIBE_G: (30, entry), DESCRIBE_T: (29, entry)},
        ),
        (g.ALTER_GROUP_CONFIGS, config(), {("alter_configs", "group"): (30, top)}),
        (
            g.DESCRIBE_GROUP_CONFIGS,
            group_pb.DescribeGroupConfigsRequest(group_ids=["g"]),
            {("describe_configs", "group"): (30, entry)},
        ),
        # The member of the first row leaves before those that need an empty group.
        (g.SHARE_GROUP_HEARTBEAT, heartbeat("m1", epoch=-1), {READ_G: (30, top)}),
        (g.ALTER_SHARE_GROUP_OFFSETS, altered(), {READ_G: (30, top), READ_T: (29, entry)}),
        (
            g.DELETE_SHARE_GROUP_OFFSETS,
            group_pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a"]),
            {DELETE_G: (30, top), READ_T: (29, entry)},
        ),
        (g.DELETE_GROUPS, group_pb.DeleteGroupsRequest(group_ids=["g"]), {DELETE_G: (30, entry)}),
    ]


def state_rows(topic_id):
    made = []
    for name, partition in (
        ("Initialize", {"state_epoch": 100, "start_offset": 0}),
        ("Read", {"leader_epoch": 1}),
        ("Write", {"state_epoch": 100, "leader_epoch": 1, "start_offset": 0}),
        ("ReadSummary", {"leader_epoch": 1}),
        ("Delete", {}),
    ):
        stem = "ReadShareGroupStateSummary" if name == "ReadSummary" else f"{name}ShareGroupState"
        request = getattr(state_pb, f"{stem}Request")(group_id="direct")
        request.topics.add(topic_id=topic_id).partitions.add(partition=0, **partition)
        [method] = [each for each in methods.METHODS if each.name.endswith(f"/{stem}")]
        made.append((method, request, {ACTION: (31, entry)}))
    return made


def other_rows():
    find = methods.FIND_COORDINATOR
    share_key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
    return [
        (find, admin_pb2.FindCoordinatorRequest(keys=["g"]), {DESCRIBE_G: (30, entry)}),
        (
            find,
            admin_pb2.FindCoordinatorRequest(
                keys=[share_key], key_type=admin_pb2.COORDINATOR_KEY_TYPE_SHARE
            ),
            {ACTION: (31, entry)},
        ),
        (
            methods.DESCRIBE_ACLS,
            admin_pb2.DescribeAclsRequest(),
            {("describe", "cluster"): (31, top)},
        ),
        (
            methods.DELETE_ACLS,
            admin_pb2.DeleteAclsRequest(filters=[admin_pb2.AclFilter(principal="User:none")]),
            {("alter", "cluster"): (31, entry)},
        ),
    ]


async def check_rows(real, label, rows, role):
    """Each request without one of its permissions, then with all."""
    for number, (method, request, needs) in enumerate(rows):
        for lacking, (error, at) in needs.items():
            user = f"{label}{number}-no-{'-'.join(lacking)}"
            await real.allow(user, *(need for need in needs if need != lacking))

            async def refused(user=user, method=method, request=request, error=error, at=at):
                return at(await real.call(user, method, request, role)) == error

            await real.until(refused)
        # who speaks for a member is who joined it (BND-26)
        user = f"{label}{getattr(request, 'member_id', '') or number}-all"
        await real.allow(user, *needs)
        allowed = functools.partial(answered, real, user, method, request, role)
        await real.until(allowed)


async def answered(real, user, method, request, role):
    return entry(await real.call(user, method, request, role)) == 0


@scenario("ACL-S01")
@pytest.mark.asyncio(loop_scope="module")
async def test_group_requests_need_what_the_table_of_permissions_says(real):
    """GC-45."""
    await check_rows(real, "group", group_rows(), GROUP)


@scenario("ACL-S01")
@pytest.mark.asyncio(loop_scope="module")
async def test_state_requests_are_for_the_cluster_alone(real):
    await check_rows(real, "state", state_rows(real.topics["b"]), STATE)


@scenario("ACL-S01")
@pytest.mark.asyncio(loop_scope="module")
async def test_finding_coordinators_and_rules_needs_permission(real):
    await check_rows(real, "other", other_rows(), LEADER)


@scenario("ACL-S01")
@pytest.mark.asyncio(loop_scope="module")
async def test_groups_that_may_not_be_described_are_not_listed(real):
    await real.call("root", methods.SHARE_GROUP_HEARTBEAT, heartbeat("seen", "a"), GROUP)
    listing = group_pb.ListGroupsRequest()

    async def seen(user):
        found = await real.call(user, methods.LIST_GROUPS, listing, GROUP)
        assert found.error_code == 0
        return [each.group_id for each in found.groups]

    assert await seen("lister-nothing") == []
    for user, need in (("lister-cluster", ("describe", "cluster")), ("lister-group", DESCRIBE_G)):
        await real.allow(user, need)

        async def listed(user=user):
            return await seen(user) == ["g"]

        await real.until(listed)
    await real.call("root", methods.SHARE_GROUP_HEARTBEAT, heartbeat("seen", epoch=-1), GROUP)


@scenario("ACL-S01")
@pytest.mark.asyncio(loop_scope="module")
async def test_fetching_and_acknowledging_need_read_on_group_and_topic(real):
    await real.call("root", methods.SHARE_GROUP_HEARTBEAT, heartbeat("f", "a"), GROUP)
    produced = record_log_pb2.ProduceRequest()
    produced.partitions.add(topic_id=real.topics["a"]).decoded_records.add(value=b"v")
    await real.call("root", methods.PRODUCE, produced, LEADER)
    await real.allow("fetch-topic", READ_T)
    await real.allow("fetch-group", READ_G)
    await real.allow("fetch-all", READ_T, READ_G)

    def fetch(user, epoch):
        request = leader_pb.ShareFetchRequest(
            group_id="g",
            member_id=user,
            share_session_epoch=epoch,
            max_bytes=1_000,
            max_records=5,
        )
        request.topics.add(topic_id=real.topics["a"]).partitions.add(partition=0)
        return request

    def acknowledge(user, epoch):
        request = leader_pb.ShareAcknowledgeRequest(
            group_id="g", member_id=user, share_session_epoch=epoch
        )
        part = request.topics.add(topic_id=real.topics["a"]).partitions.add(partition=0)
        part.acknowledgement_batches.add(first_offset=0, last_offset=0, acknowledge_types=[2])
        return request

    async def fetched(user, expected, at):
        return at(await real.call(user, methods.SHARE_FETCH, fetch(user, 0), LEADER)) == expected

    for user, error, at in (
        ("fetch-topic", 30, top),
        ("fetch-group", 29, entry),
        ("fetch-all", 0, entry),
    ):
        await real.until(functools.partial(fetched, user, error, at))
    for user, epoch, error, at in (
        ("fetch-topic", 1, 30, top),
        ("fetch-group", 1, 29, entry),
        ("fetch-all", 1, 0, top),
    ):
        answer = await real.call(user, methods.SHARE_ACKNOWLEDGE, acknowledge(user, epoch), LEADER)
        assert at(answer) == error, (user, answer)
    await real.call("root", methods.SHARE_GROUP_HEARTBEAT, heartbeat("f", epoch=-1), GROUP)


@scenario("ACL-S02")
@pytest.mark.asyncio(loop_scope="module")
async def test_partial_permission_refuses_the_whole_over_real_processes(real):
    await real.call("root", methods.SHARE_GROUP_HEARTBEAT, heartbeat("part", "b"), GROUP)
    await real.allow("part", READ_G, DESCRIBE_G, DESCRIBE_T)
    describe = group_pb.ShareGroupDescribeRequest(group_ids=["g"])

    async def refused():
        joined = await real.call(
            "part", methods.SHARE_GROUP_HEARTBEAT, heartbeat("two", "a", "b"), GROUP
        )
        [group] = (await real.call("part", methods.SHARE_GROUP_DESCRIBE, describe, GROUP)).groups
        return (joined.error_code, group.error_code, list(group.members)) == (29, 29, [])

    await real.until(refused)
    await real.call("root", methods.SHARE_GROUP_HEARTBEAT, heartbeat("part", epoch=-1), GROUP)


@pytest.mark.asyncio(loop_scope="module")
async def test_clients_with_rules_produce_and_consume_and_others_do_not(real):
    names = {"group": "jobs", "topic": "b"}
    await real.allow("maker", ("write", "topic"), names=names)
    await real.allow("worker", READ_G, READ_T, names=names)

    async def visible():
        metadata = await real.call("worker", methods.METADATA, admin_pb2.MetadataRequest(), GROUP)
        return [topic.name for topic in metadata.topics] == ["b"]

    await real.until(visible)
    settings = {"group.id": "jobs", **real.settings("worker")}
    async with AsyncAdminClient(real.settings("root")) as admin:
        await admin.alter_group_configs("jobs", {"share.auto.offset.reset": "earliest"})
    async with AsyncProducer(real.settings("maker")) as producer:
        await producer.send_and_wait("b", b"work")
    async with AsyncShareConsumer(settings) as consumer:
        await consumer.subscribe(["b"])
        found = []
        began = time.monotonic()
        while not found and time.monotonic() - began < 20:
            found = await consumer.poll(1_000)
        assert [record.value for record in found] == [b"work"]
        result = await consumer.commit_sync()
        assert all(problem is None for problem in result.values())
    async with AsyncProducer(real.settings("worker")) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("b", b"mine")
    async with AsyncAdminClient(real.settings("worker")) as admin:
        with pytest.raises(ClusterAuthorizationFailedError):
            await admin.describe_acls()
    async with AsyncAdminClient(real.settings("root")) as admin:
        removed = await admin.delete_acls(AclBindingFilter(principal="User:worker"))
    assert {rule.operation for rule in removed} == {"read"}
    assert len(removed) == 2

    async def shut_out():
        metadata = await real.call("worker", methods.METADATA, admin_pb2.MetadataRequest(), GROUP)
        return not metadata.topics

    await real.until(shut_out)
