"""Losses of confirmed records in the logs of coordinator shards (STL-27)."""

from sharemesh.authorization.access import Access
from sharemesh.cluster.store.losses import accept_loss
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.network import CallContext
from sharemesh.v1 import admin_pb2 as pb


class LossAdmin:
    """Answers AcceptLoss."""

    def __init__(self, coordination: Coordination, view: ClusterView, access: Access) -> None:
        self._coordination = coordination
        self._view = view
        self._access = access

    async def accept(
        self, request: pb.AcceptLossRequest, context: CallContext
    ) -> pb.AcceptLossResponse:
        """Let a shard be served from what is left of its log (needs ALTER of the cluster)."""
        try:
            self._access.cluster(context.principal, Operation.ALTER)
            lost = await accept_loss(self._coordination, self._view.cluster_id, request.shard)
        except RefusedError as error:
            return pb.AcceptLossResponse(error_code=error.error, error_message=error.message)
        except CoordinationError as error:
            return pb.AcceptLossResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                error_message=f"{error}; look whether the loss is still shown before you repeat it",
            )
        return pb.AcceptLossResponse(confirmed=lost.confirmed, left=lost.found)
