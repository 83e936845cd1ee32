"""The one place that builds a process from its settings."""

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine
from random import Random, SystemRandom
from typing import Any

import sharemesh
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.quota_table import QuotaTable
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import NodeId
from sharemesh.kafka_listener.listener import KafkaPortTakenError
from sharemesh.ports.cluster import KafkaEndpoint, NodeInfo
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.limits import server_limits
from sharemesh.rpc.receiving_memory import ReceivingMemory
from sharemesh.rpc.server import GrpcServer, ListenError
from sharemesh.rpc.shown_token import TokenFileError
from sharemesh.rpc.tls import TlsError
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.hosted_roles import HostedRoles
from sharemesh.serve.kafka_door import KafkaDoor
from sharemesh.serve.process.audit_log import AuditLog
from sharemesh.serve.process.coordination import connect_etcd, create_cluster, reach
from sharemesh.serve.process.doors import Doors
from sharemesh.serve.process.file_descriptors import ConnectionWatch, connections_max, raise_limit
from sharemesh.serve.process.identity import Identity
from sharemesh.serve.process.memory import MallocTrim, received_growth_max, resident_bytes
from sharemesh.serve.process.probe import ProcessProbe, Readiness
from sharemesh.serve.process.telemetry_export import TelemetryExport
from sharemesh.serve.process_context import ProcessContext
from sharemesh.serve.settings.room_settings import server_certificates, tls_files
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage_opening import StorageOpening
from sharemesh.serve.supervise.child_protocol import Report, Reporter, ReportKind
from sharemesh.tasks import cancel_and_wait

REACH_TIMEOUT_MS = 5_000
STOP_GRACE_MS = 500
CLOSE_TIMEOUT_MS = 10_000
LED_TIMEOUT_MS = 10_000
HAND_OVER_MS = 5_000
"""Of a drain, besides holders' time: successors are named, partitions leave in turn, writes."""

_log = logging.getLogger(__name__)


