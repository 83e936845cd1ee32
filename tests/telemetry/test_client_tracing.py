"""Producers put the current span into record headers; consumers link to it."""

import logging

from opentelemetry import trace

from sharemesh.client import AcknowledgeType
from sharemesh.client.records import ConsumerRecord
from sharemesh.client.tracing import producer_links, with_trace_context
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import explicit_of

OURS = (("kind", b"order"),)


def span_context(number: int, flags: int = 1) -> trace.SpanContext:
    state = trace.TraceState([("vendor", "x")])
    return trace.SpanContext(number, number, True, trace.TraceFlags(flags), state)


def headers_in(context: trace.SpanContext, headers=OURS):
    with trace.use_span(trace.NonRecordingSpan(context)):
        return with_trace_context(headers)


def record(offset: int, headers) -> ConsumerRecord:
    return ConsumerRecord("orders", 0, offset, 0, None, b"v", headers, 1, 1, b"t" * 16)


def test_without_a_span_headers_stay_as_they_are() -> None:
    assert with_trace_context(OURS) is OURS


def test_the_current_span_goes_into_the_headers() -> None:
    assert headers_in(span_context(10)) == (
        *OURS,
        ("traceparent", b"00-%032x-%016x-01" % (10, 10)),
        ("tracestate", b"vendor=x"),
    )


def test_a_context_that_is_there_is_kept() -> None:
    first = headers_in(span_context(10))
    assert headers_in(span_context(11), first) == first


def test_consumers_link_to_sampled_producers_at_most_32() -> None:
    records = [record(n, headers_in(span_context(n + 1, n % 2))) for n in range(100)]
    links = producer_links(records)
    assert [link.context.trace_id for link in links] == list(range(2, 66, 2))
    assert producer_links([record(0, ())]) == []


async def test_clients_log_renewals_at_debug_only(caplog):
    """KIP-1222: they happen all the time."""
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    with caplog.at_level(logging.DEBUG, logger="sharemesh.client"):
        async with await explicit_of(cluster) as consumer:
            first, second = await consumer.poll(5_000)
            consumer.acknowledge(first)
            consumer.acknowledge(second, AcknowledgeType.RENEW)
            assert list((await consumer.commit_sync(1_000)).values()) == [None]
            await consumer.poll(5_000)
            consumer.acknowledge(second)
    lines = [record for record in caplog.records if "renewed" in record.message]
    assert [(line.levelname, line.message) for line in lines] == [
        ("DEBUG", "1 acquisition locks of t/0 renewed")
    ]
