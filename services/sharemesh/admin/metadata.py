"""Metadata, coordinators and the state of the cluster: answers from the watched view."""

from collections import Counter
from collections.abc import Iterable

from sharemesh.admin.leader_news import MAX_OF_A_REQUEST, LeaderNews
from sharemesh.authorization.access import Access
from sharemesh.authorization.slices import UNITS_OF_A_SLICE, Slices
from sharemesh.cluster.membership import node_message
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import (
    GroupId,
    NodeId,
    TopicId,
    TopicPartition,
    check_group_is_named,
    parse_key,
)
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import (
    ClusterView,
    NodeInfo,
    Role,
    ShardKind,
    ShardLeader,
    TopicInfo,
)
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb

MAX_NAMES = 10_000
"""Topics or coordinator keys that one request may name."""

_ROLE = {ShardKind.GROUP: Role.GROUP_COORDINATOR, ShardKind.STATE: Role.SHARE_COORDINATOR}

MAX_WAIT_MS = 2_000
"""Longest wait of a metadata request for a new leader."""

UNKNOWN_OF_A_SLICE = 250
"""Awaited partitions of no topic that are passed over in a turn of the loop: some 75 us."""

MAX_AWAITED = 1_000
"""Partitions whose new leader one metadata request may name; it waits for fewer (BND-22)."""


