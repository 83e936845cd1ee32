"""The Admin service: offered by every process, whatever its role."""

from random import Random

from sharemesh import methods
from sharemesh.admin.acls import AclAdmin
from sharemesh.admin.configs import ConfigAdmin
from sharemesh.admin.metadata import MetadataHandlers
from sharemesh.admin.nodes import BeginDrain, Draining, api_versions
from sharemesh.admin.topics import TopicAdmin
from sharemesh.authorization.access import Access
from sharemesh.domain.ids import NodeId
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.network import CallContext, Listener
from sharemesh.v1 import admin_pb2 as pb


class AdminService:
    """Reads come from the watched view; writes go to the coordination store, guarded."""

    def __init__(
        self,
        coordination: Coordination,
        view: ClusterView,
        authorizer: Authorizer,
        rng: Random,
        *,
        acls_enabled: bool = False,
        drain: tuple[NodeId, BeginDrain] | None = None,
    ) -> None:
        """Build the service.

        Args:
            coordination: Where writes go.
            view: Where reads come from.
            authorizer: Who may do what.
            rng: Makes topic ids.
            acls_enabled: The authorizer looks at stored rules.
            drain: This node's id and what begins its drain; None: it cannot be drained.
        """
        self._view = view
        access = Access(authorizer)
        self._finding = MetadataHandlers(view, access)
        self._topics = TopicAdmin(coordination, view, access, rng)
        self._configs = ConfigAdmin(coordination, view, access)
        self._acls = AclAdmin(coordination, view, access, enabled=acls_enabled)
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
        listener.offer(methods.DESCRIBE_CONFIGS, self._configs.describe)
        listener.offer(methods.ALTER_CONFIGS, self._configs.alter)
        listener.offer(methods.CREATE_ACLS, self._acls.create)
        listener.offer(methods.DELETE_ACLS, self._acls.delete)
        listener.offer(methods.DESCRIBE_ACLS, self._acls.describe)
        if self._draining is not None:
            listener.offer(methods.DRAIN_NODE, self._draining.drain)

    async def api_versions(
        self, _request: pb.ApiVersionsRequest, _context: CallContext
    ) -> pb.ApiVersionsResponse:
        """Return versions of methods and feature levels; clients ask this first."""
        return api_versions(self._view.share_version())
