"""The operator from its start to its end: stand for election, lead, hand over."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from enum import StrEnum
from functools import partial
from typing import Any

from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.coordination import Coordination, CoordinationError, Session, SessionLostError
from sharemesh.serve.process.coordination import connect_etcd
from sharemesh.serve.process.telemetry_export import TelemetryExport
from sharemesh.tasks import OwnedTasks, to_its_end
from sharemesh.telemetry.instruments import InstrumentKind, Metric, Observation
from sharemesh.telemetry.metrics_http import HttpPage, HttpPages
from sharemesh_operator.cluster.engine import Engine
from sharemesh_operator.cluster.kube import Kube, KubeError, Login, find_login
from sharemesh_operator.handlers import CUSTOM, Handlers, KopfThread
from sharemesh_operator.settings import OperatorSettings

RETRY_MS = 500
CRD_WAIT_MS = 2_000
STEP_DOWN_LIMIT_S = 5.0

_log = logging.getLogger(__name__)


class Standing(StrEnum):
    """How a replica stands in the election."""

    STARTING = "starting"
    STANDING_BY = "standing by"
    LEADING = "leading"
    WITHOUT_ETCD = "without etcd"
    ENDED = "ended"


class OperatorProcess:
    """One of the operator's replicas. ``run`` returns after ``stop``."""

    def __init__(
        self,
        settings: OperatorSettings,
        environment: Mapping[str, str],
        on_lease: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Make one; ``on_lease`` gets each lease in the election's etcd before it is used."""
        self._settings = settings
        self._environment = environment
        self._on_lease = on_lease
        self._clock = SystemClock()
        self._rng = random.SystemRandom()
        self._stop = asyncio.Event()
        self._engine: Engine | None = None
        self._kube: Kube | None = None
        self._standing = Standing.STARTING
        self._ending = OwnedTasks("the end of kopf")
        self._exporting = TelemetryExport(
            settings.serve_settings(), settings.identity, self._clock, component="operator"
        )
        for metric in self._figures():
            self._exporting.telemetry.registry.observe(metric, partial(self._observed, metric))
        self._health = HttpPages({"/healthz": self._healthz, "/readyz": self._readyz})
        self.ports: tuple[int, ...] = ()
        """Of health and of metrics, while it runs."""

    def standing(self) -> Standing:
        """Return how this replica stands."""
        return self._standing

    def figures(self) -> dict[str, float]:
        """Return what the metrics page shows of the operator itself, by Prometheus' names."""
        return {metric.prometheus_name: value for metric, value in self._figures().items()}

    def stop(self) -> None:
        """Ask it to hand over and end."""
        self._stop.set()

    async def run(self) -> None:
        """Stand for election and lead until told to stop.

        Raises:
            StartError: SETTINGS; no way to the API server, or a certificate cannot be read.
            OSError: A port cannot be listened on.
        """
        settings = self._settings
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._exporting.close)
            metrics_port = await self._exporting.start()
            login = find_login(settings.kubeconfig, self._environment)
            stack.push_async_callback(self._health.close)
            self.ports = (
                await self._health.start(settings.listen_host, settings.health_port),
                metrics_port,
            )
            etcd = connect_etcd(
                settings.serve_settings(), settings.etcd_addresses, clock=self._clock, rng=self._rng
            )
            stack.push_async_callback(etcd.close)
            kube = self._kube = await stack.enter_async_context(Kube(login, settings.namespace))
            campaign = asyncio.create_task(self._campaign(etcd, kube, login), name="campaign")
            told = asyncio.create_task(self._stop.wait(), name="told to stop")
            try:
                await asyncio.wait({campaign, told}, return_when=asyncio.FIRST_COMPLETED)
                _log.info("stopping", extra={"identity": settings.identity})
            finally:
                for task in (campaign, told):
                    task.cancel()
                ended = await asyncio.gather(campaign, return_exceptions=True)
                await self._ending.settle()
                self._standing = Standing.ENDED
            if isinstance(ended[0], Exception):
                raise ended[0]

    def _figures(self) -> dict[Metric, float]:
        engine, denied = self._engine, self._kube.denied if self._kube else 0
        rounds, failures = (engine.queue.rounds, engine.queue.failures) if engine else (0, 0)
        joined, placed = (engine.meshes.joined, engine.meshes.placed) if engine else (0, 0)
        leads, writes = self._standing is Standing.LEADING, engine.status_writes if engine else 0
        gauge, counter = InstrumentKind.GAUGE, InstrumentKind.COUNTER
        return {
            Metric(f"sharemesh.operator.{name}", kind, "1", says): float(value)
            for name, kind, value, says in (
                ("leader", gauge, leads, "1 on the elected replica"),
                ("rounds", counter, rounds, "rounds of work on objects"),
                ("failed_rounds", counter, failures, "rounds that ended in an error"),
                ("clusters", gauge, joined, "clusters that this replica is connected to"),
                ("clusters_placed", gauge, placed, "those whose placement controller it is"),
                ("status_writes", counter, writes, "statuses written"),
                ("denied_requests", counter, denied, "requests that the API server denied"),
            )
        }

    def _observed(self, metric: Metric) -> list[Observation]:
        return [((), self._figures()[metric])]

    def _healthz(self) -> HttpPage:
        """Alive: the loop answers, whatever etcd and the API server do."""
        return HttpPage(f"{self._standing}\n")

    def _readyz(self) -> HttpPage:
        """Ready: it can take part in the election."""
        able = self._standing in (Standing.STANDING_BY, Standing.LEADING)
        return HttpPage(f"{self._standing}\n", "200 OK" if able else "503 Service Unavailable")

    async def _campaign(self, etcd: Coordination, kube: Kube, login: Login) -> None:
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
                    await self._while_valid(session, self._lead(kube, login))
                finally:
                    self._standing = Standing.STANDING_BY
                    await session.close()  # the next one is elected at once
            except (CoordinationError, SessionLostError, KubeError) as error:
                if type(error) is not type(told):  # each kind of failure is logged once
                    _log.warning("not leading: %s", error)
                told = error
                if not isinstance(error, KubeError):
                    self._standing = Standing.WITHOUT_ETCD
                await self._clock.sleep_ms(RETRY_MS)

    async def _while_valid(self, session: Session, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` as long as the session is valid; it ends before the session is closed."""
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

    async def _lead(self, kube: Kube, login: Login) -> None:
        await self._until_served(kube)
        telemetry = self._exporting.telemetry
        engine = self._engine = Engine(
            kube, self._settings, self._clock, self._rng, self._on_lease, telemetry
        )
        handlers = Handlers(engine, login, asyncio.get_running_loop())
        watching = KopfThread(handlers, self._settings.namespace)
        engine.start()
        watching.start()
        self._standing = Standing.LEADING
        _log.info("leading", extra={"identity": self._settings.identity})
        try:
            why = await asyncio.shield(watching.ended)
            _log.error("the watch ended: %s", why)
        finally:
            self._standing = Standing.STANDING_BY
            # The lease does not wait for kopf: a closed engine does no work for it.
            self._ending.spawn(watching.stop())
            await to_its_end(engine.close())  # also if it is told to stop meanwhile

    async def _until_served(self, kube: Kube) -> None:
        """Wait for the custom resource definitions: kopf would never see later ones."""
        told = False
        while not await kube.served(CUSTOM):
            if not told:
                _log.warning("waiting for custom resource definitions: install sharemesh-crds")
                told = True
            await self._clock.sleep_ms(CRD_WAIT_MS)
