"""The part of the admin client that is about the cluster's processes."""

from abc import ABC, abstractmethod

from sharemesh import methods
from sharemesh.client.admin.codec import check
from sharemesh.client.admin.router import AdminRouter
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.v1 import admin_pb2


class AsyncNodes(ABC):
    """Drains processes; ``AsyncAdminClient`` is one."""

    @property
    @abstractmethod
    def _calls(self) -> AdminRouter:
        """The admin client's connections."""

    async def drain_node(self, node_id: str) -> None:
        """Let a process begin to hand over all it leads; ``describe_cluster`` tells what is left.

        It goes on running, leads nothing more, and takes part again after a restart.

        Raises:
            IllegalArgumentError: There is no such process.
            ServiceError: It was refused.
            ConnectionFailedError: The process did not answer.
        """
        found = await self._calls.any(methods.DESCRIBE_CLUSTER, admin_pb2.DescribeClusterRequest())
        nodes = {each.node.node_id: each.node for each in found.members}
        node = nodes.get(node_id)
        if node is None:
            known = ", ".join(sorted(nodes)) or "none"
            raise IllegalArgumentError(f"no node {node_id!r} in the cluster; there are: {known}")
        response = await self._calls.at(
            f"{node.host}:{node.port}",
            methods.DRAIN_NODE,
            admin_pb2.DrainNodeRequest(node_id=node_id),
        )
        check(response.error_code, response.error_message, about=f"node {node_id}")
