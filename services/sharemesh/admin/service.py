"""The Admin service: offered by every process, whatever its role."""

from collections.abc import Awaitable, Callable

import sharemesh
from sharemesh import methods
from sharemesh.admin.acls import AclAdmin
from sharemesh.admin.configs import ConfigAdmin
from sharemesh.admin.losses import LossAdmin
from sharemesh.admin.metadata import MetadataHandlers
from sharemesh.admin.quotas import QuotaAdmin
from sharemesh.admin.topic_stores import TopicStore
from sharemesh.admin.topics import TopicAdmin
from sharemesh.admin.users import UserAdmin
from sharemesh.authorization.access import Access
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import NodeId
from sharemesh.methods import METHODS, SHARE_ACKNOWLEDGE, SHARE_FETCH
from sharemesh.ports.authorizer import Authorizer, Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.network import CallContext, Listener
from sharemesh.v1 import admin_pb2 as pb

SHARE_VERSION_FEATURE = "share.version"
BeginDrain = Callable[[], Awaitable[None]]

_MAX_VERSIONS = {SHARE_FETCH.name: 2, SHARE_ACKNOWLEDGE.name: 2}
"""Version 2 brings RENEW and record_limit (spec VER-3); all others are at 1."""


class AdminService:
    """Reads come from the watched view; writes go to the coordination store, guarded."""

    def __init__(
        self,
        coordination: Coordination,
        view: ClusterView,
        authorizer: Authorizer,
        topics: TopicStore,
        clock: Clock,
        *,
        acls_enabled: bool = False,
        drain: tuple[NodeId, BeginDrain] | None = None,
    ) -> None:
        """Build the service.

        Args:
            coordination: Where writes go.
            view: Where reads come from.
            authorizer: Who may do what.
            topics: Where topics are kept.
            clock: Ends turns of the loop (BND-20).
            acls_enabled: The authorizer reads stored rules.
            drain: This node's id and what begins its drain; None: it cannot be drained.
        """
        self._view = view
        access = Access(authorizer)
        self._finding = MetadataHandlers(view, access, clock)
        self._topics = TopicAdmin(topics, view, access)
        self._configs = ConfigAdmin(coordination, view, access, topics, clock)
        self._acls = AclAdmin(coordination, view, access, enabled=acls_enabled)
        self._quotas = QuotaAdmin(coordination, view, access, clock)
        self._users = UserAdmin(coordination, view, access)
        self._losses = LossAdmin(coordination, view, access)
        self._draining = None if drain is None else Draining(drain[0], access, drain[1])

    def offer(self, listener: Listener) -> None:
        """Offer the methods of ``Admin``."""
        listener.offer(methods.API_VERSIONS, self.api_versions)
        listener.offer(methods.METADATA, self._finding.metadata)
        listener.offer(methods.FIND_COORDINATOR, self._finding.find_coordinator)
        listener.offer(methods.DESCRIBE_TOPICS, self._finding.describe_topics)
        listener.offer(methods.DESCRIBE_CLUSTER, self._finding.describe_cluster)
        listener.offer(methods.CREATE_TOPICS, self._topics.create)
        listener.offer(methods.CREATE_PARTITIONS, self._topics.add_partitions)
        listener.offer(methods.DELETE_TOPICS, self._topics.delete)
        listener.offer(methods.ATTACH_TOPICS, self._topics.attach)
        listener.offer(methods.DETACH_TOPICS, self._topics.detach)
        listener.offer(methods.DESCRIBE_CONFIGS, self._configs.describe)
        listener.offer(methods.ALTER_CONFIGS, self._configs.alter)
        listener.offer(methods.CREATE_ACLS, self._acls.create)
        listener.offer(methods.DELETE_ACLS, self._acls.delete)
        listener.offer(methods.DESCRIBE_ACLS, self._acls.describe)
        listener.offer(methods.ALTER_CLIENT_QUOTAS, self._quotas.alter)
        listener.offer(methods.DESCRIBE_CLIENT_QUOTAS, self._quotas.describe)
        listener.offer(methods.ALTER_USER_SCRAM_CREDENTIALS, self._users.alter)
        listener.offer(methods.DESCRIBE_USER_SCRAM_CREDENTIALS, self._users.describe)
        listener.offer(methods.ACCEPT_LOSS, self._losses.accept)
        if self._draining is not None:
            listener.offer(methods.DRAIN_NODE, self._draining.drain)

    async def api_versions(
        self, _request: pb.ApiVersionsRequest, _context: CallContext
    ) -> pb.ApiVersionsResponse:
        """Return versions of methods and feature levels; clients ask this first."""
        return _api_versions(self._view.share_version())


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
                raise invalid_request(
                    f"this is node {self._node_id!r}, not {request.node_id!r}; ask the node itself"
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


def _api_versions(share_version: int) -> pb.ApiVersionsResponse:
    """Return the versions of every method, and the feature levels in force now."""
    return pb.ApiVersionsResponse(
        methods=[
            pb.ApiVersion(
                method=method.name,
                min_version=1,
                max_version=_MAX_VERSIONS.get(method.name, 1),
            )
            for method in METHODS
        ],
        features=[pb.FeatureLevel(name=SHARE_VERSION_FEATURE, level=share_version)],
        server_version=sharemesh.__version__,
    )
