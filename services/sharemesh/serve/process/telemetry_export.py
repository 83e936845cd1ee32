"""Telemetry of a process as its settings want it: made, sent out, flushed at the end."""

import asyncio
import logging
import os
import random
from collections.abc import Mapping

import sharemesh
from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.cluster import Role
from sharemesh.rpc.server import ListenError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.tasks import cancel_and_wait
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.metrics_http import MetricsEndpoint
from sharemesh.telemetry.otel_environment import read_otel_environment
from sharemesh.telemetry.otlp import OtlpMetrics, OtlpSpans
from sharemesh.telemetry.otlp_logs import OtlpLogs
from sharemesh.telemetry.span_export import ExportError, SpanExporter, SpanFile, SpanPump
from sharemesh.telemetry.spans import Spans
from sharemesh.telemetry.telemetry import Telemetry, stride_of

_log = logging.getLogger(__name__)


class TelemetryExport:
    """Owns what carries telemetry out of the process: a page, a pump, a sender of metrics."""

    def __init__(
        self,
        settings: ServeSettings,
        node_id: str,
        clock: SystemClock,
        *,
        component: str = "",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Make one.

        Args:
            settings: They win over the ``OTEL_*`` variables, except over ``OTEL_SDK_DISABLED``.
            node_id: Who sends.
            clock: Times of spans and of the metrics' interval.
            component: The service's name of what is sent; without it, that of the roles.
            environment: Where the ``OTEL_*`` variables stand.
        """
        otel = self._otel = read_otel_environment(environment, endpoint=settings.telemetry_endpoint)
        traced = otel.traces is not None or settings.trace_directory is not None
        self._settings = settings
        self._clock = clock
        self._node_id = node_id
        self._component = component
        self._pump: SpanPump | None = None
        self._metrics: OtlpMetrics | None = None
        self._sender: asyncio.Task[None] | None = None
        registry = Registry(series_max=settings.metric_series_max)
        self._page = MetricsEndpoint(registry)
        self.telemetry = Telemetry(
            registry,
            Spans(
                enabled=traced and settings.tracing and not otel.disabled,
                rng=random.Random(os.urandom(16)),  # noqa: S311 - span ids guard nothing
                now_ns=clock.wall_ns,
                queue_max=otel.queue_max,
                sampler=otel.sampler,
            ),
            detail_stride=stride_of(settings.record_sampling_percent),
            partition_labels=settings.partition_labels,
        )

    async def start(self) -> int:
        """Open the page and begin to export; return the page's port, 0 without one.

        Raises:
            ListenError: The metrics port cannot be listened on.
        """
        settings = self._settings
        for complaint in self._otel.complaints:
            _log.warning("%s", complaint)
        if self._otel.disabled:
            _log.info("OTEL_SDK_DISABLED is true: no spans are made and nothing is sent by OTLP")
        else:
            self._start_exporters()
        self._register()
        if settings.metrics_port < 0:
            return 0
        try:
            port = await self._page.start(settings.listen_host, settings.metrics_port)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {settings.listen_host}:{settings.metrics_port} for metrics: "
                f"{(error.strerror or str(error)).lower()}; choose another metrics_port"
            ) from error
        _log.info("metrics", extra={"address": f"{settings.listen_host}:{port}"})
        return port

    def log_exporter(self) -> OtlpLogs | None:
        """Return what sends log records, if that is asked for; the caller closes it."""
        if self._otel.disabled or self._otel.logs is None:
            return None
        return OtlpLogs(self._otel.logs, self._resource())

    async def close(self) -> None:
        """Send what is left, within the bound of ``SpanPump.close``, and end."""
        if self._sender is not None:
            await cancel_and_wait(self._sender)
        loop = asyncio.get_running_loop()
        if self._pump is not None:
            await loop.run_in_executor(None, self._pump.close)
        if self._metrics is not None:
            await loop.run_in_executor(None, self._metrics.close)
        await self._page.close()

    def _register(self) -> None:
        registry, spans = self.telemetry.registry, self.telemetry.spans
        registry.observe(names.SPANS_DROPPED, lambda: [((), self._dropped)])
        registry.observe(names.SPANS_QUEUED, lambda: [((), spans.queued)])
        registry.observe(names.SPANS_FINISHED, lambda: [((), spans.finished)])
        registry.observe(names.SERIES_OVERFLOWS, lambda: [((), registry.overflows)])

    @property
    def _dropped(self) -> float:
        failed = self._pump.failed if self._pump is not None else 0
        return self.telemetry.spans.dropped + failed

    def _start_exporters(self) -> None:
        settings, otel, resource = self._settings, self._otel, self._resource()
        exporter: SpanExporter | None = None
        if settings.trace_directory is not None:
            settings.trace_directory.mkdir(parents=True, exist_ok=True)
            file = settings.trace_directory / f"{self._node_id}.{os.getpid()}.jsonl"
            exporter = SpanFile(file, resource)
        elif otel.traces is not None:
            exporter = OtlpSpans(otel.traces, resource)
        if exporter is not None:
            self._pump = SpanPump(
                self.telemetry.spans,
                exporter,
                batch_max=otel.batch_max,
                interval_ms=otel.spans_interval_ms,
            )
            self._pump.start()
        if otel.metrics is not None:
            self._metrics = OtlpMetrics(otel.metrics, resource, self._clock.wall_ns())
            self._sender = asyncio.get_running_loop().create_task(
                self._send(self._metrics), name="metrics export"
            )

    def _resource(self) -> dict[str, str]:
        roles = self._settings.roles
        of_roles = "sharemesh" if len(roles) == len(Role) else str(roles[0])
        return {
            "service.name": self._component or of_roles,
            "service.namespace": self._settings.cluster_id,
            "service.instance.id": self._node_id,
            "service.version": sharemesh.__version__,
            **self._otel.resource,
        }

    async def _send(self, metrics: OtlpMetrics) -> None:
        failing = False
        loop = asyncio.get_running_loop()
        while True:
            await self._clock.sleep_ms(self._otel.metrics_interval_ms)
            try:
                readings = self.telemetry.registry.collect()
                await loop.run_in_executor(None, metrics.export, readings, self._clock.wall_ns())
                failing = False
            except ExportError as error:
                if not failing:
                    _log.warning("metrics are dropped: %s", error)
                failing = True
            except Exception:
                _log.exception("metrics could not be exported")
