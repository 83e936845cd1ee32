"""The operator from its start to its end: stand for election, lead, hand over."""

import asyncio
import logging
import random
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.coordination import CoordinationError, Session, SessionLostError
from sharemesh.serve.process.telemetry_export import TelemetryExport
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh_operator.cluster.credentials import ApiServer, find_api_server
from sharemesh_operator.cluster.engine import Engine
from sharemesh_operator.cluster.kube import Kube, KubeError
from sharemesh_operator.election_store import connect_election_store
from sharemesh_operator.handlers import CUSTOM, Handlers
from sharemesh_operator.health_pages import HealthPages, Standing
from sharemesh_operator.kopf_thread import KopfThread
from sharemesh_operator.settings import OperatorSettings

RETRY_MS = 500
CRD_WAIT_MS = 2_000
STEP_DOWN_LIMIT_S = 5.0
NO_PORT = -1
"""For metrics: they stand on the operator's own page."""

_log = logging.getLogger(__name__)


class OperatorProcess:
    """One of the operator's replicas. ``run`` returns after ``stop``."""

    def __init__(
        self,
        settings: OperatorSettings,
        environment: Mapping[str, str],
        on_lease: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Make one; ``on_lease`` is told each lease in the election's etcd before it is used."""
        self._settings = settings
        self._environment = environment
        self._on_lease = on_lease
        self._clock = SystemClock()
        self._rng = random.SystemRandom()
        self._stop = asyncio.Event()
        self._engine: Engine | None = None
        self._kube: Kube | None = None
        self._standing = Standing.STARTING
        self._exporting = TelemetryExport(
            ServeSettings(
                cluster_id=settings.namespace,
                metrics_port=NO_PORT,
                telemetry_endpoint=settings.telemetry_endpoint,
            ),
            settings.identity,
            self._clock,
            component="operator",
        )
        registry = self._exporting.telemetry.registry
        self.pages = HealthPages(self.standing, self.figures, registry)

    def standing(self) -> Standing:
        """Return how this replica stands."""
        return self._standing

    def figures(self) -> dict[str, float]:
        """Return what the metrics page shows, by name."""
        engine, kube = self._engine, self._kube
        return {
            "sharemesh_operator_leader": float(self._standing is Standing.LEADING),
            "sharemesh_operator_rounds_total": engine.queue.rounds if engine else 0,
            "sharemesh_operator_failed_rounds_total": engine.queue.failures if engine else 0,
            "sharemesh_operator_clusters": engine.meshes.joined if engine else 0,
            "sharemesh_operator_clusters_placed": engine.meshes.placed if engine else 0,
            "sharemesh_operator_status_writes_total": engine.status_writes if engine else 0,
            "sharemesh_operator_denied_requests_total": kube.denied if kube else 0,
        }

    def stop(self) -> None:
        """Ask it to hand over and end."""
        self._stop.set()

    async def run(self) -> None:
        """Stand for election and lead until told to stop.

        Raises:
            CredentialsError: There is no way to the API server.
            OSError: A port cannot be listened on.
        """
        settings = self._settings
        async with AsyncExitStack() as stack:
            await self._exporting.start()
            stack.push_async_callback(self._exporting.close)
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="sharemesh-operator"))
            server = find_api_server(settings.kubeconfig, self._environment, Path(scratch))
            await self.pages.start(
                settings.listen_host, settings.health_port, settings.metrics_port
            )
            stack.push_async_callback(self.pages.close)
            etcd = connect_election_store(settings, self._clock, self._rng)
            stack.push_async_callback(etcd.close)
            kube = self._kube = await stack.enter_async_context(Kube(server, settings.namespace))
            campaign = asyncio.create_task(self._campaign(etcd, kube, server), name="campaign")
            told = asyncio.create_task(self._stop.wait(), name="told to stop")
            try:
                await asyncio.wait({campaign, told}, return_when=asyncio.FIRST_COMPLETED)
                _log.info("stopping", extra={"identity": settings.identity})
            finally:
                for task in (campaign, told):
                    task.cancel()
                ended = await asyncio.gather(campaign, return_exceptions=True)
                self._standing = Standing.ENDED
            if isinstance(ended[0], Exception):
                raise ended[0]

    async def _campaign(self, etcd: EtcdCoordination, kube: Kube, server: ApiServer) -> None:
        settings = self._settings
        election = f"{settings.etcd_prefix}/election/{settings.namespace}"
        told: Exception | None = None
        while True:
            try:
                session = await etcd.open_session(ttl_ms=settings.session_ttl_ms)
                told = None
                self._on_lease(session.lease_id)
                try:
                    self._standing = Standing.STANDING_BY
                    won = await etcd.campaign(election, settings.identity.encode(), session)
                    _log.info("elected", extra={"identity": settings.identity, "token": won.token})
                    await self._while_valid(session, self._lead(kube, server))
                finally:
                    self._standing = Standing.STANDING_BY
                    await session.close()  # the next one is elected at once
            except (CoordinationError, SessionLostError, KubeError) as error:
                if type(error) is not type(told):  # each kind of trouble is said once
                    _log.warning("not leading: %s", error)
                told = error
                if not isinstance(error, KubeError):
                    self._standing = Standing.WITHOUT_ETCD
                await self._clock.sleep_ms(RETRY_MS)

    async def _while_valid(self, session: Session, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` as long as the session is valid; it ends before the session is given up."""
        leading = asyncio.create_task(work, name="leading")
        lost = asyncio.create_task(session.lost(), name="session")
        try:
            await asyncio.wait({leading, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
            if not leading.done():
                leading.cancel()
            await asyncio.wait({leading}, timeout=STEP_DOWN_LIMIT_S)
        if leading.done() and not leading.cancelled():
            leading.result()

    async def _lead(self, kube: Kube, server: ApiServer) -> None:
        await self._until_served(kube)
        telemetry = self._exporting.telemetry
        engine = self._engine = Engine(
            kube, self._settings, self._clock, self._rng, self._on_lease, telemetry
        )
        handlers = Handlers(engine, server, asyncio.get_running_loop())
        watching = KopfThread(handlers, self._settings.namespace, self._settings.identity)
        engine.start()
        watching.start()
        self._standing = Standing.LEADING
        _log.info("leading", extra={"identity": self._settings.identity})
        try:
            why = await asyncio.shield(watching.ended)
            _log.error("the watch ended: %s", why)
        finally:
            self._standing = Standing.STANDING_BY
            await asyncio.gather(engine.close(), watching.stop())

    async def _until_served(self, kube: Kube) -> None:
        """Wait for the custom resource definitions: kopf would never see later ones."""
        told = False
        while not await kube.served(tuple(CUSTOM)):
            if not told:
                _log.warning("waiting for custom resource definitions: install sharemesh-crds")
                told = True
            await self._clock.sleep_ms(CRD_WAIT_MS)
