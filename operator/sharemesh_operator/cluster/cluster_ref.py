"""What topics, groups and operations have in common: they belong to a running ShareCluster."""

from dataclasses import dataclass

from sharemesh_operator.cluster.cluster_connection import ClusterConnection, ClusterConnectionError
from sharemesh_operator.cluster.cluster_connections import ClusterConnections
from sharemesh_operator.cluster.cluster_reconciler import ClusterReconciler
from sharemesh_operator.cluster.kube import Kube
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.cluster_status import Problem
from sharemesh_operator.resources.names import KubeObject


class ClusterGoneError(Exception):
    """The ShareCluster is not there (any more)."""


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """The cluster that an object belongs to, connected."""

    spec: ClusterSpec
    mesh: ClusterConnection


class ClusterResolver:
    """Finds the cluster of an object."""

    def __init__(self, kube: Kube, meshes: ClusterConnections, clusters: ClusterReconciler) -> None:
        self._kube = kube
        self._meshes = meshes
        self._clusters = clusters

    async def home(self, body: KubeObject) -> ClusterRef:
        """Return the running cluster that an object names.

        Raises:
            ClusterGoneError: There is no such ShareCluster.
            ClusterConnectionError: It cannot be reached now.
        """
        name = body["spec"]["clusterRef"]["name"]
        found = await self._kube.get("ShareCluster", name)
        if found is None:
            raise ClusterGoneError(name)
        spec = self._clusters.spec_of(found)
        return ClusterRef(spec, await self._meshes.get(spec))


def cluster_not_found(name: str, namespace: str) -> Problem:
    """Return what to say of an object whose cluster is not there."""
    return Problem(
        "ClusterNotFound",
        f"there is no ShareCluster {name!r} in namespace {namespace!r}; create it, or correct "
        "clusterRef",
    )


def problem_of(error: Exception, body: KubeObject) -> Problem:
    """Return in words what kept an object from its cluster."""
    if isinstance(error, ClusterGoneError):
        return cluster_not_found(body["spec"]["clusterRef"]["name"], body["metadata"]["namespace"])
    if isinstance(error, ClusterConnectionError):
        return error.problem
    return Problem("ClusterNotReady", f"the cluster did not answer: {error}")
