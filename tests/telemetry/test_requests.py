"""Requests answered: SERVER spans, what is a child of them, and the trace ids of log lines."""

import io
import json
import logging
import random

import pytest

from sharemesh import methods
from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_partition.effects import (
    AcquiredRun,
    Answered,
    LocksExpired,
    RecordsAcquired,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    StateWritten,
    Tick,
)
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.serve.process.measured_listener import MeasuredListener
from sharemesh.share_leader.telemetry.partition_telemetry import PartitionTelemetry
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.logs import set_up_logs
from sharemesh.telemetry.spans import SpanKind, Spans
from sharemesh.telemetry.telemetry import Telemetry

KEY = SharePartitionKey(GroupId("g"), TopicId(b"t" * 16), 3)
MEMBER = MemberId("m1")
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Offered:
    """What a service offered, called as the transport calls it."""

    def __init__(self):
        self.handlers = {}

    def offer(self, method, handler):
        self.handlers[method.name] = handler

    offer_stream = offer


def world(*, enabled=True):
    ticks = iter(range(1_000, 100_000, 10))
    spans = Spans(enabled=enabled, rng=random.Random(1), now_ns=lambda: next(ticks))
    telemetry = Telemetry(Registry(), spans)
    offered = Offered()
    watch = PartitionTelemetry(telemetry, KEY, "orders", 5)
    return MeasuredListener(offered, telemetry), offered.handlers, spans, watch


def context(*metadata):
    return CallContext("peer", metadata=metadata)


def acquire(watch):
    event = Acquire(1, MEMBER, AcquireMode.BATCH_OPTIMIZED, 10, 10, 0, ())
    watch.saw(event, (RecordsAcquired(1, (AcquiredRun(0, 9, 1),), 10),))


def acknowledge(watch, kind=AcknowledgeType.ACCEPT, error=ErrorCode.NONE):
    batch = StateBatch(0, 9, DeliveryState.ACKNOWLEDGED, 1, Cause.ACCEPT)
    write = WriteState(1, 1, 5, 10, 0, (batch,), Cause.ACCEPT, MEMBER)
    watch.saw(Acknowledge(2, MEMBER, (AcknowledgementBatch(0, 9, (kind,)),)), (write,))
    watch.saw(StateWritten(1, error, "why"), (Answered(2, error),))


async def test_acquisition_and_settlement_are_children_of_their_calls():
    listener, handlers, spans, watch = world()

    async def fetch(_, __):
        acquire(watch)

    async def settle(_, __):
        acknowledge(watch)

    listener.offer(methods.SHARE_FETCH, fetch)
    listener.offer(methods.SHARE_ACKNOWLEDGE, settle)
    await handlers[methods.SHARE_FETCH.name](None, context(("traceparent", CALLER)))
    await handlers[methods.SHARE_ACKNOWLEDGE.name](None, context())
    acquired, fetched, written, settled, acknowledged = spans.take(10)
    assert fetched.name == "sharemesh.v1.ShareLeader/ShareFetch"
    assert (fetched.kind, fetched.attributes["rpc.response.status_code"]) == (SpanKind.SERVER, "OK")
    assert fetched.parent.traceparent() == CALLER
    assert fetched.context.trace_id == fetched.parent.trace_id
    assert acquired.parent == fetched.context
    assert acquired.context.trace_id == fetched.context.trace_id
    assert (acknowledged.parent, settled.parent) == (None, acknowledged.context)
    assert settled.links == [acquired.context]
    assert written.parent == settled.context


async def test_what_is_done_for_a_caller_that_is_not_sampled_is_not_recorded():
    listener, handlers, spans, watch = world()

    async def fetch(_, __):
        acquire(watch)

    listener.offer(methods.SHARE_FETCH, fetch)
    caller = CALLER.removesuffix("01") + "00"
    await handlers[methods.SHARE_FETCH.name](None, context(("traceparent", caller)))
    assert (spans.take(10), spans.finished) == ([], 0)


async def test_what_a_stream_does_links_to_it_and_has_traces_of_its_own():
    listener, handlers, spans, watch = world()

    async def consume(_, __):
        acquire(watch)
        acknowledge(watch)

    listener.offer_stream(methods.CONSUME, consume)
    await handlers[methods.CONSUME.name](None, context())
    acquired, _, settled, stream = spans.take(10)
    assert acquired.parent is None
    assert acquired.links == [stream.context]
    assert settled.parent == acquired.context


