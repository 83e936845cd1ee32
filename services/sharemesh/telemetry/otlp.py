"""Spans and metrics to a collector by OTLP over gRPC: OpenTelemetry's own encoders and client.

The SDK's tracer and meter are not on the way: a span of theirs costs ten times what one of ours
does (measured), so theirs are made here, on the exporter's thread, from what was queued.
"""

from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from sharemesh.telemetry.instruments import Histogram, Kind, Reading
from sharemesh.telemetry.names import ERROR_TYPE, SCHEMA_URL, SCOPE
from sharemesh.telemetry.spans import Span
from sharemesh.telemetry.trace_context import TraceContext

EXPORT_TIMEOUT_S = 5.0
_KINDS = tuple(SpanKind)


class OtlpSpans:
    """Fills ``SpanExporter``; ``endpoint`` is ``http://host:port`` or ``https://host:port``."""

    def __init__(self, endpoint: str, resource: Mapping[str, str]) -> None:
        self._resource = Resource(dict(resource), SCHEMA_URL)
        self._scope = InstrumentationScope(SCOPE, schema_url=SCHEMA_URL)
        self._exporter = OTLPSpanExporter(
            endpoint, insecure=endpoint.startswith("http://"), timeout=EXPORT_TIMEOUT_S
        )

    def export(self, spans: Sequence[Span]) -> bool:
        """Send the batch; blocks up to ``EXPORT_TIMEOUT_S``."""
        result = self._exporter.export([self._readable(span) for span in spans])
        return result is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        attributes = span.attributes
        status = Status(StatusCode.UNSET)
        if span.error:
            attributes = {**attributes, ERROR_TYPE: span.error}
            status = Status(StatusCode.ERROR)
        return ReadableSpan(
            span.name,
            context=_context(span.context),
            parent=None if span.parent is None else _context(span.parent),
            resource=self._resource,
            attributes=attributes,
            links=[Link(_context(link)) for link in span.links],
            kind=_KINDS[span.kind],
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


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
        if metric.kind is Kind.HISTOGRAM:
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
            is_counter = metric.kind is Kind.COUNTER
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


def _context(context: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(context.trace_id, context.span_id, is_remote=False, trace_flags=flags)
