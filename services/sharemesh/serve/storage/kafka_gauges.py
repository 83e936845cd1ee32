"""Metrics of storage kafka that are read at each collection."""

from collections.abc import Iterator

from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.kafka.traffic import BrokerTraffic
from sharemesh.serve.storage.kafka import KafkaStorage
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Observation, Registry


def register_kafka_gauges(
    registry: Registry, traffic: BrokerTraffic, storage: KafkaStorage, view: WatchedView
) -> None:
    """Register what was sent to brokers, how shard logs fare, and what is wrong with the topics."""

    def void() -> Iterator[Observation]:
        for kind, counts in storage.shard_log_counts.items():
            yield (str(kind),), counts.void

    def restamps() -> Iterator[Observation]:
        for kind, counts in storage.shard_log_counts.items():
            yield (str(kind),), counts.restamps

    def problems() -> Iterator[Observation]:
        tables = view.tables
        yield (), len(tables.storage_problems) + len(tables.losses) + len(tables.damages)

    registry.observe(names.KAFKA_REQUESTS, traffic.requests.items)
    registry.observe(
        names.KAFKA_THROTTLED,
        lambda: [((broker,), ms / 1_000) for broker, ms in traffic.throttled_ms.items()],
    )
    registry.observe(names.KAFKA_VOID_UNITS, void)
    registry.observe(names.KAFKA_RESTAMPS, restamps)
    registry.observe(names.STORAGE_PROBLEMS, problems)
