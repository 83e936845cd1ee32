"""Draining the process that is asked: its operator wants to restart or remove it."""

from collections.abc import Awaitable, Callable

from sharemesh.admin.access import AdminAccess
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import NodeId
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.coordination import CoordinationError
from sharemesh.ports.network import CallContext
from sharemesh.v1 import admin_pb2 as pb

BeginDrain = Callable[[], Awaitable[None]]


class Draining:
    """Answers DrainNode.

    Args:
        node_id: This process.
        access: Who may.
        begin: Marks this process as draining and begins to hand over; repeating it is fine.
    """

    def __init__(self, node_id: NodeId, access: AdminAccess, begin: BeginDrain) -> None:
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