async def test_expiry_is_nobodys_request():
    """A timer inherits the request that set it; by then that one is answered."""
    listener, handlers, spans, watch = world()
    batch = StateBatch(0, 9, DeliveryState.AVAILABLE, 1, Cause.LOCK_EXPIRY)
    write = WriteState(1, 1, 5, 10, 0, (batch,), Cause.LOCK_EXPIRY, MEMBER)

    async def fetch(_, __):
        acquire(watch)
        watch.saw(Tick(), (LocksExpired(10), write))

    listener.offer(methods.SHARE_FETCH, fetch)
    await handlers[methods.SHARE_FETCH.name](None, context())
    acquired, expired, call = spans.take(10)
    assert expired.name == "lock_timeout orders"
    assert (expired.parent, expired.links) == (None, [acquired.context])
    assert expired.context.trace_id == call.context.trace_id


@pytest.mark.parametrize(
    ("raised", "status", "error"),
    [
        (CallFailedError(Failure.RESOURCE_EXHAUSTED, "x"), *["RESOURCE_EXHAUSTED"] * 2),
        (ValueError("x"), "INTERNAL", "ValueError"),
    ],
)
async def test_a_call_that_fails_says_so_in_its_span(raised, status, error):
    listener, handlers, spans, _ = world()

    async def fail(_, __):
        raise raised

    listener.offer(methods.SHARE_FETCH, fail)
    with pytest.raises(type(raised)):
        await handlers[methods.SHARE_FETCH.name](None, context())
    (span,) = spans.take(10)
    assert (span.attributes["rpc.response.status_code"], span.error) == (status, error)


async def test_without_an_exporter_no_span_is_made():
    listener, handlers, spans, watch = world(enabled=False)

    async def fetch(_, __):
        acquire(watch)
        acknowledge(watch)

    listener.offer(methods.SHARE_FETCH, fetch)
    await handlers[methods.SHARE_FETCH.name](None, context())
    assert (spans.queued, spans.finished) == (0, 0)


@pytest.fixture
def lines():
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    set_up_logs(log_format="json", level="debug", origin={"role": "test"}, stream=stream)

    def read():
        found = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in found if line["logger"] != "asyncio"]

    yield read
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)


async def test_log_lines_of_a_request_name_its_trace(lines):
    listener, handlers, spans, _ = world()
    log = logging.getLogger("sharemesh.test")

    async def fetch(_, __):
        log.info("looked", extra={"partition": 3})

    listener.offer(methods.SHARE_FETCH, fetch)
    await handlers[methods.SHARE_FETCH.name](None, context())
    log.info("idle")
    during, after = lines()
    (span,) = spans.take(10)
    assert during["trace_id"] == f"{span.context.trace_id:032x}"
    assert during["span_id"] == f"{span.context.span_id:016x}"
    assert "trace_id" not in after


def test_renewals_are_logged_at_debug_with_their_trace(lines):
    """KIP-1222: they happen all the time."""
    _, __, spans, watch = world()
    acquire(watch)
    acknowledge(watch, AcknowledgeType.RENEW)
    (line,) = lines()
    settled = next(span for span in spans.take(10) if span.name == "settle orders")
    assert (line["level"], line["event"]) == ("debug", "acquisition locks renewed")
    assert (line["group"], line["member"], line["partition"]) == ("g", "m1", 3)
    assert (line["records"], line["trace_id"]) == (10, settled.context.ids()["trace_id"])


def test_what_wakes_somebody_up_is_a_warning_with_its_trace(lines):
    _, __, ___, watch = world()
    acquire(watch)
    acknowledge(watch, error=ErrorCode.FENCED_LEADER_EPOCH)
    batch = StateBatch(0, 4, DeliveryState.ARCHIVED, 5, Cause.DELIVERY_LIMIT)
    write = WriteState(7, 1, 5, 10, 0, (batch,), Cause.LOCK_EXPIRY, MEMBER)
    watch.saw(Tick(), (LocksExpired(5), write))
    watch.saw(StateWritten(7), ())
    failed, given_up = lines()
    assert (failed["level"], failed["error"]) == ("warning", "FENCED_LEADER_EPOCH")
    assert failed["trace_id"]
    assert (given_up["event"], given_up["records"]) == ("records reached the delivery limit", 5)
    assert given_up["trace_id"]
