"""Spans and metrics to a collector by OTLP over gRPC, on the exporter's threads.

OpenTelemetry's messages are used; its tracer, meter and exporters are not: a span of theirs costs
the event loop ten times what one of ours does (measured), and their exporters read variables that
they refuse at the start of a process.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Generic, TypeVar

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from sharemesh.telemetry.instruments import Histogram, InstrumentKind, Labels, Metric, Reading
from sharemesh.telemetry.names import ERROR_TYPE, SCHEMA_URL, SCOPE
from sharemesh.telemetry.otel_environment import OtlpTarget
from sharemesh.telemetry.span_export import ExportError
from sharemesh.telemetry.spans import Attributes, Span, SpanKind

KNOWN_MAX = 4_096
"""Attributes kept as bytes: names of topics, groups and members, and small numbers, mostly."""

_SMALL = 1 << 14
_ALL_BITS = (1 << 64) - 1
_ERROR_STATUS = b"\x7a\x02\x18\x02"  # status { code: STATUS_CODE_ERROR }
_VARINT_MAX = 10
_TIMES = Struct("<BQBQ")
_START, _END = 0x39, 0x41  # fixed64 fields 7 and 8
_IDS = Struct(">2sQQ2sQ")
_PARENT = Struct(">2sQ")
_LINK = Struct(">4sQQ2sQ")
_TRACE_ID, _SPAN_ID, _PARENT_ID = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_LINK_ID = b"\x6a\x1c" + _TRACE_ID
_ELEMENTS = tuple(b"\x0a%c\x18" % (length + 1) for length in range(_VARINT_MAX + 1))
"""What comes before a number in an array, by the number's length."""

_VARINTS = tuple(
    bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(_SMALL)
)

EXPORT_SPANS = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
EXPORT_METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
CUMULATIVE = otlp.AGGREGATION_TEMPORALITY_CUMULATIVE
Answer = TypeVar(
    "Answer",
    ExportTraceServiceResponse,
    ExportMetricsServiceResponse,
    ExportLogsServiceResponse,
)


class OtlpSpans:
    """Fills ``SpanExporter``."""

    def __init__(self, target: OtlpTarget, resource: Mapping[str, str]) -> None:
        self._collector = OtlpService(target, EXPORT_SPANS, ExportTraceServiceResponse)
        about = Resource(attributes=_attributes(resource.items()))
        scope = InstrumentationScope(name=SCOPE)
        self._writer = SpanWriter(about.SerializeToString(), scope.SerializeToString())

    def write(self, span: Span) -> bytes:
        """Return the bytes of OTLP's message."""
        return self._writer.span(span)

    def export(self, spans: Sequence[bytes]) -> int:
        """Send the batch, return how many were taken (see ``SpanExporter``)."""
        answer = self._collector.send(self._writer.request(spans))
        return len(spans) - int(answer.partial_success.rejected_spans)

    def close(self) -> None:
        """Close the connection."""
        self._collector.close()


class OtlpMetrics:
    """Sends what a registry holds, with cumulative sums since ``start_ns`` (wall time)."""

    def __init__(self, target: OtlpTarget, resource: Mapping[str, str], start_ns: int) -> None:
        self._collector = OtlpService(target, EXPORT_METRICS, ExportMetricsServiceResponse)
        self._resource = Resource(attributes=_attributes(resource.items()))
        self._start_ns = start_ns

    def export(self, readings: Sequence[Reading], now_ns: int) -> None:
        """Send one collection; blocks up to the target's timeout.

        Raises:
            ExportError: The collector did not take all of it.
        """
        scope = otlp.ScopeMetrics(
            scope=InstrumentationScope(name=SCOPE),
            metrics=[self._metric(reading, now_ns) for reading in readings],
            schema_url=SCHEMA_URL,
        )
        whole = otlp.ResourceMetrics(
            resource=self._resource, scope_metrics=[scope], schema_url=SCHEMA_URL
        )
        request = ExportMetricsServiceRequest(resource_metrics=[whole])
        refused = self._collector.send(request.SerializeToString()).partial_success
        if refused.rejected_data_points:
            raise ExportError(
                f"the collector refuses {refused.rejected_data_points} data points: "
                f"{refused.error_message[:200]}"
            )

    def close(self) -> None:
        """Close the connection."""
        self._collector.close()

    def _metric(self, reading: Reading, now_ns: int) -> otlp.Metric:
        metric = reading.metric
        found = otlp.Metric(name=metric.name, description=metric.says, unit=metric.unit)
        if metric.kind is InstrumentKind.HISTOGRAM:
            found.histogram.aggregation_temporality = CUMULATIVE
            found.histogram.data_points.extend(
                self._histogram(_labels(metric, labels), each, now_ns)
                for labels, each in reading.histograms
            )
            return found
        points = found.gauge.data_points
        if metric.kind is InstrumentKind.COUNTER:
            found.sum.aggregation_temporality = CUMULATIVE
            found.sum.is_monotonic = True
            points = found.sum.data_points
        points.extend(
            otlp.NumberDataPoint(
                attributes=_labels(metric, labels),
                start_time_unix_nano=self._start_ns,
                time_unix_nano=now_ns,
                as_double=value,
            )
            for labels, value in reading.values
        )
        return found

    def _histogram(
        self, labels: list[KeyValue], histogram: Histogram, now_ns: int
    ) -> otlp.HistogramDataPoint:
        point = otlp.HistogramDataPoint(
            attributes=labels,
            start_time_unix_nano=self._start_ns,
            time_unix_nano=now_ns,
            count=histogram.count,
            sum=histogram.total,
            bucket_counts=histogram.counts,
            explicit_bounds=histogram.bounds,
        )
        if histogram.count:
            point.min, point.max = histogram.low, histogram.high
        return point


