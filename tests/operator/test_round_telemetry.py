"""What the operator tells of its rounds: spans and how long they took."""

import asyncio
import random

import aiohttp
import pytest

from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.spans import Spans
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh_operator.cluster.work_queue import Key, told
from tests.telemetry.collector import collector

KEY = Key("ShareGroup", "billing")


def telemetry():
    ticks = iter(range(0, 1_000_000_000, 1_000_000))
    return Telemetry(
        Registry(), Spans(enabled=True, rng=random.Random(1), now_ns=lambda: next(ticks))
    )


async def one_round(work):
    """Run a round, return its span and the labels under which it was measured."""
    made = telemetry()
    try:
        await told(work, made, "queues", lambda key: 7)(KEY)
    except BaseException:  # as the queue would
        assert work is not done
    (span,) = made.spans.take(10)
    (reading,) = made.registry.collect()
    ((labels, histogram),) = reading.histograms
    assert (histogram.count, histogram.total) == (1, 0.001)
    return span, labels


async def done(key):
    return 5_000


async def failing(key):
    raise OSError("no route to the API server")


async def cancelled(key):
    raise asyncio.CancelledError


async def test_each_round_gets_one_span_and_one_measurement_whatever_becomes_of_it() -> None:
    for work, outcome, error in (
        (done, "done", ""),
        (failing, "failed", "OSError"),
        (cancelled, "cancelled", ""),
    ):
        span, labels = await one_round(work)
        assert (span.name, span.error, labels) == (
            "reconcile ShareGroup",
            error,
            ("ShareGroup", outcome),
        )
        assert span.attributes == {
            names.K8S_NAMESPACE: "queues",
            names.OBJECT_KIND: "ShareGroup",
            names.OBJECT_NAME: "billing",
            names.OBJECT_GENERATION: 7,
            names.RECONCILE_OUTCOME: outcome,
        }


async def test_a_round_says_when_to_come_again() -> None:
    assert await told(done, telemetry(), "queues", lambda key: 0)(KEY) == 5_000


@pytest.mark.integration
@pytest.mark.timeout(120)
async def test_a_collector_gets_the_rounds_and_placement_of_a_cluster(land) -> None:
    with collector() as receiver:
        process = await land.start_operator(telemetry_endpoint=receiver.endpoint)
        await land.cluster()
        await land.topic()
        await land.condition("ShareCluster", "main", "True", "AllLeadersServing")
        url = f"http://127.0.0.1:{process.ports[1]}/metrics"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            page = await answer.text()
        counted = 'share_operator_reconcile_duration_seconds_count{kind="ShareCluster",'
        assert counted + 'outcome="done"}' in page
        await land.stop_operator(process)
        found = {span.name: span for span in receiver.spans}
        assert {"reconcile ShareCluster", "reconcile ShareTopic", "placement"} <= set(found)
        attributes = {each.key: each.value for each in found["reconcile ShareCluster"].attributes}
        assert attributes[names.OBJECT_NAME].string_value == "main"
        assert attributes[names.OBJECT_GENERATION].int_value >= 1
        assert receiver.resources[0]["service.name"] == "operator"
