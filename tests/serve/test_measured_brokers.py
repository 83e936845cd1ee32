"""Requests to brokers are measured by API, refusals by error; alerts name what there is."""

from random import Random

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    NewBrokerTopic,
    UnsupportedRequestError,
)
from sharemesh.serve.storage.measured_brokers import MeasuredBrokers
from sharemesh.telemetry.metrics_http import expose
from sharemesh.telemetry.telemetry import without_export
from sharemesh.testing.memory_brokers.cluster import MemoryCluster
from tests.contract.broker_fillings import batch_of
from tests.telemetry.expressions import expressions, faults
from tests.telemetry.scrape import parse, total

MISSING = BrokerPartition(TopicId(b"x" * 16), "missing", 0)
FAILURES = "share_kafka_request_failures_total"
COUNT = "share_kafka_request_duration_seconds_count"


@pytest.fixture
async def cluster():
    cluster = MemoryCluster(SystemClock(), Random(1))
    yield cluster
    await cluster.close()


@pytest.fixture
def telemetry():
    return without_export(lambda: 0)


@pytest.fixture
async def brokers(cluster, telemetry):
    found = MeasuredBrokers(cluster.client(), telemetry)
    yield found
    await found.close()


def page(telemetry):
    return [parse(expose(telemetry.registry.collect()))]


async def test_every_request_is_passed_on_and_counted_by_its_api(brokers, telemetry):
    await brokers.create_topic(NewBrokerTopic("orders", 1, 3, {}), timeout_ms=1_000)
    [topic] = (await brokers.metadata(["orders"])).topics
    place = BrokerPartition(topic.topic_id, "orders", 0)
    written = await brokers.produce(place, batch_of(b"one"), timeout_ms=1_000)
    assert written.base_offset == 0
    assert (await brokers.fetch(place, 0, max_bytes=1_000)).high_watermark == 1
    assert (await brokers.list_offset(place, EARLIEST_TIMESTAMP)).offset == 0
    await brokers.end_offset_of_epoch(place, 0)
    assert await brokers.delete_records(place, 1, timeout_ms=1_000) == 1
    await brokers.create_partitions("orders", 2, timeout_ms=1_000)
    await brokers.alter_topic_configs("orders", {"retention.ms": "1"})
    assert (await brokers.topic_configs("orders"))["retention.ms"] == "1"
    await brokers.new_producer_id()
    await brokers.watch().close()
    await brokers.delete_topic("orders", timeout_ms=1_000)
    apis = {dict(labels)["api"] for name, labels in page(telemetry)[0] if name == COUNT}
    wanted = {name for name in dir(MeasuredBrokers) if not name.startswith("_")}
    assert apis == wanted - {"watch", "close"}
    assert total(page(telemetry), FAILURES) == 0


async def test_refusals_are_counted_by_their_error(cluster, brokers, telemetry):
    with pytest.raises(BrokerRefusedError):
        await brokers.fetch(MISSING, 0, max_bytes=1_000)
    cluster.unsupported["delete_records"] = None
    with pytest.raises(UnsupportedRequestError):
        await brokers.delete_records(MISSING, 1, timeout_ms=1_000)
    for broker_id in list(cluster.brokers):
        cluster.kill(broker_id)
    with pytest.raises(BrokerUnreachableError):
        await brokers.metadata()
    failed = {
        (dict(labels)["api"], dict(labels)["error"]): value
        for (name, labels), value in page(telemetry)[0].items()
        if name == FAILURES and value
    }
    assert failed.pop(("delete_records", "unsupported")) == 1
    assert failed.pop(("metadata", "unreachable")) == 1
    [(api, error)] = failed
    assert api == "fetch"
    assert error.startswith("unknown_topic")


@pytest.mark.usefixtures("brokers")
async def test_alerts_name_metrics_that_are_there_before_anything_fails(brokers, telemetry):
    await brokers.metadata()
    mine = [text for text in expressions().values() if "share_kafka_request" in text]
    assert len(mine) >= 2
    for text in mine:
        assert faults(text, page(telemetry)) == []
