"""The common steps of a reconciliation round, with hooks for what differs by kind.

A round of a topic, group or operation reads the object, connects to its ShareCluster, lets the
subclass bring the mesh to what the object says, and writes conditions and status.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import sharemesh_operator.resources.names as w
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.errors import ConnectionFailedError, SharemeshError
from sharemesh.ports.clock import Clock
from sharemesh_operator.cluster.cluster_connection import ClusterConnection, ClusterConnections
from sharemesh_operator.cluster.connection_error import ClusterConnectionError
from sharemesh_operator.cluster.kube import Kube, RetryLaterError
from sharemesh_operator.cluster.status_and_events import Events, StatusWriter
from sharemesh_operator.resources.cluster_spec import ClusterSpec, cluster_spec
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.problems import REFUSED, Problem, problem
from sharemesh_operator.resources.tenants import (
    cluster_of,
    deletes,
    is_deleted,
    rival_of,
)


class ClusterGoneError(ClusterConnectionError):
    """The ShareCluster is not there (any more)."""


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """The cluster that an object belongs to, connected."""

    spec: ClusterSpec
    mesh: ClusterConnection


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round says of an object; the first condition is the summary."""

    conditions: Sequence[Condition]
    status: KubeObject
    """But for conditions and observedGeneration; what it does not name stays as it was."""


