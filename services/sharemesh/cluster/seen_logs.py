"""How far logs on Kafka were confirmed, kept in the coordination store (STL-24, KRL-18)."""

from collections.abc import Callable

from sharemesh.cluster.noted_values import NotedValues, ValueRules
from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.seen_records import (
    decode_partition,
    decode_seen,
    encode_partition,
    encode_seen,
)
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.seen_partition import SeenPartition, seen_together
from sharemesh.domain.stamped_log.seen import LostUnits, SeenUnits, merged
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.shard_log import LogFailedError

UNITS_INTERVAL_MS = 1_000
PARTITIONS_INTERVAL_MS = 10_000


class SeenLogsInStore:
    """Fills ``ports.seen_units.SeenLogs``."""

    def __init__(self, coordination: Coordination, cluster_id: str, clock: Clock) -> None:
        what = "how far shard logs were confirmed"
        rules = ValueRules(what, encode_seen, decode_seen, merged, UNITS_INTERVAL_MS)
        self._values = NotedValues(coordination, clock, rules)
        self._key = Keys(cluster_id).seen_log

    async def stored(self, name: str) -> SeenUnits | None:
        """Return what is remembered of a log; None: nothing yet."""
        try:
            return await self._values.read(self._key(name))
        except CoordinationError as error:
            raise _not_known(f"shard {name}", error) from error

    async def took_over(self, name: str, own: SeenUnits) -> SeenUnits:
        """Remember what a take-over found, before anything is served; return what then stands."""
        try:
            return await self._values.add(self._key(name), own)
        except CoordinationError as error:
            raise _not_known(f"shard {name}", error) from error

    def note(self, name: str, own: SeenUnits, on_loss: Callable[[LostUnits], None]) -> None:
        """Remember what an owner has confirmed, within a second."""

        def hear(seen: SeenUnits) -> None:
            if seen.loss is not None:
                on_loss(seen.loss)

        self._values.note(self._key(name), lambda: own, hear)

    async def settle(self, name: str) -> None:
        """Write what was noted of a log, if that is possible soon."""
        await self._values.settle(self._key(name))

    async def close(self) -> None:
        """Stop writing."""
        await self._values.close()


class SeenPartitionsInStore:
    """Fills ``ports.seen_partitions.SeenPartitions``."""

    def __init__(self, coordination: Coordination, cluster_id: str, clock: Clock) -> None:
        what = "how far partitions were confirmed"
        rules = ValueRules(
            what, encode_partition, decode_partition, seen_together, PARTITIONS_INTERVAL_MS
        )
        self._values = NotedValues(coordination, clock, rules)
        self._key = Keys(cluster_id).seen_partition

    async def stored(self, partition: TopicPartition) -> SeenPartition | None:
        """Return what is remembered of a partition; None: nothing yet."""
        try:
            return await self._values.read(self._key(partition))
        except CoordinationError as error:
            name = f"partition {partition.topic_id.hex()}/{partition.partition}"
            raise _not_known(name, error) from error

    def note(self, partition: TopicPartition, own: Callable[[], SeenPartition]) -> None:
        """Remember what a leader knows, within 10 s."""
        self._values.note(self._key(partition), own)

    async def settle(self, partition: TopicPartition) -> None:
        """Write what was noted of a partition, if that is possible soon."""
        await self._values.settle(self._key(partition))

    def forget(self, partition: TopicPartition) -> None:
        """Keep nothing of it in memory but what is still to be written."""
        self._values.forget(self._key(partition))

    async def close(self) -> None:
        """Stop writing."""
        await self._values.close()


def _not_known(name: str, error: CoordinationError) -> LogFailedError:
    return LogFailedError(
        f"{name}: the coordination store does not say how far its log was confirmed: {error}"
    )
