"""Spans and metrics over OTLP to a real gRPC receiver that answers OTLP's own services."""

import random

import pytest
from opentelemetry.proto.trace.v1 import trace_pb2

from sharemesh.telemetry.instruments import InstrumentKind, Metric, Registry
from sharemesh.telemetry.otel_environment import OtlpTarget
from sharemesh.telemetry.otlp import OtlpMetrics, OtlpSpans, SpanWriter, any_value, varint
from sharemesh.telemetry.span_export import ExportError, SpanPump
from sharemesh.telemetry.spans import Span, SpanKind, Spans
from sharemesh.telemetry.trace_context import TraceContext
from tests.telemetry.collector import collector

RESOURCE = {"service.name": "share-leader", "service.instance.id": "n1"}


def random_value(rng):
    return rng.choice(
        [
            rng.randrange(-5, 1 << 40),
            rng.randrange(1 << 20),
            "text-" * rng.randrange(60),
            rng.random() < 0.5,
            rng.random(),
            [rng.randrange(1 << 40) for _ in range(rng.randrange(40))],
            [rng.randrange(1 << rng.randrange(1, 63)) - rng.randrange(9)],
            ["a", "b"],
        ]
    )


def random_span(rng, shared):
    def context():
        return TraceContext(rng.getrandbits(128) or 1, rng.getrandbits(64) or 1)

    return Span(
        f"settle topic-{rng.randrange(3)}",
        context(),
        context() if rng.random() < 0.5 else None,
        rng.randrange(1 << 62),
        rng.randrange(1 << 62),
        {f"share.{n}": random_value(rng) for n in range(rng.randrange(8))},
        kind=rng.choice(list(SpanKind)),
        links=[context() for _ in range(rng.randrange(4))],
        error=rng.choice(["", "INVALID_RECORD_STATE"]),
        shared=shared,
    )


def expected(span):
    """The same span by OTLP's own messages."""
    message = trace_pb2.Span(
        name=span.name,
        kind=span.kind + 1,
        trace_id=span.context.trace_id.to_bytes(16, "big"),
        span_id=span.context.span_id.to_bytes(8, "big"),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
    )
    if span.parent:
        message.parent_span_id = span.parent.span_id.to_bytes(8, "big")
    attributes = {**span.shared, **span.attributes}
    if span.error:
        attributes["error.type"] = span.error
        message.status.code = trace_pb2.Status.STATUS_CODE_ERROR
    for name, value in attributes.items():
        message.attributes.add(key=name).value.CopyFrom(any_value(value))
    for link in span.links:
        message.links.add(
            trace_id=link.trace_id.to_bytes(16, "big"), span_id=link.span_id.to_bytes(8, "big")
        )
    return message


@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_of_a_span_are_those_of_otlps_own_messages(seed):
    rng = random.Random(seed)
    writer = SpanWriter(b"", b"")
    shared = {"messaging.system": "sharemesh", "share.leader.epoch": 7}
    for _ in range(200):
        span = random_span(rng, rng.choice([shared, {}]))
        assert trace_pb2.Span.FromString(writer.span(span)) == expected(span), f"seed {seed}"


def test_numbers_are_written_as_protobuf_writes_them():
    for value in (0, 1, 127, 128, 16_383, 16_384, 1 << 35, (1 << 63) - 1, -1, -(1 << 63)):
        assert b"\x18" + varint(value) == any_value(value).SerializeToString()


def spans():
    return Spans(enabled=True, rng=random.Random(1), now_ns=lambda: 7)


def test_a_collector_gets_every_span_with_its_resource():
    rng = random.Random(3)
    with collector() as receiver:
        known = spans()
        pump = SpanPump(known, OtlpSpans(OtlpTarget(receiver.endpoint), RESOURCE))
        pump.start()
        sent = [random_span(rng, {}) for _ in range(5_000)]
        for span in sent:
            known.end(span)
        pump.close()
        assert (pump.exported, pump.failed) == (5_000, 0)
        assert receiver.spans == [expected(span) for span in sent]
        assert all(each == RESOURCE for each in receiver.resources)


def test_spans_that_a_collector_rejects_are_counted_as_lost():
    with collector(reject=2) as receiver:
        exporter = OtlpSpans(OtlpTarget(receiver.endpoint), RESOURCE)
        known = spans()
        work = Span("work", known.context(), None, 1, 2, {})
        assert exporter.export([exporter.write(work)] * 5) == 3
        exporter.close()


def test_a_collector_that_is_gone_takes_none_and_the_reason_names_it():
    exporter = OtlpSpans(OtlpTarget("http://127.0.0.1:9"), RESOURCE)
    work = Span("work", spans().context(), None, 1, 2, {})
    with pytest.raises(ExportError, match=r"127\.0\.0\.1:9 answers UNAVAILABLE"):
        exporter.export([exporter.write(work)])
    exporter.close()


def test_a_collector_gets_every_metric():
    registry = Registry()
    reads = Metric("test.reads", InstrumentKind.COUNTER, "{read}", "reads", ("topic",))
    times = Metric("test.time", InstrumentKind.HISTOGRAM, "s", "times", (), (0.1, 1.0))
    registry.counter(reads, "orders").add(3)
    registry.observe(Metric("test.open", InstrumentKind.GAUGE, "1", "open"), lambda: [((), 4.0)])
    for value in (0.05, 0.5, 3):
        registry.histogram(times).record(value)
    with collector() as receiver:
        sender = OtlpMetrics(OtlpTarget(receiver.endpoint), RESOURCE, start_ns=5)
        registry.histogram(Metric("test.none", InstrumentKind.HISTOGRAM, "s", "none", (), (1.0,)))
        sender.export(registry.collect(), now_ns=9)
        sender.close()
        found = {metric.name: metric for metric in receiver.metrics}
    assert set(found) == {"test.reads", "test.open", "test.time", "test.none"}
    [point] = found["test.reads"].sum.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (3.0, 5, 9)
    assert found["test.reads"].sum.is_monotonic
    assert point.attributes[0].value.string_value == "orders"
    assert found["test.open"].gauge.data_points[0].as_double == 4.0
    [point] = found["test.time"].histogram.data_points
    assert list(point.bucket_counts) == [1, 1, 1]
    assert list(point.explicit_bounds) == [0.1, 1.0]
    assert (point.count, point.sum, point.min, point.max) == (3, 3.55, 0.05, 3)
    [point] = found["test.none"].histogram.data_points
    assert (point.count, point.HasField("min"), point.HasField("max")) == (0, False, False)
