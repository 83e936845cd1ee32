"""Everything an elected operator does: the queue, the reconcilers, the clusters' controllers."""

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any

import sharemesh_operator.resources.names as w
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.ports.clock import Clock
from sharemesh.tasks import cancel_and_wait
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh_operator.cluster.cluster_connection import (
    ClusterConnections,
    ClusterConnectionSettings,
)
from sharemesh_operator.cluster.cluster_reconciler import ClusterReconciler
from sharemesh_operator.cluster.group_reconciler import GroupReconciler
from sharemesh_operator.cluster.kube import Kube, KubeError, RetryLaterError
from sharemesh_operator.cluster.operation_reconciler import OperationReconciler
from sharemesh_operator.cluster.reconciler import NamedTenantReconciler, Reconciler
from sharemesh_operator.cluster.status_and_events import Events, StatusWriter
from sharemesh_operator.cluster.topic_reconciler import TopicReconciler
from sharemesh_operator.cluster.user_reconciler import UserReconciler
from sharemesh_operator.cluster.work_queue import Key, WorkQueue, told
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.tenants import awaited_by
from sharemesh_operator.settings import OperatorSettings

GATHER_MS = 300
"""Changes in etcd come in crowds; one round sees them all."""
CLEAN_UP_LIMIT_S = 180
"""Longest time that the deletion of an object waits for its clean-up in the mesh."""

_log = logging.getLogger(__name__)