class RoleProcess:
    """All that runs in one process of ``sharemesh serve``: built, started, drained, closed."""

    def __init__(self, settings: ServeSettings, reporter: Reporter) -> None:
        self._settings = settings
        self._reporter = reporter
        self._clock = SystemClock()
        self._rng: Random = SystemRandom()
        self._identity = Identity(settings, self._rng, self._clock)
        self._node_id = NodeId(settings.node_id or f"{settings.role}-{socket.gethostname()}")
        self._audit = AuditLog(settings, self._node_id, self._clock)
        self._connections_max = connections_max(raise_limit())
        self._server = GrpcServer(
            limits=server_limits(
                self._connections_max, callers_have_names=settings.callers_have_names
            ),
            tls=server_certificates(settings, self._clock),
            reflection=settings.reflection,
            principals=self._identity.principals,
            on_refused=self._audit.on_refused,
            memory=ReceivingMemory(resident_bytes, received_growth_max()),
        )
        self._readiness = Readiness(self._server.health)
        self._coordination: Coordination | None = None
        self._caller: GrpcCaller | None = None
        self._opening = StorageOpening(settings, self._clock, self._rng)
        self._view: WatchedView | None = None
        self._member: ClusterMember | None = None
        self._roles: HostedRoles | None = None
        self._draining: asyncio.Task[None] | None = None
        self._exporting: TelemetryExport | None = None
        self._probe: ProcessProbe | None = None
        self._kafka: KafkaDoor | None = None
        self._heap = MallocTrim(self._clock)
        self._connections = ConnectionWatch(self._clock, self._connections_max)
        self._is_broken = asyncio.Event()
        self._why_broken = ""
        self.node: NodeInfo | None = None

    async def start(self) -> NodeInfo:
        """Start everything and register; return who this process is.

        Raises:
            StartError: One sentence and an exit code; call ``stop`` nevertheless.
        """
        try:
            return await self._start()
        except (ListenError, KafkaPortTakenError) as error:
            raise StartError(ExitCode.PORT_IN_USE, str(error)) from error
        except (TlsError, TokenFileError) as error:
            raise StartError(ExitCode.SETTINGS, str(error)) from error
        except CoordinationError as error:
            raise StartError(ExitCode.COORDINATION_UNREACHABLE, str(error)) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(
                ExitCode.DIRECTORY_UNUSABLE,
                f"the data directory {self._settings.data_directory} cannot be used: {reason}; "
                "make room, or correct its owner",
            ) from error

    async def broken(self) -> str:
        """Return, if ever, what died that this process cannot do without; end it then."""
        await self._is_broken.wait()
        return self._why_broken

    def _broken(self, why: str) -> None:
        self._why_broken = self._why_broken or why
        self._is_broken.set()

    async def stop(self, *, drain: bool) -> None:
        """Hand over (``drain``), then end: calls, roles, lease, connections, in this order."""
        if drain and self._member is not None:
            self._reporter.tell(Report(ReportKind.DRAINING))
            await self._server.health.enter_graceful_shutdown()
            await self._drain_once(self._member)
        if self._kafka is not None:
            await self._within(self._kafka.close(), CLOSE_TIMEOUT_MS)
        await self._server.stop(STOP_GRACE_MS if drain else 0)
        await self._within(self._close(), CLOSE_TIMEOUT_MS)
        await self._opening.close()

    async def _start(self) -> NodeInfo:
        settings = self._settings
        await self._identity.start()
        self._opening.prepare()
        coordination = self._coordination = self._connect()
        await reach(coordination, self._clock, settings.etcd_endpoints, timeout_ms=REACH_TIMEOUT_MS)
        record = await create_cluster(coordination, settings, self._clock, overwrite=False)
        await self._opening.claim(coordination, record)
        view = self._view = WatchedView(coordination, settings.cluster_id, self._clock)
        await view.start()
        caller = self._caller = GrpcCaller(
            self._clock,
            tls=tls_files(settings),
            headers=self._identity.headers,
            token_file=settings.token_file,
        )
        exporting = self._exporting = TelemetryExport(settings, self._node_id, self._clock)
        self._audit.start(exporting.telemetry, exporting.log_exporter())
        around = ProcessContext(
            settings=settings,
            node_id=self._node_id,
            clock=self._clock,
            rng=self._rng,
            coordination=coordination,
            view=view,
            storage=self._opening.storage(coordination, view, exporting.telemetry),
            caller=caller,
            authorizer=self._identity.authorizer(view),
            quotas=QuotaTable(view, super_users=settings.super_users),
            telemetry=exporting.telemetry,
            audit=self._audit.trail,
        )
        return await self._serve(around)

    async def _serve(self, around: ProcessContext) -> NodeInfo:
        settings = self._settings
        roles = self._roles = HostedRoles(settings.roles, around, self._begin_drain)
        kafka = self._kafka = self._kafka_door(around)
        roles.offer(self._server if kafka is None else Doors(self._server, kafka.handlers))
        metrics_port = 0 if self._exporting is None else await self._exporting.start()
        port = await self._server.start(settings.listen_host, settings.listen_port)
        health_port = 0
        if settings.health_port >= 0:
            health_port = await self._server.start_health(
                settings.listen_host, settings.health_port
            )
        self.node = NodeInfo(
            node_id=around.node_id,
            host=settings.advertised_host or settings.listen_host,
            port=settings.port_to_advertise or port,
            roles=settings.roles,
            rack=settings.rack,
            version=sharemesh.__version__,
            pid=os.getpid(),
            kafka=None if kafka is None else await kafka.open(),
        )
        member = self._member = ClusterMember(
            around.coordination,
            around.view,
            self.node,
            self._clock,
            ttl_ms=settings.session_ttl_ms,
        )
        member.on_lease(
            lambda lease_id: self._reporter.tell(Report(ReportKind.LEASE, lease_id=lease_id))
        )
        member.on_broken(self._broken)
        self._readiness.follow(member)
        self._probe = ProcessProbe(around.telemetry, self._clock, around.view)
        self._probe.start(member)
        self._heap.start()
        self._connections.start()
        await roles.start(member)
        if settings.in_memory:  # nobody else can lead: ready means led
            await around.view.wait_for(lambda: _all_led(around.view), timeout_ms=LED_TIMEOUT_MS)
        self._opening.tell()
        self._reporter.tell(
            Report(
                ReportKind.READY,
                node_id=self.node.node_id,
                host=self.node.host,
                port=self.node.port,
                health_port=health_port,
                metrics_port=metrics_port,
                kafka=_address(self.node.kafka),
                pid=os.getpid(),
            )
        )
        return self.node

    def _kafka_door(self, around: ProcessContext) -> KafkaDoor | None:
        """Return the listener for Kafka's clients, if there is to be one; raises TlsError."""
        if not self._settings.has_kafka_listener:
            return None
        return KafkaDoor(around, self._identity.principals.tokens, self._audit.on_refused)

    def _connect(self) -> Coordination:
        settings = self._settings
        if settings.in_memory:
            return LocalCoordination(LocalStore(self._clock))
        return connect_etcd(settings, settings.etcd_endpoints, clock=self._clock, rng=self._rng)

    async def _begin_drain(self) -> None:
        """Mark this process as draining and hand over in the background; it stays and serves.

        Raises:
            CoordinationError: It could not be marked.
        """
        if self._member is None:
            raise CoordinationError("this process is still starting; ask again")
        await self._member.draining(draining=True)
        self._hand_over(self._member)

    async def _drain_once(self, member: ClusterMember) -> None:
        """Hand over, or wait for the hand-over that is under way."""
        draining = self._hand_over(member)
        try:
            await draining
        except asyncio.CancelledError:
            await cancel_and_wait(draining)
            raise

    def _hand_over(self, member: ClusterMember) -> asyncio.Task[None]:
        """Return the one task that hands over, begun if it was not yet."""
        if self._draining is None:
            limit_ms = self._settings.drain_timeout_ms + HAND_OVER_MS
            self._draining = asyncio.create_task(self._within(self._drain(member), limit_ms))
        return self._draining

    async def _drain(self, member: ClusterMember) -> None:
        try:
            await member.draining(draining=True)
        except CoordinationError as error:
            _log.warning("not marked as draining", extra={"error": error})
        if self._roles is not None:
            await self._roles.drain()

    async def _close(self) -> None:
        if self._roles is not None:
            await self._roles.close()
        await self._readiness.close()
        await self._identity.close()
        for measuring in (self._connections, self._heap, self._probe, self._audit, self._exporting):
            if measuring is not None:
                await measuring.close()
        for part in (self._member, self._view, self._caller, self._coordination):
            if part is not None:
                await part.close()

    async def _within(self, work: Coroutine[Any, Any, None], timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await work
        except TimeoutError:
            _log.warning("stopping took too long", extra={"timeout_ms": timeout_ms})
        except Exception:
            _log.exception("stopping failed")


def _address(endpoint: KafkaEndpoint | None) -> str:
    return "" if endpoint is None else f"{endpoint.host}:{endpoint.port}"


def _all_led(view: WatchedView) -> bool:
    return view.controller() is not None and all(shard.node is not None for shard in view.shards())
