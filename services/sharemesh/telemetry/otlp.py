"""Spans and metrics to a collector by OTLP over gRPC, on the exporter's threads.

OpenTelemetry's messages and its metric exporter are used; its tracer and meter are not on the
way, for a span of theirs costs the event loop ten times what one of ours does (measured).
"""

from collections.abc import Mapping, Sequence

import grpc
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from sharemesh.telemetry.instruments import Histogram, InstrumentKind, Reading
from sharemesh.telemetry.names import SCHEMA_URL, SCOPE
from sharemesh.telemetry.otlp_wire import SpanWriter, any_value
from sharemesh.telemetry.spans import Span

EXPORT_TIMEOUT_S = 5.0
EXPORT_SPANS = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class OtlpSpans:
    """Fills ``SpanExporter``; ``endpoint`` is ``http://host:port`` or ``https://host:port``."""

    def __init__(self, endpoint: str, resource: Mapping[str, str]) -> None:
        target = endpoint.partition("://")[2].rstrip("/")
        if endpoint.startswith("https://"):
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials())
        else:
            self._channel = grpc.insecure_channel(target)
        self._export: grpc.UnaryUnaryMultiCallable[bytes, ExportTraceServiceResponse] = (
            self._channel.unary_unary(
                EXPORT_SPANS, response_deserializer=ExportTraceServiceResponse.FromString
            )
        )
        about = resource_pb2.Resource(
            attributes=[
                common_pb2.KeyValue(key=name, value=any_value(value))
                for name, value in resource.items()
            ]
        )
        scope = common_pb2.InstrumentationScope(name=SCOPE)
        self._writer = SpanWriter(about.SerializeToString(), scope.SerializeToString())

    def write(self, span: Span) -> bytes:
        """Return the bytes of OTLP's message."""
        return self._writer.span(span)

    def export(self, spans: Sequence[bytes]) -> int:
        """Send the batch, return how many were taken; blocks up to ``EXPORT_TIMEOUT_S``."""
        try:
            answer = self._export(self._writer.request(spans), timeout=EXPORT_TIMEOUT_S)
        except grpc.RpcError:
            return 0
        return len(spans) - int(answer.partial_success.rejected_spans)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


class OtlpMetrics:
    """Sends what a registry holds, with cumulative sums since ``start_ns`` (wall time)."""

    def __init__(self, endpoint: str, resource: Mapping[str, str], start_ns: int) -> None:
        self._resource = Resource(dict(resource), SCHEMA_URL)
        self._scope = InstrumentationScope(SCOPE, schema_url=SCHEMA_URL)
        self._start_ns = start_ns
        self._exporter = OTLPMetricExporter(
            endpoint, insecure=endpoint.startswith("http://"), timeout=EXPORT_TIMEOUT_S
        )

    def export(self, readings: Sequence[Reading], now_ns: int) -> bool:
        """Send one collection; blocks up to ``EXPORT_TIMEOUT_S``."""
        metrics = [self._metric(reading, now_ns) for reading in readings]
        scope = sdk.ScopeMetrics(self._scope, metrics, SCHEMA_URL)
        data = sdk.MetricsData([sdk.ResourceMetrics(self._resource, [scope], SCHEMA_URL)])
        return self._exporter.export(data) is sdk.MetricExportResult.SUCCESS

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()

    def _metric(self, reading: Reading, now_ns: int) -> sdk.Metric:
        metric = reading.metric
        cumulative = sdk.AggregationTemporality.CUMULATIVE
        data: sdk.Sum | sdk.Gauge | sdk.Histogram
        if metric.kind is InstrumentKind.HISTOGRAM:
            points = [
                self._histogram(dict(zip(metric.labels, labels, strict=True)), each, now_ns)
                for labels, each in reading.histograms
            ]
            data = sdk.Histogram(points, cumulative)
        else:
            numbers = [
                sdk.NumberDataPoint(
                    dict(zip(metric.labels, labels, strict=True)), self._start_ns, now_ns, value
                )
                for labels, value in reading.values
            ]
            is_counter = metric.kind is InstrumentKind.COUNTER
            data = sdk.Sum(numbers, cumulative, True) if is_counter else sdk.Gauge(numbers)  # noqa: FBT003
        return sdk.Metric(metric.name, metric.says, metric.unit, data)

    def _histogram(
        self, attributes: dict[str, str], histogram: Histogram, now_ns: int
    ) -> sdk.HistogramDataPoint:
        return sdk.HistogramDataPoint(
            attributes,
            self._start_ns,
            now_ns,
            histogram.count,
            histogram.total,
            tuple(histogram.counts),
            histogram.bounds,
            histogram.low,
            histogram.high,
        )
