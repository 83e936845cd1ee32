"""Spans of requests of Kafka's clients (KLS-26): one a request, and what is done for it below."""

import asyncio
import random
import struct

import pytest

from sharemesh import methods
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.traced_answers import TracedAnswers
from sharemesh.ports.network import CallContext
from sharemesh.serve.process.measured_listener import MeasuredListener
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.spans import SpanKind, Spans
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.telemetry.trace_context import current_request
from sharemesh.v1 import admin_pb2
from tests.kafka_listener.asked import DESCRIBE_CLUSTER, METADATA, orders, produce
from tests.kafka_listener.world import ListeningMesh

CLUSTER = {
    "include_cluster_authorized_operations": False,
    "endpoint_type": 1,
    "include_fenced_brokers": False,
}


def spans_of():
    ticks = iter(range(1_000, 1_000_000, 10))
    return Spans(enabled=True, rng=random.Random(1), now_ns=lambda: next(ticks))


class TracedMesh(ListeningMesh):
    """A listener that writes spans."""

    async def __aenter__(self):
        found = await super().__aenter__()
        self.spans = spans_of()
        self.listener._answers = TracedAnswers(self.listener._answers, self.spans)
        return found

    def written(self):
        return {each.name: each for each in self.spans.take(100)}


async def test_each_request_is_one_span_with_api_and_version():
    """KLS-26."""
    async with TracedMesh() as mesh, mesh.connect() as client:
        topic_id = await orders(mesh)
        await produce(client, topic_id, b"a")
        await client.ask(DESCRIBE_CLUSTER, 2, **CLUSTER)
        written = mesh.written()
        assert set(written) == {"kafka.Metadata", "kafka.Produce", "kafka.DescribeCluster"}
        span = written["kafka.Produce"]
        assert (span.kind, span.parent, span.error) == (SpanKind.SERVER, None, "")
        assert span.attributes == {
            names.RPC_SYSTEM: "kafka",
            names.RPC_METHOD: "Produce",
            names.RPC_STATUS: "OK",
            names.KAFKA_API_VERSION: 13,
        }
        assert span.start_ns < span.end_ns
        counted = mesh.counted(names.KAFKA_LISTENER_REQUESTS)
        assert counted[("Produce", "13")] == counted[("DescribeCluster", "2")] == 1


async def test_a_request_whose_connection_is_closed_says_why():
    """KLS-4, KLS-26."""
    async with TracedMesh() as mesh, mesh.connect() as client:
        client.send(METADATA, 1, topics=[{"name": ""}] * 20_001)
        assert await client.is_closed()
        span = mesh.written()["kafka.Metadata"]
        assert (span.error, span.attributes.get(names.RPC_STATUS)) == ("too_many_parts", None)


async def test_what_is_done_for_a_request_belongs_to_it_until_its_client_leaves():
    """KLS-26."""
    spans, begun, seen = spans_of(), asyncio.Event(), []

    class Waiting:
        handlers = None

        async def answer(self, *_):
            seen.append(current_request())
            begun.set()
            await asyncio.Event().wait()

    frame = struct.pack(">hh", METADATA, 13)
    traced = TracedAnswers(Waiting(), spans)
    asked = asyncio.create_task(traced.answer(frame, CallContext("peer"), None, None))
    await begun.wait()
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    [span] = spans.take(10)
    assert (span.error, span.context) == ("CancelledError", seen[0].context)
    assert not seen[0].open


@pytest.mark.parametrize("in_span", [True, False])
async def test_a_call_of_a_request_that_has_a_span_has_none_of_its_own(in_span):
    """KLS-26: what is done for it is a child of the request."""
    spans, offered, seen = spans_of(), OfferedHandlers(), []

    async def describe(_, __):
        seen.append(current_request())
        return admin_pb2.MetadataResponse()

    async def hold(_, __):
        return None

    measured = MeasuredListener(offered, Telemetry(Registry(), spans))
    measured.offer(methods.METADATA, describe)
    measured.offer_stream(methods.HOLD_SESSION, hold)
    context = CallContext("peer", in_span=in_span)
    await offered.call(methods.METADATA, admin_pb2.MetadataRequest(), context)
    await offered.stream(methods.HOLD_SESSION)(None, context)
    assert len(spans.take(10)) == (0 if in_span else 2)
    assert (seen == [None]) == in_span
