"""Metrics of the shards of one kind: commits as they happen, sizes when metrics are collected."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Observation
from sharemesh.telemetry.spans import Span
from sharemesh.telemetry.telemetry import Telemetry


class Measured(Protocol):
    """What metrics need of a shard."""

    @property
    def index(self) -> int:
        """The shard's number."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that still counts."""
        ...

    @property
    def log_length(self) -> int:
        """Offsets between log start and end."""
        ...

    @property
    def waiting_count(self) -> int:
        """Requests that wait for a commit."""
        ...


class ShardTelemetry:
    """Metrics and spans of the shards of one kind."""

    def __init__(self, telemetry: Telemetry, kind: str) -> None:
        registry = telemetry.registry
        self.now_ns = telemetry.spans.now_ns
        self._spans = telemetry.spans
        self._registry = registry
        self._kind = kind
        self._duration = registry.histogram(names.COMMIT_DURATION, kind)
        self._records = registry.histogram(names.COMMIT_RECORDS, kind)
        self._requests = registry.histogram(names.COMMIT_REQUESTS, kind)
        self._writes = registry.histogram(names.COORDINATOR_WRITE_DURATION, kind)
        self._loads = registry.histogram(names.SHARD_LOAD_DURATION, kind)

    def committed(self, began_ns: int, records: int, requests: int) -> None:
        """One group commit is durable (spec MET-6)."""
        self._duration.record((self.now_ns() - began_ns) / 1e9)
        self._records.record(records)
        self._requests.record(requests)

    def wrote(self, began_ns: int) -> None:
        """A request that changed something is durable (spec MET-6)."""
        self._writes.record((self.now_ns() - began_ns) / 1e9)

    def loaded(self, shard: int, epoch: int, began_ns: int) -> None:
        """A shard was taken over and loaded."""
        now_ns = self.now_ns()
        self._loads.record((now_ns - began_ns) / 1e9)
        if self._spans.enabled:
            attributes = {
                names.COORDINATOR_KIND: self._kind,
                names.COORDINATOR_SHARD: shard,
                names.COORDINATOR_EPOCH: epoch,
            }
            name = f"{names.SHARD_CHANGE} {self._kind}"
            context = self._spans.context()
            self._spans.end(Span(name, context, None, began_ns, now_ns, attributes))

    def register(
        self, served: Callable[[], Iterable[Measured]], loading: Callable[[], int]
    ) -> None:
        """Register what is read at collection: of the served shards, and how many load."""
        kind = self._kind

        def count() -> Iterator[Observation]:
            yield (kind, "active"), sum(1 for _ in served())
            yield (kind, "loading"), loading()

        def starts() -> Iterator[Observation]:
            for shard in served():
                yield (kind, str(shard.index)), shard.log_start_offset

        def lengths() -> Iterator[Observation]:
            for shard in served():
                yield (kind, str(shard.index)), shard.log_length

        def queue() -> Iterator[Observation]:
            yield (kind,), sum(shard.waiting_count for shard in served())

        self._registry.observe(names.SHARDS, count)
        self._registry.observe(names.LAST_PRUNED_OFFSET, starts)
        self._registry.observe(names.COORDINATOR_LOG_LENGTH, lengths)
        self._registry.observe(names.COORDINATOR_QUEUE, queue)