class Reconciler(ABC):
    """Rounds of one kind of object. A round may be run at any time and any number of times."""

    def __init__(
        self,
        kube: Kube,
        meshes: ClusterConnections,
        writer: StatusWriter,
        events: Events,
        clock: Clock,
        *,
        default_image: str,
    ) -> None:
        self._kube = kube
        self._meshes = meshes
        self._writer = writer
        self._events = events
        self._clock = clock
        self._default_image = default_image

    @abstractmethod
    async def reconcile(self, name: str) -> int | None:
        """Run a round of one object; return the milliseconds to its next one.

        Raises:
            KubeError: The API server did not do what was asked; try again.
        """

    async def begin_drain(
        self, body: KubeObject, name: str, mesh: ClusterConnection | None, *, held: str = ""
    ) -> None:
        """Start the drain of a pod; idempotent.

        The annotation comes first: an operator that takes over in between resumes from it. A pod
        that does not answer is not waited for longer than its drain time-out.
        """
        if mesh is None:
            return
        notes = {w.DRAIN_ANNOTATION: str(self._clock.wall_ms() // 1_000)}
        if held:
            notes[w.HELD_ANNOTATION] = held
        await self._kube.patch("Pod", name, {"metadata": {"annotations": notes}})
        await self._events.tell(body, "PodDraining", f"{name} hands over what it leads")
        try:
            admin = await mesh.admin()
            await admin.drain_node(name)
        except (SharemeshError, ClusterConnectionError, ValueError) as error:
            await self._events.tell(
                body, "DrainNotBegun", f"{name} was not told to hand over: {error}", warning=True
            )


class TenantReconciler(Reconciler):
    """Rounds of one kind of object that belongs to a ShareCluster."""

    kind: ClassVar[str]
    summary: ClassVar[str] = "Ready"
    """The condition that sums up the others."""
    retry_ms: ClassVar[int] = 3_000
    sweep_ms: ClassVar[int] = 60_000
    """Time to the next round of an object that is as it should be: somebody may change the mesh."""

    async def reconcile(self, name: str) -> int | None:
        """Bring the mesh to what one object says; return the milliseconds to its next round."""
        body = await self._kube.get(self.kind, name)
        if body is None or is_deleted(body):
            return None
        return await self.round(body)

    async def round(self, body: KubeObject) -> int | None:
        """Run a round of an object that is there and stays."""
        outcome = await self._outcome(body)
        said = outcome.conditions[0]
        await self.announce(body, said)
        status = {"observedGeneration": body["metadata"].get("generation", 0), **outcome.status}
        left_ms = await self._writer.write(body, status, outcome.conditions)
        again_ms = self.sweep_ms if said.status else self.retry_ms
        return again_ms if left_ms is None else min(again_ms, left_ms)

    async def blocked(self, body: KubeObject) -> Condition | None:  # noqa: ARG002
        """Return why the cluster is not even asked, if there is a reason."""
        return None

    @abstractmethod
    async def bring(self, home: ClusterRef, body: KubeObject) -> Outcome:
        """Bring the mesh to what the object says and describe what is there then.

        Raises:
            ClusterConnectionError: No process of the cluster runs.
            SharemeshError: The cluster did not answer, or refused.
        """

    def known(self, body: KubeObject) -> KubeObject:  # noqa: ARG002
        """Return the part of the status that needs no answer of the cluster."""
        return {}

    def troubled(self, body: KubeObject, problem: Problem) -> Outcome:
        """Return what to say where the cluster was not reached or refused."""
        return Outcome([problem.condition(self.summary)], self.known(body))

    async def announce(self, body: KubeObject, said: Condition) -> None:
        """Post an Event where the summary says that something is wrong."""
        if said.status is False:
            await self._events.tell(body, said.reason, said.message, warning=True)

    async def _home(self, body: KubeObject) -> ClusterRef:
        name, namespace = cluster_of(body), body["metadata"]["namespace"]
        found = await self._kube.get("ShareCluster", name)
        if found is None:
            raise ClusterGoneError("ClusterNotFound", name=name, namespace=namespace)
        spec = cluster_spec(found, default_image=self._default_image)
        return ClusterRef(spec, await self._meshes.get(spec))

    async def _outcome(self, body: KubeObject) -> Outcome:
        reason = await self.blocked(body)
        if reason is not None:
            return Outcome([reason], self.known(body))
        try:
            return await self.bring(await self._home(body), body)
        except ClusterConnectionError as error:
            met = error.problem
        except SharemeshError as error:
            passes = isinstance(error, ConnectionFailedError) or getattr(error, "retriable", False)
            met = problem("ClusterNotReady" if passes else REFUSED, why=error)
        return self.troubled(body, met)


class NamedTenantReconciler(TenantReconciler):
    """Rounds and deletions of objects that stand for something of the mesh that has a name."""

    noun: ClassVar[str]
    content: ClassVar[str]
    """What is deleted with it in the mesh."""

    @staticmethod
    @abstractmethod
    def name_of(body: KubeObject) -> str:
        """Return the name in the mesh of what an object stands for."""

    @staticmethod
    @abstractmethod
    def taken(body: KubeObject, rival: str) -> Condition:
        """Return what to say where an older object stands for the same."""

    @abstractmethod
    async def delete(self, admin: AsyncAdminClient, body: KubeObject) -> None:
        """Delete from the mesh what an object stands for; one that is gone is fine.

        Raises:
            SharemeshError: It could not be deleted.
        """

    def kept_by(self, spec: ClusterSpec) -> str:  # noqa: ARG002
        """Return why a cluster's policy of deletion does not count; empty: it does."""
        return ""

    async def blocked(self, body: KubeObject) -> Condition | None:
        """Return the condition of an object whose name in the mesh is taken."""
        rival = await self._rival(body)
        return self.taken(body, rival) if rival else None

    async def finalize(self, body: KubeObject) -> str:
        """Do what the deletion policy says; return what was done.

        Raises:
            RetryLaterError: It cannot be done now; try again.
        """
        name = f"{self.noun} {self.name_of(body)!r}"
        if not deletes(body):
            return f"{name} and its {self.content} are kept"
        if await self._rival(body):
            return f"{name} is kept: another {self.kind} stands for it"
        try:
            home = await self._home(body)
            if kept := self.kept_by(home.spec):
                return f"{name} is kept: {kept}"
            await self.delete(await home.mesh.admin(), body)
        except ClusterGoneError:
            return f"{name} is left to the data of its cluster, which is gone"
        except (ClusterConnectionError, SharemeshError) as error:
            raise RetryLaterError(f"{name} cannot be deleted yet: {error}") from error
        return f"{name} and its {self.content} are deleted"

    async def _rival(self, body: KubeObject) -> str:
        return rival_of(body, await self._kube.list(self.kind), self.name_of)