class OtlpService(Generic[Answer]):
    """One service of a collector, behind one connection."""

    def __init__(self, target: OtlpTarget, method: str, answer: type[Answer]) -> None:
        self._target = target
        gzip = grpc.Compression.Gzip if target.gzip else grpc.Compression.NoCompression
        if target.is_plain:
            self._channel = grpc.insecure_channel(target.address, compression=gzip)
        else:
            trust = grpc.ssl_channel_credentials(target.authority, target.key, target.certificate)
            self._channel = grpc.secure_channel(target.address, trust, compression=gzip)
        self._call: grpc.UnaryUnaryMultiCallable[bytes, Answer] = self._channel.unary_unary(
            method, response_deserializer=answer.FromString
        )

    def send(self, request: bytes) -> Answer:
        """Return the answer; blocks up to the target's timeout.

        Raises:
            ExportError: There was none.
        """
        target = self._target
        try:
            return self._call(request, timeout=target.timeout_s, metadata=target.headers)
        except grpc.RpcError as error:
            why = f"{error.code().name}: {(error.details() or '')[:200]}"
            raise ExportError(f"the collector {target.address} answers {why}") from error

    def close(self) -> None:
        """Close the connection; a call that waits fails."""
        self._channel.close()


def _labels(metric: Metric, values: Labels) -> list[KeyValue]:
    return _attributes(zip(metric.labels, values, strict=True))


def _attributes(pairs: Iterable[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=name, value=any_value(value)) for name, value in pairs]


