"""Nodes, their supported versions, their partitions, and draining them."""

from collections.abc import Awaitable, Callable

import sharemesh
from sharemesh.authorization.access import Access
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.methods import METHODS, SHARE_ACKNOWLEDGE, SHARE_FETCH
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.ports.coordination import CoordinationError
from sharemesh.ports.network import CallContext
from sharemesh.v1 import admin_pb2
from sharemesh.v1 import admin_pb2 as pb

BeginDrain = Callable[[], Awaitable[None]]


class Draining:
    """Answers DrainNode.

    Args:
        node_id: This process.
        access: Who may.
        begin: Marks this process as draining and begins to hand over; repeating it is fine.
    """

    def __init__(self, node_id: NodeId, access: Access, begin: BeginDrain) -> None:
        self._node_id = node_id
        self._access = access
        self._begin = begin

    async def drain(
        self, request: pb.DrainNodeRequest, context: CallContext
    ) -> pb.DrainNodeResponse:
        """Begin to hand over all that this process leads (needs ALTER of the cluster)."""
        try:
            self._access.cluster(context.principal, Operation.ALTER)
            if request.node_id != self._node_id:
                raise RefusedError(
                    ErrorCode.INVALID_REQUEST,
                    f"this is node {self._node_id!r}, not {request.node_id!r}; ask the node itself",
                )
            await self._begin()
        except RefusedError as error:
            return pb.DrainNodeResponse(error_code=error.error, error_message=error.message)
        except CoordinationError as error:
            return pb.DrainNodeResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                error_message=f"node {self._node_id!r} cannot be marked as draining: {error}",
            )
        return pb.DrainNodeResponse()


SHARE_VERSION_FEATURE = "share.version"

_MAX_VERSIONS = {SHARE_FETCH.name: 2, SHARE_ACKNOWLEDGE.name: 2}
"""Version 2 brings RENEW and record_limit (spec VER-3); all others are at 1."""


def api_versions(share_version: int) -> admin_pb2.ApiVersionsResponse:
    """Return the versions of every method, and the feature levels in force now."""
    return admin_pb2.ApiVersionsResponse(
        methods=[
            admin_pb2.ApiVersion(
                method=method.name,
                min_version=1,
                max_version=_MAX_VERSIONS.get(method.name, 1),
            )
            for method in METHODS
        ],
        features=[admin_pb2.FeatureLevel(name=SHARE_VERSION_FEATURE, level=share_version)],
        server_version=sharemesh.__version__,
    )


def partition_messages(view: ClusterView, topic: TopicInfo) -> list[admin_pb2.PartitionMetadata]:
    """Return every partition of a topic; one between leaders has LEADER_NOT_AVAILABLE."""
    messages = []
    for number in range(topic.partitions):
        partition = TopicPartition(topic.topic_id, number)
        leader = view.leader(partition)
        if leader is None:
            message = admin_pb2.PartitionMetadata(
                partition=number,
                error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                leader_epoch=-1,
            )
        else:
            message = admin_pb2.PartitionMetadata(
                partition=number,
                leader_id=leader.node.node_id,
                leader_epoch=leader.leader_epoch,
            )
        message.standbys.extend(view.standbys(partition))
        messages.append(message)
    return messages
