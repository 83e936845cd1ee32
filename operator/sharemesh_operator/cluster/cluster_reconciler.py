"""Reconciles ShareClusters: compares spec and objects, applies the next step, writes the status."""

import logging
from collections.abc import Mapping

import sharemesh_operator.resources.names as w
from sharemesh.ports.cluster import Role
from sharemesh_operator.cluster.cluster_connection import ClusterConnection
from sharemesh_operator.cluster.connection_error import ClusterConnectionError
from sharemesh_operator.cluster.quota_keeper import QuotaKeeper
from sharemesh_operator.cluster.reconciler import Reconciler
from sharemesh_operator.resources.cluster_spec import ClusterSpec, cluster_spec
from sharemesh_operator.resources.cluster_status import (
    ClusterSeen,
    by_role,
    conditions,
    status,
    storage_problem,
)
from sharemesh_operator.resources.conditions import Condition, find
from sharemesh_operator.resources.kafka_listener_status import services_without_address
from sharemesh_operator.resources.kafka_problems import kafka_problem
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.problems import Problem
from sharemesh_operator.resources.rollout import PodSeen, Seen, plan, pod_seen, settled
from sharemesh_operator.resources.workloads import key_of, needs_apply, objects_of, surplus

OWNED = ("ConfigMap", "Service", "StatefulSet", "PodDisruptionBudget")
IN_PROGRESS_MS = 2_000
TROUBLED_MS = 5_000
SWEEP_MS = 60_000

_log = logging.getLogger(__name__)


class ClusterReconciler(Reconciler):
    """Makes ShareClusters so; ``reconcile`` may be called at any time and any number of times."""

    async def reconcile(self, name: str) -> int | None:
        """Take the next step of a cluster; return the ms until the next round.

        Raises:
            KubeError: The API server did not do what was asked; try again.
        """
        body = await self._kube.get("ShareCluster", name)
        if body is None:
            await self._meshes.close(name)
            return None
        if "deletionTimestamp" in body["metadata"]:
            return None  # its finalizer sees to the rest
        spec = cluster_spec(body, default_image=self._default_image)
        live = [each for kind in OWNED for each in await self._list(kind, spec)]
        found, mesh = await self._look(spec, live)
        if not spec.hands_off:
            await self._act(body, spec, found, live, mesh)
        keeper = QuotaKeeper(self._kube, self._events)
        quotas = await keeper.keep(body, mesh, hands_off=spec.hands_off)
        said = [*conditions(spec, found), *quotas.conditions]
        await self._tell(body, said)
        left_ms = await self._writer.write(body, status(spec, found) | quotas.status, said)
        again_ms = SWEEP_MS
        if found.plan.progressing:
            again_ms = IN_PROGRESS_MS
        elif found.mesh_problem or found.storage_problem or quotas.pending:
            again_ms = TROUBLED_MS
        return again_ms if left_ms is None else min(again_ms, left_ms)

    async def _list(self, kind: str, spec: ClusterSpec) -> list[KubeObject]:
        return await self._kube.list(kind, w.selector(spec.name))

    async def _look(
        self, spec: ClusterSpec, live: list[KubeObject]
    ) -> tuple[ClusterSeen, ClusterConnection | None]:
        storage = None
        if spec.storage.shared_claim:
            claim = await self._kube.get("PersistentVolumeClaim", spec.storage.shared_claim)
            storage = storage_problem(spec, claim)
        mesh, problem = await self._mesh(spec)
        sets = by_role([each for each in live if each["kind"] == "StatefulSet"])
        now_s = self._clock.wall_ms() // 1_000
        pods = [pod_seen(pod, sets, now_s) for pod in await self._list("Pod", spec)]
        placement = mesh.placement() if mesh else None
        seen = Seen(
            pods=tuple(sorted(filter(None, pods), key=lambda pod: (pod.role, pod.ordinal))),
            replicas={role: each["spec"]["replicas"] for role, each in sets.items()},
            nodes=mesh.nodes() if mesh else None,
            unled=placement.unled if placement else 0,
            settled=settled(sets) and not self._to_be_changed(spec, sets),
        )
        if spec.storage.kafka is not None:
            storage = storage or kafka_problem(seen.pods)
        if mesh is not None:
            storage = storage or mesh.storage_problem
        unbalanced = services_without_address(spec, live)
        found = ClusterSeen(seen, plan(spec, seen), placement, problem, storage, unbalanced)
        return found, mesh

    @staticmethod
    def _to_be_changed(spec: ClusterSpec, sets: Mapping[Role, KubeObject]) -> bool:
        """Return whether templates are about to be written: who is outdated shows only after."""
        now = {role: each["spec"]["replicas"] for role, each in sets.items()}
        counts = {role: max(now.get(role, 0), spec.roles[role].replicas) for role in w.ROLES}
        known = {key_of(each): each for each in sets.values()}
        return not spec.hands_off and any(
            each["kind"] == "StatefulSet" and needs_apply(each, known.get(key_of(each)))
            for each in objects_of(spec, counts)
        )

    async def _mesh(self, spec: ClusterSpec) -> tuple[ClusterConnection | None, Problem | None]:
        try:
            mesh = await self._meshes.get(spec)
        except ClusterConnectionError as error:
            return None, error.problem
        return (mesh, None) if mesh.problem is None else (None, mesh.problem)

    async def _act(
        self,
        body: KubeObject,
        spec: ClusterSpec,
        found: ClusterSeen,
        live: list[KubeObject],
        mesh: ClusterConnection | None,
    ) -> None:
        if found.storage_problem is not None and not found.seen.replicas:
            return  # pods would only fail, or write where they must not
        step = found.plan
        wanted = objects_of(spec, step.replicas)
        known = {key_of(each): each for each in live}
        for each in wanted:
            if needs_apply(each, known.get(key_of(each))):
                await self._kube.apply(each)
                _log.debug("%s %s applied", each["kind"], each["metadata"]["name"])
        for each in surplus(wanted, live, spec.uid):
            meta = each["metadata"]
            await self._kube.delete(each["kind"], meta["name"], uid=meta.get("uid", ""))
        for name in step.drain:
            await self.begin_drain(body, name, mesh)
        for pod in found.seen.pods:
            if pod.name in step.delete:
                await self._restart(body, pod)

    async def _restart(self, body: KubeObject, pod: PodSeen) -> None:
        waited = "" if pod.drain_age_s is None else f" after {pod.drain_age_s} s of hand-over"
        await self._events.tell(body, "PodRestarted", f"{pod.name} is replaced{waited}")
        await self._kube.delete("Pod", pod.name)

    async def _tell(self, body: KubeObject, said: list[Condition]) -> None:
        """Post an Event where Ready is about to change its reason."""
        ready = said[0]
        old = find((body.get("status") or {}).get("conditions") or (), "Ready") or {}
        if old.get("reason") == ready.reason or ready.status is None:
            return
        await self._events.tell(body, ready.reason, ready.message, warning=not ready.status)
