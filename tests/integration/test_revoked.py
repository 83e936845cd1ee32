"""Rights that are taken away while calls are open, on real processes that see it by their watches.

Each process sees a change by itself. So a trial waits until the one that it is about answers a new
call by the new rules, and only then lets something happen that must not be told.
"""

import asyncio
import time
import uuid

import pytest
import pytest_asyncio

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.acls import AclBinding, AclBindingFilter
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.admin_results import NewTopic
from sharemesh.client.consumer.async_share_consumer import AsyncShareConsumer
from sharemesh.client.errors import GroupAuthorizationFailedError
from sharemesh.client.producer.async_producer import AsyncProducer
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from sharemesh.serve.supervise.local_cluster import LocalCluster
from sharemesh.v1 import group_coordinator_pb2 as group_pb
from sharemesh.v1 import share_leader_pb2 as leader_pb

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

HEADER = "x-user"
COORDINATOR, LEADER = "group-coordinator", "share-leader"
WAIT_S = 20


class Real:
    """A cluster of processes with access rules; ``case`` makes what one test is about."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.admin = AsyncAdminClient(self.settings("root"))
        self.callers = {}

    def settings(self, user):
        return {
            "bootstrap.servers": ",".join(self.cluster.bootstrap),
            "request.headers": f"{HEADER}={user}",
        }

    def caller(self, user):
        if user not in self.callers:
            self.callers[user] = GrpcCaller(SystemClock(), headers=[(HEADER, user)])
        return self.callers[user]

    def address(self, role):
        return self.cluster.status(role).address

    async def case(self, name):
        topic, group = f"{name}-jobs", f"{name}-workers"
        await self.admin.create_topics([NewTopic(topic, 1)])
        await self.admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
        rules = [
            AclBinding(f"User:{name}", "read", "group", group),
            AclBinding(f"User:{name}", "read", "topic", topic),
        ]
        assert set((await self.admin.create_acls(rules)).values()) == {None}
        described = (await self.admin.describe_topics([topic]))[topic]
        return Case(self, name, topic, group, described.topic_id)


class Case:
    def __init__(self, real, user, topic, group, topic_id):
        self.real, self.user, self.topic, self.group = real, user, topic, group
        self.topic_id = uuid.UUID(topic_id).bytes

    async def call(self, method, request, role):
        return await self.real.caller(self.user).call(method, request, to=self.real.address(role))

    async def stream(self, method, role, first):
        stream = await self.real.caller(self.user).stream(method, to=self.real.address(role))
        await stream.send(first)
        return stream, aiter(stream)

    async def produce(self, value):
        async with AsyncProducer(self.real.settings("root")) as producer:
            await producer.send_and_wait(self.topic, value)

    def heartbeat(self, member, *topics, epoch=0):
        request = group_pb.ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=member, member_epoch=epoch, max_wait_ms=5_000
        )
        if topics:
            request.subscribed_topic_names.names.extend(topics)
        return request

    async def join(self, member):
        """Be a member, so that the share partition is initialized."""
        request = self.heartbeat(member, self.topic)
        await until_true(lambda: self._joined(request))

    async def _joined(self, request):
        answer = await self.call(methods.SHARE_GROUP_HEARTBEAT, request, COORDINATOR)
        return bool(answer.assignment.topic_partitions)

    def fetch(self, epoch, *, member, wait_ms=10_000):
        request = leader_pb.ShareFetchRequest(
            group_id=self.group,
            member_id=member,
            share_session_epoch=epoch,
            max_bytes=100_000,
            max_records=10,
            min_bytes=1,
            max_wait_ms=wait_ms,
        )
        if epoch == 0:
            request.topics.add(topic_id=self.topic_id).partitions.add(partition=0)
        return request

    async def revoke(self, *resources):
        """Remove READ, and wait until leader and coordinator answer a new call by that."""
        for resource in resources:
            name = self.group if resource == "group" else self.topic
            wanted = AclBindingFilter(
                principal=f"User:{self.user}", resource_type=resource, name=name
            )
            assert await self.real.admin.delete_acls(wanted)

        async def leader_knows():
            answer = await self.call(
                methods.SHARE_FETCH, self.fetch(0, member="prober", wait_ms=0), LEADER
            )
            codes = {part.error_code for topic in answer.responses for part in topic.partitions}
            return (answer.error_code or max(codes)) in (29, 30)

        async def coordinator_knows():
            request = self.heartbeat("prober", self.topic)
            answer = await self.call(methods.SHARE_GROUP_HEARTBEAT, request, COORDINATOR)
            return answer.error_code in (29, 30)

        await until_true(leader_knows)
        await until_true(coordinator_knows)

    async def consuming(self, member):
        """Return a Consume stream that has got its first record."""
        first = leader_pb.ConsumeRequest(credit_records=100)
        first.start.group_id, first.start.member_id = self.group, member
        first.add.add(topic_id=self.topic_id, partitions=[0])
        stream, answers = await self.stream(methods.CONSUME, LEADER, first)
        await self.produce(b"first")
        found = await asyncio.wait_for(anext(answers), WAIT_S)
        assert acquired(found), found
        return stream, answers

    async def waiting_fetch(self, member):
        """Return the task of a fetch that waits for records."""
        await self.call(methods.SHARE_FETCH, self.fetch(0, member=member, wait_ms=0), LEADER)
        return asyncio.create_task(
            self.call(methods.SHARE_FETCH, self.fetch(1, member=member), LEADER)
        )


def acquired(response):
    return [
        one.first_offset
        for topic in response.responses
        for part in topic.partitions
        for one in part.acquired_records
    ]


async def until_true(condition):
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() - began < WAIT_S
        await asyncio.sleep(0.02)


async def rest(answers):
    """Return all that still comes until the stream ends."""
    async with asyncio.timeout(WAIT_S):
        return [answer async for answer in answers]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(tmp_path_factory):
    serve = ServeSettings(
        data_directory=tmp_path_factory.mktemp("revoked"),
        group_shards=1,
        state_shards=1,
        authorizer="acl",
        super_users=("User:root",),
        principal_header=HEADER,
    )
    one = UpSettings(base_port=0, share_leaders=1, group_coordinators=1, share_coordinators=1)
    cluster = LocalCluster(serve, one, clock=SystemClock())
    await cluster.start()
    made = Real(cluster)
    try:
        yield made
    finally:
        await made.admin.close()
        for caller in made.callers.values():
            await caller.close()
        await cluster.stop(fast=True)


@pytest.mark.asyncio(loop_scope="module")
async def test_without_the_right_on_the_group_streams_end_and_nothing_is_delivered(real):
    case = await real.case("ann")
    await case.join("m1")
    _, answers = await case.consuming("m1")
    waiting = await case.waiting_fetch("m2")
    await case.revoke("group")
    await case.produce(b"later")
    last = (await rest(answers))[-1]
    assert (last.error_code, acquired(last)) == (30, [])
    answer = await asyncio.wait_for(waiting, WAIT_S)
    assert acquired(answer) == []
    assert answer.error_code in (0, 30)  # 0: it had waited to its end before


@pytest.mark.asyncio(loop_scope="module")
async def test_without_the_right_on_the_topic_its_partitions_leave_and_nothing_is_delivered(real):
    case = await real.case("bob")
    await case.join("m1")
    _, answers = await case.consuming("m1")
    waiting = await case.waiting_fetch("m2")
    await case.revoke("topic")
    told = await asyncio.wait_for(anext(answers), WAIT_S)
    assert [part.error_code for topic in told.responses for part in topic.partitions] == [29]
    await case.produce(b"later")
    answer = await asyncio.wait_for(waiting, WAIT_S)
    assert acquired(answer) == []
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(answers), 0.5)
    got = []

    async def another_gets_both():
        request = case.fetch(0, member="other", wait_ms=500)
        response = await real.caller("root").call(
            methods.SHARE_FETCH, request, to=real.address(LEADER)
        )
        got.extend(acquired(response))
        return len(got) >= 2

    await until_true(another_gets_both)  # what was held is released, not kept for its lock's time


@pytest.mark.asyncio(loop_scope="module")
async def test_no_assignment_is_pushed_after_the_rights_are_gone(real):
    for name, gone, code in (("cat", ("group", "topic"), 30), ("dan", ("topic",), 29)):
        case = await real.case(name)
        first = case.heartbeat("m1", case.topic)
        _, answers = await case.stream(methods.SHARE_GROUP_HEARTBEAT_STREAM, COORDINATOR, first)
        async with asyncio.timeout(WAIT_S):
            while not (await anext(answers)).assignment.topic_partitions:
                pass
        await case.revoke(*gone)
        await real.admin.add_partitions(case.topic, 3)
        told = await rest(answers)
        assert [answer.error_code for answer in told] == [code]
        assert not any(answer.HasField("assignment") for answer in told)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_consumer_whose_group_is_revoked_is_told_once_and_at_once(real, caplog):
    case = await real.case("eve")
    settings = {"group.id": case.group, **real.settings("eve")}
    async with AsyncShareConsumer(settings) as consumer:
        await consumer.subscribe([case.topic])
        await case.produce(b"first")
        found = []
        async with asyncio.timeout(WAIT_S):
            while not found:
                found = await consumer.poll(1_000)
        await consumer.commit_sync()
        polling = asyncio.create_task(consumer.poll(WAIT_S * 1_000))
        await case.revoke("group")
        with pytest.raises(GroupAuthorizationFailedError):
            await asyncio.wait_for(polling, WAIT_S)
        with pytest.raises(GroupAuthorizationFailedError):
            await consumer.poll(100)  # for good: a new consumer is needed
    said = [each for each in caplog.records if "authoriz" in each.getMessage().lower()]
    assert len(said) <= 1
