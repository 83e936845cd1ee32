"""What every process answers: the Admin service, from its watched view."""

from sharemesh.admin.nodes import BeginDrain
from sharemesh.admin.service import AdminService
from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.network import Listener
from sharemesh.serve.process_context import ProcessContext


class AdminRole:
    """Fills ``RoleService`` for what all roles share."""

    def __init__(self, around: ProcessContext, begin_drain: BeginDrain) -> None:
        self._admin = AdminService(
            around.coordination,
            around.view,
            around.authorizer,
            around.rng,
            acls_enabled=around.settings.authorizer == "acl",
            drain=(around.node_id, begin_drain),
        )

    def offer(self, listener: Listener) -> None:
        """Offer ``Admin``."""
        self._admin.offer(listener)

    async def start(self, member: ClusterMember) -> None:
        """Nothing to start: the view follows by itself."""

    async def drain(self) -> None:
        """Nothing to hand over."""

    async def close(self) -> None:
        """Nothing to end."""
