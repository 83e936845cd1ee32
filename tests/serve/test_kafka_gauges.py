"""What storage kafka counts is in the metrics of the process."""

from types import SimpleNamespace

from sharemesh.backends.kafka.shard_logs.log_counts import StampedLogCounts
from sharemesh.kafka.traffic import BrokerTraffic
from sharemesh.ports.cluster import ShardKind
from sharemesh.serve.storage.kafka_gauges import register_kafka_gauges
from sharemesh.telemetry.metrics_http import expose
from sharemesh.telemetry.telemetry import without_export
from tests.telemetry.expressions import expressions, faults
from tests.telemetry.scrape import parse


def test_traffic_void_units_restamps_and_problems_are_read_at_each_collection():
    telemetry, traffic = without_export(lambda: 0), BrokerTraffic()
    counts: dict[ShardKind, StampedLogCounts] = {}
    tables = SimpleNamespace(storage_problems={}, losses={}, damages={})
    register_kafka_gauges(
        telemetry.registry,
        traffic,
        SimpleNamespace(shard_log_counts=counts),
        SimpleNamespace(tables=tables),
    )
    before = parse(expose(telemetry.registry.collect()))
    assert not faults(expressions()["alert SharemeshKafkaTopics"], [before])
    traffic.sent("Produce", "3")
    traffic.throttled("3", 1_500)
    counts[ShardKind.STATE] = StampedLogCounts(void=4, restamps=2)
    tables.losses["state-1"] = "lost"
    tables.damages["state-2"] = "a gap"
    told = {
        (name, *sorted(value for _, value in labels)): value
        for (name, labels), value in parse(expose(telemetry.registry.collect())).items()
    }
    assert told["share_kafka_requests_total", "3", "Produce"] == 1
    assert told["share_kafka_throttled_seconds_total", "3"] == 1.5
    assert told["share_kafka_void_units_total", "state"] == 4
    assert told["share_kafka_restamps_total", "state"] == 2
    assert told["share_kafka_storage_problems",] == 2