class SpanWriter:
    """Writes the requests of ``TraceService.Export`` for one resource and scope.

    It writes the bytes of OTLP's messages without making them: making costs 18 us a span, writing 2
    (measured). It is done as a span ends, on the loop's thread: bytes that wait cost less memory
    than spans, and no search for reference cycles goes through them.
    """

    def __init__(self, resource: bytes, scope: bytes) -> None:
        """Both are the bytes of OTLP's messages."""
        self._resource = message(0x0A, resource)
        self._scope = message(0x0A, scope)
        self._heads: tuple[dict[str, bytes], ...] = tuple({} for _ in SpanKind)
        self._known: dict[tuple[str, object], bytes] = {}
        self._singles: dict[str, tuple[bytes, ...]] = {}
        self._shared: dict[int, tuple[Attributes, bytes]] = {}

    def request(self, written: Sequence[bytes]) -> bytes:
        """Return the bytes of an ``ExportTraceServiceRequest`` of written spans."""
        schema = message(0x1A, SCHEMA_URL.encode())
        spans = [message(0x12, each) for each in written]
        scope_spans = message(0x12, b"".join((self._scope, *spans, schema)))
        return message(0x0A, b"".join((self._resource, scope_spans, schema)))

    def span(self, span: Span) -> bytes:
        """Return the bytes of a ``Span``."""
        trace_id, span_id, _ = span.context
        high, low = trace_id >> 64, trace_id & _ALL_BITS
        parts = [_IDS.pack(_TRACE_ID, high, low, _SPAN_ID, span_id)]
        if span.parent is not None:
            parts.append(_PARENT.pack(_PARENT_ID, span.parent.span_id))
        parts.append(self._heads[span.kind].get(span.name) or self._head(span))
        parts.append(_TIMES.pack(_START, span.start_ns, _END, span.end_ns))
        if span.shared:
            parts.append(self._written_shared(span.shared))
        known, singles = self._known, self._singles
        for name, value in span.attributes.items():
            kind = type(value)
            if kind is list and len(value) == 1 and type(value[0]) is int:
                number = varint(value[0])
                parts.append((singles.get(name) or self._single(name))[len(number)])
                parts.append(number)
            elif kind is str or (kind is int and 0 <= value < _SMALL):
                parts.append(known.get((name, value)) or self._keep(name, value))
            else:
                parts.append(_attribute(name, _value(value)))
        if span.error:
            parts.append(known.get((ERROR_TYPE, span.error)) or self._keep(ERROR_TYPE, span.error))
        for trace_id, span_id, _ in span.links:
            high, low = trace_id >> 64, trace_id & _ALL_BITS
            parts.append(_LINK.pack(_LINK_ID, high, low, _SPAN_ID, span_id))
        if span.error:
            parts.append(_ERROR_STATUS)
        return b"".join(parts)

    def _head(self, span: Span) -> bytes:
        heads = self._heads[span.kind]
        if len(heads) >= KNOWN_MAX:
            heads.clear()
        # OTLP's numbers of kinds begin one later.
        found = message(0x2A, span.name.encode()) + b"\x30" + varint(span.kind + 1)
        heads[span.name] = found
        return found

    def _written_shared(self, shared: Attributes) -> bytes:
        found = self._shared.get(id(shared))
        if found is None:
            written = b"".join(_attribute(name, _value(value)) for name, value in shared.items())
            if len(self._shared) >= KNOWN_MAX:
                self._shared.clear()
            # Held, so that its identity stays its own.
            found = self._shared[id(shared)] = (shared, written)
        return found[1]

    def _single(self, name: str) -> tuple[bytes, ...]:
        """Return what comes before the number in an array of one, by the number's length."""
        zeros = (b"\x80" * (length - 1) + b"\x00" for length in range(1, _VARINT_MAX + 1))
        wholes = [
            _attribute(name, message(0x2A, message(0x0A, b"\x18" + number))) for number in zeros
        ]
        found = (b"", *(whole[: -n - 1] for n, whole in enumerate(wholes)))
        self._singles[name] = found
        return found

    def _keep(self, name: str, value: object) -> bytes:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        found = self._known[name, value] = _attribute(name, _value(value))
        return found


def varint(value: int) -> bytes:
    """Return a number as protobuf writes int64: negative ones take ten bytes."""
    value &= _ALL_BITS
    if value < _SMALL:
        return _VARINTS[value]
    low, rest = bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80)), value >> 14
    return low + (_VARINTS[rest] if rest < _SMALL else varint(rest))


def message(tag: int, body: bytes) -> bytes:
    """Return a field that holds a message, a text or bytes; ``tag`` is below 128."""
    return b"%c%b%b" % (tag, varint(len(body)), body)


def _attribute(name: str, value: bytes) -> bytes:
    return message(0x4A, message(0x0A, name.encode()) + message(0x12, value))


def _value(value: object) -> bytes:
    """Return the bytes of an ``AnyValue``."""
    if type(value) is int:
        return b"\x18" + varint(value)
    if isinstance(value, list | tuple):
        if all(type(each) is int for each in value):
            numbers = [varint(each) for each in value]
            return message(0x2A, b"".join([_ELEMENTS[len(each)] + each for each in numbers]))
        return message(0x2A, b"".join([message(0x0A, _value(each)) for each in value]))
    return any_value(value).SerializeToString()


def any_value(value: object) -> common_pb2.AnyValue:
    """Return a value as OTLP's message; what is no plain value becomes a text."""
    match value:
        case bool():
            return common_pb2.AnyValue(bool_value=value)
        case int():
            return common_pb2.AnyValue(int_value=value)
        case float():
            return common_pb2.AnyValue(double_value=value)
        case list() | tuple():
            array = common_pb2.ArrayValue(values=[any_value(each) for each in value])
            return common_pb2.AnyValue(array_value=array)
        case _:
            return common_pb2.AnyValue(string_value=str(value))
