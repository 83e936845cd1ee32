"""Metrics and spans in memory: exact, bounded, readable."""

import asyncio
import random
import threading

from sharemesh.telemetry.instruments import OTHER, InstrumentKind, Metric, Registry
from sharemesh.telemetry.metrics_http import MetricsEndpoint, expose
from sharemesh.telemetry.span_export import SpanPump
from sharemesh.telemetry.spans import Span, Spans
from sharemesh.telemetry.telemetry import stride_of
from tests.telemetry.scrape import parse, scrape

READS = Metric("test.reads", InstrumentKind.COUNTER, "{read}", "reads", ("topic",))
TIMES = Metric("test.time", InstrumentKind.HISTOGRAM, "s", "times", (), (0.1, 1.0))


def spans(**settings) -> Spans:
    return Spans(enabled=True, rng=random.Random(1), now_ns=lambda: 7, **settings)


def test_buckets_are_inclusive_and_cumulative() -> None:
    registry = Registry()
    times = registry.histogram(TIMES)
    for value in (0.05, 0.1, 0.5, 3):
        times.record(value)
    page = parse(expose(registry.collect()))
    buckets = {dict(labels).get("le"): value for (_, labels), value in page.items() if labels}
    assert buckets == {"0.1": 2, "1": 3, "+Inf": 4}
    assert page["test_time_seconds_sum", frozenset()] == 3.65
    assert page["test_time_seconds_count", frozenset()] == 4


def test_labels_are_escaped() -> None:
    registry = Registry()
    registry.counter(READS, 'a"b\\c\nd').add(2)
    assert 'test_reads_total{topic="a\\"b\\\\c\\nd"} 2' in expose(registry.collect())


def test_series_beyond_the_bound_are_counted_together() -> None:
    registry = Registry(series_max=3)
    for number in range(10):
        registry.counter(READS, f"t{number}").add()
    (reading,) = registry.collect()
    assert len(reading.values) == 4
    assert dict(reading.values)[OTHER,] == 7
    assert registry.overflows == 7


def test_a_full_queue_drops_and_counts() -> None:
    known = spans(queue_max=5)
    for _ in range(8):
        known.end(Span("work", known.context(), None, 1, 2, {}))
    assert (known.queued, known.finished, known.dropped) == (5, 5, 3)
    assert len(known.take(3)) == 3
    assert known.queued == 2


def test_links_beyond_the_bound_are_an_attribute() -> None:
    known = spans()
    links = [known.context() for _ in range(40)]
    known.end(Span("work", known.context(), None, 1, 2, {}, links=links))
    (span,) = known.take(10)
    assert len(span.links) == 32
    assert span.attributes["share.links.dropped"] == 8


def test_a_collector_that_fails_costs_its_spans_and_nothing_else() -> None:
    class Broken:
        closed = threading.Event()

        def write(self, span):
            return b"a span"

        def export(self, batch):
            raise OSError("no route")

        def close(self):
            self.closed.set()

    known = spans()
    pump = SpanPump(known, Broken())
    pump.start()
    known.end(Span("work", known.context(), None, 1, 2, {}))
    pump.close()
    assert Broken.closed.is_set()
    assert (known.queued, pump.exported, pump.failed) == (0, 0, 1)


def test_sampling_of_records_by_percent() -> None:
    assert [stride_of(percent) for percent in (0, 1, 10, 100)] == [0, 100, 10, 1]


async def test_the_page_answers_only_what_it_knows() -> None:
    registry = Registry()
    registry.counter(READS, "t").add(3)
    page = MetricsEndpoint(registry)
    port = await page.start("127.0.0.1", 0)

    async def ask(request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    found = await asyncio.to_thread(scrape, f"127.0.0.1:{port}")
    assert found == {("test_reads_total", frozenset({("topic", "t")})): 3}
    assert (await ask(b"GET /secrets HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
    assert (await ask(b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
    assert await ask(b"x" * 20_000) == b""
    await page.close()