class Engine:
    """Owns the work of one term as elected operator; runs on one loop."""

    def __init__(
        self,
        kube: Kube,
        settings: OperatorSettings,
        clock: Clock,
        rng: Random,
        on_lease: Callable[[int], None],
        telemetry: Telemetry,
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._events = Events(kube, clock, settings.identity)
        self._writer = StatusWriter(kube, clock)
        self.meshes = ClusterConnections(
            ClusterConnectionSettings(
                settings.identity,
                settings.secrets_directory,
                settings.token_file,
                clock,
                rng,
                frozenset(settings.etcd_addresses),
                on_lease,
                telemetry.spans,
            ),
            self._moved,
        )
        shared = (kube, self.meshes, self._writer, self._events, clock)
        image = settings.image
        self._named: dict[str, NamedTenantReconciler] = {
            each.kind: each(*shared, default_image=image)
            for each in (TopicReconciler, GroupReconciler, UserReconciler)
        }
        self._reconcilers: dict[str, Reconciler] = {
            "ShareCluster": ClusterReconciler(*shared, default_image=image),
            "ShareGroupOperation": OperationReconciler(*shared, default_image=image),
            **self._named,
        }
        self._tenants: dict[Key, str] = {}
        self._names: dict[Key, str] = {}
        self._generations: dict[Key, int] = {}
        work = told(self._work, telemetry, settings.namespace, self._generation_of)
        self.queue = WorkQueue(work, clock)
        self._cleaning_up: set[asyncio.Task[Any]] = set()
        self._over = False

    @property
    def status_writes(self) -> int:
        """How often a status was written."""
        return self._writer.writes

    def start(self) -> None:
        """Begin to work on what is added."""
        self.queue.start()

    async def close(self) -> None:
        """Stop rounds and clean-ups, then resign as controller of each cluster, for ever.

        Nothing that kopf brings afterwards changes anything: another replica may lead.
        """
        self._over = True
        await self.queue.close()
        await cancel_and_wait(*self._cleaning_up)
        await self.meshes.close_all()

    # ---- what happened ---------------------------------------------------------------------------

    def seen(self, kind: str, body: KubeObject, *, gone: bool) -> None:
        """Hear that a custom resource is there, changed, or is gone."""
        if self._over:
            return
        meta = body["metadata"]
        key = Key(kind, meta["name"])
        if kind != "ShareCluster":
            cluster = ((body.get("spec") or {}).get("clusterRef") or {}).get("name", "")
            self._tenants[key] = cluster
        if kind in self._named:
            self._names[key] = self._named[kind].name_of(body)
        self._generations[key] = int(meta.get("generation", 0))
        if kind == "ShareUser":  # its quotas go before those of the cluster (QUO-16)
            self.queue.add(Key("ShareCluster", self._tenants[key]), GATHER_MS)
        if gone:
            self._generations.pop(key)
            self._add_successors(key)
            self._names.pop(key, None)
            self._tenants.pop(key, None)
            self._writer.forget(meta.get("uid", ""))
            if kind != "ShareCluster":
                self.queue.drop(key)
                return
        self.queue.add(key)
        if kind == "ShareCluster":
            self._add_tenants(meta["name"], after_ms=GATHER_MS)

    def owned_seen(self, body: KubeObject) -> None:
        """Hear that an object of a cluster came, changed or went."""
        if self._over:
            return
        cluster = (body["metadata"].get("labels") or {}).get(w.CLUSTER_LABEL)
        if cluster:
            self.queue.add(Key("ShareCluster", cluster), GATHER_MS)

    async def finalize(self, kind: str, body: KubeObject, *, waited_s: float) -> None:
        """Clean up after an object that is being deleted; returns when it may go.

        Raises:
            RetryLaterError: It is to wait and be tried again; never beyond ``CLEAN_UP_LIMIT_S``.
        """
        if self._over:
            raise RetryLaterError("another replica of the operator takes this over")
        task = asyncio.current_task()
        assert task is not None
        self._cleaning_up.add(task)
        try:
            await self._clean_up(kind, body, waited_s)
        finally:
            self._cleaning_up.discard(task)

    # ---- rounds ----------------------------------------------------------------------------------

    async def _clean_up(self, kind: str, body: KubeObject, waited_s: float) -> None:
        body = {**body, "kind": kind}
        try:
            done = await self._finalize(kind, body)
        except (RetryLaterError, KubeError) as error:
            if waited_s < CLEAN_UP_LIMIT_S:
                await self._events.tell(body, "CleanUpWaits", str(error), warning=True)
                raise RetryLaterError(str(error)) from error
            await self._events.tell(
                body,
                "CleanUpGivenUp",
                f"given up after {round(waited_s)} s: {error}; what is left stays in the mesh",
                warning=True,
            )
            return
        await self._events.tell(body, "CleanedUp", done)

    async def _finalize(self, kind: str, body: KubeObject) -> str:
        if kind in self._named:
            return await self._named[kind].finalize(body)
        # A cluster waits for what is to be deleted in it (DEL-2).
        name = body["metadata"]["name"]
        tenants = [each for kind in self._named for each in await self._kube.list(kind)]
        awaited = awaited_by(name, tenants)
        if awaited:
            raise RetryLaterError(f"ShareCluster {name!r} waits for {awaited}")
        await self.meshes.close(name)
        return f"pods of {name!r} go; its data directory and its keys in etcd stay"

    async def _work(self, key: Key) -> int | None:
        return await self._reconcilers[key.kind].reconcile(key.name)

    def _generation_of(self, key: Key) -> int:
        return self._generations.get(key, 0)

    def _moved(self, cluster: str, changes: StateChanges) -> None:
        """Hear from etcd that members, leaders, topics or configs of a cluster changed."""
        self.queue.add(Key("ShareCluster", cluster), GATHER_MS)
        if changes.everything or changes.topics or changes.members or changes.configs:
            self._add_tenants(cluster, after_ms=GATHER_MS)

    def _add_successors(self, gone: Key) -> None:
        """Let those that stand for the same look again: what they found may have gone with it."""
        if gone not in self._names:
            return
        cluster, name = self._tenants[gone], self._names[gone]
        for key, of_key in self._names.items():
            same = (key.kind, self._tenants[key], of_key) == (gone.kind, cluster, name)
            if same and key != gone:
                self.queue.add(key, GATHER_MS)

    def _add_tenants(self, cluster: str, *, after_ms: int) -> None:
        for key, name in self._tenants.items():
            if name == cluster:
                self.queue.add(key, after_ms)
