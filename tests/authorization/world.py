"""One process with all roles and real access rules, over the in-process network and store."""

import asyncio
from contextlib import asynccontextmanager

from sharemesh import methods
from sharemesh.cluster.store.acl_rules import AclRule, Pattern, Permission, add_rules, remove_rules
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.serve.roles.share_leader import ShareLeaderRole
from sharemesh.testing import Mesh
from sharemesh.v1 import admin_pb2, group_coordinator_pb2, record_log_pb2

ADDRESS = "node-1:1"
ROOT = "User:root"
CLUSTER = "c"
COORDINATOR_NOT_HERE_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
WAIT_S = 10
STILL_MS = 200


class World:
    """What the tests of access rules need of a cluster; ``allow`` and ``forbid`` change rules."""

    def __init__(self, mesh) -> None:
        self.clock, self.network = mesh.clock, mesh.network
        [self.node] = mesh.nodes
        self.coordination, self.view = self.node.coordination, self.node.view
        self.table = self.node.authorizer
        self.callers = {}
        self.states_wait = asyncio.Event()
        self.states_wait.set()
        self.states_asked = asyncio.Event()
        mesh.faults.before_call = self._before_call

    async def _before_call(self, method) -> None:
        """Calls about share states wait for ``states_wait``."""
        if method in (methods.WRITE_SHARE_GROUP_STATE, methods.READ_SHARE_GROUP_STATE_SUMMARY):
            self.states_asked.set()
            await self.states_wait.wait()

    async def stop(self) -> None:
        assert not any(each.draining for each in self.view.nodes()), "nobody may drain here"
        for caller in self.callers.values():
            await caller.close()

    def caller(self, principal):
        if principal not in self.callers:
            self.callers[principal] = self.network.caller(principal)
        return self.callers[principal]

    async def call(self, principal, method, request, **options):
        return await self.caller(principal).call(method, request, to=ADDRESS, **options)

    async def said(self, principal, method, *requests, answers=1):
        """Return the first answers of a stream to these requests."""
        stream = await self.caller(principal).stream(method, to=ADDRESS)
        found = []
        try:
            for request in requests:
                await stream.send(request)
            async with asyncio.timeout(WAIT_S):
                async for answer in stream:
                    found.append(answer)
                    if len(found) == answers:
                        break
        finally:
            await stream.close()
        return found

    # ---- rules ----------------------------------------------------------------------------------

    async def allow(self, principal, operation, resource, name, *, prefixed=False) -> None:
        pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
        rule = AclRule(principal, Permission.ALLOW, operation, resource, name, pattern)
        await add_rules(self.coordination, self.view, [rule])
        await self.until(lambda: rule in self.view.tables.acls.values())

    async def forbid(self, principal, resource=None, operation=None) -> None:
        """Remove a principal's rules; return once the table answers without them."""

        def wanted(rule):
            return (
                rule.principal == principal
                and resource in (None, rule.resource)
                and operation in (None, rule.operation)
            )

        removed = await remove_rules(self.coordination, self.view, wanted)
        assert removed
        await self.until(
            lambda: (
                not any(
                    self.table.allows(principal, rule.operation, rule.resource, rule.name)
                    for rule in removed
                )
            )
        )

    async def forbid_rule(self, rule) -> None:
        """Remove one rule; return once the table answers without it."""
        assert await remove_rules(self.coordination, self.view, lambda each: each == rule)
        asked = (rule.principal, rule.operation, rule.resource, rule.name)
        await self.until(lambda: not self.table.allows(*asked))

    def shares(self, topic_id, group_id):
        """Return what finds the share partition 0 of a topic at the leader."""
        partition = TopicPartition(TopicId(topic_id), 0)
        leader = next(
            each for each in self.node.roles._services if isinstance(each, ShareLeaderRole)
        )

        def find():
            led = leader._service.partitions.get(partition)
            return None if led is None else led.shares.get(group_id)

        return find

    async def until_still(self, value) -> None:
        """Wait until a value has not changed for a while."""
        last, since = value(), self.clock.now_ms()
        while self.clock.now_ms() - since < STILL_MS:
            await asyncio.sleep(0.005)
            if value() != last:
                last, since = value(), self.clock.now_ms()

    async def until(self, condition) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.001)

    # ---- what exists ----------------------------------------------------------------------------

    async def create_topic(self, name, partitions) -> bytes:
        request = admin_pb2.CreateTopicsRequest()
        request.topics.add(name=name, partitions=partitions)
        [made] = (await self.call(ROOT, methods.CREATE_TOPICS, request)).topics
        assert made.error_code == 0, made
        return made.topic_id

    async def produce(self, topic_id, partition=0, *values) -> None:
        request = record_log_pb2.ProduceRequest()
        part = request.partitions.add(topic_id=topic_id, partition=partition)
        for value in values or (b"v",):
            part.decoded_records.add(value=value)
        [result] = (await self.call(ROOT, methods.PRODUCE, request)).partitions
        assert result.error_code == 0, result

    async def begin_at_earliest(self, group) -> None:
        request = group_coordinator_pb2.AlterGroupConfigsRequest(group_id=group)
        request.configs.add(name="share.auto.offset.reset", value="earliest")
        async with asyncio.timeout(WAIT_S):
            while True:  # until this process coordinates the group
                answer = await self.call(ROOT, methods.ALTER_GROUP_CONFIGS, request)
                if answer.error_code not in COORDINATOR_NOT_HERE_YET:
                    break
        assert answer.error_code == 0, answer

    async def join(self, principal, group, member, *topics):
        """Be a member that has its assignment."""
        request = heartbeat(group, member, *topics)
        async with asyncio.timeout(WAIT_S):
            while True:
                answer = await self.call(principal, methods.SHARE_GROUP_HEARTBEAT, request)
                if answer.assignment.topic_partitions:
                    return answer


def heartbeat(group, member, *topics, epoch=0):
    request = group_coordinator_pb2.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, max_wait_ms=5_000
    )
    if topics:
        request.subscribed_topic_names.names.extend(topics)
    return request


GROUP_RIGHTS = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


@asynccontextmanager
async def running_world():
    async with Mesh(super_users=[ROOT]) as mesh:
        world = World(mesh)
        try:
            yield world
        finally:
            await world.stop()


async def allow_group(world, principal, group) -> None:
    for operation in GROUP_RIGHTS:
        await world.allow(principal, operation, ResourceType.GROUP, group)
