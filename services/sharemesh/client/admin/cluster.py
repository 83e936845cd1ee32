"""Processes and access rules of the cluster, as an administrator sees them."""

from collections.abc import Sequence

from sharemesh import methods
from sharemesh.client.acls import (
    AclBinding,
    AclBindingFilter,
    binding_of,
    filter_message,
    rule_message,
)
from sharemesh.client.admin.codec import Problem, check, cluster_of
from sharemesh.client.admin.router import AdminConnection
from sharemesh.client.admin_results import ClusterDescription
from sharemesh.client.errors import IllegalArgumentError, optional_error
from sharemesh.v1 import admin_pb2


class ClusterAdministration(AdminConnection):
    """Describes the cluster, drains processes, and keeps access rules."""

    async def describe_cluster(self, *, partitions: bool = False) -> ClusterDescription:
        """Return processes, shards, moves and partitions without a leader; or all partitions."""
        request = admin_pb2.DescribeClusterRequest(partitions=partitions)
        return cluster_of(await self._calls.any(methods.DESCRIBE_CLUSTER, request))

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

    async def create_acls(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, Problem]:
        """Add access rules; those that are there already stay."""
        response = await self._calls.any(
            methods.CREATE_ACLS,
            admin_pb2.CreateAclsRequest(rules=[rule_message(each) for each in bindings]),
        )
        return {
            each: optional_error(found.error_code, found.error_message, about=each.principal)
            for each, found in zip(bindings, response.results, strict=True)
        }

    async def delete_acls(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """Remove the access rules that fit and return them.

        Raises:
            ServiceError: It was refused.
        """
        response = await self._calls.any(
            methods.DELETE_ACLS, admin_pb2.DeleteAclsRequest(filters=[filter_message(wanted)])
        )
        (found,) = response.results
        check(found.error_code, found.error_message, "access rules")
        return [binding_of(each) for each in found.rules]

    async def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return the access rules that fit; None: all.

        Raises:
            ServiceError: It was refused.
        """
        response = await self._calls.any(
            methods.DESCRIBE_ACLS,
            admin_pb2.DescribeAclsRequest(filter=filter_message(wanted or AclBindingFilter())),
        )
        check(response.error_code, response.error_message, "access rules")
        return [binding_of(each) for each in response.rules]