class MetadataHandlers:
    """Where things are. Nothing here changes anything."""

    def __init__(self, view: ClusterView, access: Access, clock: Clock) -> None:
        self._view = view
        self._access = access
        self._clock = clock
        self._news = LeaderNews(view)

    async def metadata(
        self, request: pb.MetadataRequest, context: CallContext
    ) -> pb.MetadataResponse:
        """Return nodes, and topics with their leaders (absent ``topics``: all that may be seen).

        With ``awaited`` the answer waits, for up to ``max_wait_ms``, until one of these
        partitions is led in a higher leader epoch.
        """
        await self._new_leader(request, context)
        controller = self._view.controller()
        response = pb.MetadataResponse(
            cluster_id=self._view.cluster_id,
            controller_id=controller.node_id if controller else "",
            nodes=[node_message(node) for node in self._view.nodes()],
        )
        slices = Slices(self._clock, context.principal)
        if not request.HasField("topics"):
            for topic in await self._seen(context, slices):
                response.topics.append(await self._topic_metadata(topic, slices))
            return response
        for name in _bounded(request.topics.names):
            await slices.spend()
            try:
                topic = self.known_topic(name, context)
            except RefusedError as error:
                response.topics.add(name=name, error_code=error.error, error_message=error.message)
            else:
                response.topics.append(await self._topic_metadata(topic, slices))
        return response

    async def _new_leader(self, request: pb.MetadataRequest, context: CallContext) -> None:
        wait_ms = min(request.max_wait_ms, MAX_WAIT_MS)
        if not request.awaited or wait_ms <= 0:
            return
        if len(request.awaited) > MAX_AWAITED:
            raise CallFailedError(
                Failure.INVALID_ARGUMENT,
                f"{len(request.awaited)} leaders awaited in one request; await at most "
                f"{MAX_AWAITED}",
            )
        slices = Slices(self._clock, context.principal)
        awaited: dict[TopicPartition, int] = {}
        unknown = 0
        for each in request.awaited:
            if self._view.topic(TopicId(each.topic_id)) is None:
                unknown += 1  # costs little, and most of a hostile request are of these
                if unknown % UNKNOWN_OF_A_SLICE == 0:
                    await slices.spend(UNITS_OF_A_SLICE)
                continue
            await slices.spend()
            partition = TopicPartition(TopicId(each.topic_id), each.partition)
            if self._may_see(partition, context):
                awaited[partition] = each.above_leader_epoch
                if len(awaited) == MAX_OF_A_REQUEST:
                    break
        await self._news.wait(
            awaited, lambda each: self._may_see(each, context), timeout_ms=wait_ms
        )

    async def describe_topics(
        self, request: pb.DescribeTopicsRequest, context: CallContext
    ) -> pb.DescribeTopicsResponse:
        """Return topics with leaders and their own settings (no names: all that may be seen)."""
        response = pb.DescribeTopicsResponse()
        slices = Slices(self._clock, context.principal)
        seen = [] if request.names else await self._seen(context, slices)
        for name in _bounded(request.names) or [topic.name for topic in seen]:
            await slices.spend()
            try:
                topic = self.known_topic(name, context)
            except RefusedError as error:
                response.topics.add(name=name, error_code=error.error, error_message=error.message)
            else:
                response.topics.add(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=await _partition_messages(self._view, topic, slices),
                    configs=dict(topic.configs),
                )
        return response

    async def find_coordinator(
        self, request: pb.FindCoordinatorRequest, context: CallContext
    ) -> pb.FindCoordinatorResponse:
        """Return who coordinates groups, or share partitions (``group:topicId:partition``)."""
        find = (
            self._share_coordinator
            if request.key_type == pb.COORDINATOR_KEY_TYPE_SHARE
            else self._group_coordinator
        )
        response = pb.FindCoordinatorResponse()
        slices = Slices(self._clock, context.principal)
        for key in _bounded(request.keys):
            await slices.spend()
            try:
                shard, node = find(key, context)
            except RefusedError as error:
                response.coordinators.add(
                    key=key, error_code=error.error, error_message=error.message, shard=-1
                )
                continue
            if node is None:
                response.coordinators.add(
                    key=key,
                    error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    error_message=f"shard {shard} is between coordinators; ask again",
                    shard=shard,
                )
            else:
                response.coordinators.add(key=key, node=node_message(node), shard=shard)
        return response

    async def describe_cluster(
        self, request: pb.DescribeClusterRequest, context: CallContext
    ) -> pb.DescribeClusterResponse:
        """Return members, shards, what moves, and what nobody leads, with the reason.

        With ``partitions``, every partition with its leader, epoch and standbys too.
        """
        try:
            self._access.cluster(context.principal, Operation.DESCRIBE)
        except RefusedError as error:
            raise CallFailedError(Failure.PERMISSION_DENIED, error.message) from error
        view = self._view
        controller = view.controller()
        slices = Slices(self._clock, context.principal)
        led = await self._led(slices)
        return pb.DescribeClusterResponse(
            cluster_id=view.cluster_id,
            controller_id=controller.node_id if controller else "",
            members=[
                pb.ClusterMember(
                    node=node_message(node),
                    version=node.version,
                    draining=node.draining,
                    led_partitions=led[node.node_id],
                    pid=node.pid,
                )
                for node in view.nodes()
            ],
            shards=[
                pb.ShardState(
                    election=shard.election,
                    leader_id=shard.node.node_id if shard.node else "",
                    epoch=shard.epoch,
                    reason=self._why_unled(shard),
                )
                for shard in view.shards()
            ],
            storage_problems=view.storage_problems(),
            unassigned=[
                pb.UnassignedPartition(
                    topic_name=gap.topic.name, partition=gap.partition, reason=gap.reason
                )
                for gap in view.unassigned()
            ],
            moves=[
                pb.PartitionMove(
                    topic_name=move.topic.name,
                    partition=move.partition,
                    from_node_id=move.from_node,
                    to_node_id=move.to_node,
                    leader_epoch=move.leader_epoch,
                )
                for move in view.moves()
            ],
            partitions=[
                pb.LedPartition(topic_name=topic.name, partition=each)
                for topic in (view.topics() if request.partitions else ())
                for each in await _partition_messages(view, topic, slices)
            ],
        )

    def _why_unled(self, shard: ShardLeader) -> str:
        if shard.loss:
            return shard.loss
        if shard.node is not None:
            return ""
        if shard.damage:
            return shard.damage
        role = _ROLE[shard.kind]
        able = [node for node in self._view.nodes() if role in node.roles]
        if not able:
            return f"no {role} process is registered; start one"
        if all(node.draining for node in able):
            return f"every {role} process is draining; start another one"
        return "it is being elected, or its log loads"

    def known_topic(self, name: str, context: CallContext) -> TopicInfo:
        """Return a topic.

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._access.topic(context.principal, Operation.DESCRIBE, name)
        topic = self._view.topic_named(name)
        if topic is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name[:100]!r} does not exist; create it or correct the name",
            )
        return topic

    async def _seen(self, context: CallContext, slices: Slices) -> list[TopicInfo]:
        seen: list[TopicInfo] = []
        for topic in self._view.topics():
            await slices.spend()
            if self._may_describe(topic, context):
                seen.append(topic)
        return seen

    def _may_see(self, partition: TopicPartition, context: CallContext) -> bool:
        """Return whether the caller may see the leader of a partition, and so may wait for it."""
        topic = self._view.topic(partition.topic_id)
        return (
            topic is not None
            and 0 <= partition.partition < topic.partitions
            and self._may_describe(topic, context)
        )

    def _may_describe(self, topic: TopicInfo, context: CallContext) -> bool:
        return self._access.may(
            context.principal, Operation.DESCRIBE, ResourceType.TOPIC, topic.name
        )

    async def _topic_metadata(self, topic: TopicInfo, slices: Slices) -> pb.TopicMetadata:
        return pb.TopicMetadata(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=await _partition_messages(self._view, topic, slices),
        )

    def _group_coordinator(self, key: str, context: CallContext) -> tuple[int, NodeInfo | None]:
        check_group_is_named(key)
        self._access.group(context.principal, Operation.DESCRIBE, key)
        shard = self._view.group_shard(GroupId(key))
        return shard, self._view.group_coordinator(shard)

    def _share_coordinator(self, key: str, context: CallContext) -> tuple[int, NodeInfo | None]:
        self._access.cluster(context.principal, Operation.CLUSTER_ACTION)
        shard = self._view.share_shard(parse_key(key))
        return shard, self._view.share_coordinator(shard)

    async def _led(self, slices: Slices) -> Counter[NodeId]:
        led: Counter[NodeId] = Counter()
        for topic in self._view.topics():
            for number in range(topic.partitions):
                await slices.spend()
                leader = self._view.leader(TopicPartition(topic.topic_id, number))
                if leader is not None:
                    led[leader.node.node_id] += 1
        return led


def _bounded(names: Iterable[str]) -> list[str]:
    listed = list(dict.fromkeys(names))
    if len(listed) > MAX_NAMES:
        raise CallFailedError(
            Failure.INVALID_ARGUMENT,
            f"{len(listed)} names in one request; ask for at most {MAX_NAMES} at once",
        )
    return listed


async def _partition_messages(
    view: ClusterView, topic: TopicInfo, slices: Slices
) -> list[pb.PartitionMetadata]:
    """Return every partition of a topic; one between leaders has LEADER_NOT_AVAILABLE."""
    messages = []
    for number in range(topic.partitions):
        await slices.spend()
        partition = TopicPartition(topic.topic_id, number)
        leader = view.leader(partition)
        if leader is None:
            message = pb.PartitionMetadata(
                partition=number,
                error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                leader_epoch=-1,
            )
        else:
            message = pb.PartitionMetadata(
                partition=number,
                leader_id=leader.node.node_id,
                leader_epoch=leader.leader_epoch,
            )
        message.standbys.extend(view.standbys(partition))
        messages.append(message)
    return messages
