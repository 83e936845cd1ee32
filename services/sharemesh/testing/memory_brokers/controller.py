"""The controller: topics, leaders, in-sync replicas; brokers hear of it after a delay."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import NewBrokerTopic, PartitionMetadata
from sharemesh.testing.memory_brokers.broker import MemoryBroker
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.cluster_image import SETTINGS, BrokerTopic, ClusterImage
from sharemesh.testing.memory_brokers.replica import Replica
from sharemesh.testing.memory_brokers.schedule import Schedule

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_COMPRESSIONS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")


class Controller:
    """Decides; what it decided holds at once, also where nobody has heard of it yet.

    Attributes:
        image: What it decided.
        news_delay_ms: Returns how long a broker takes to hear of the next decision.
    """

    def __init__(self, schedule: Schedule, rng: Random, defaults: Mapping[str, str]) -> None:
        self.image = ClusterImage({}, {}, ())
        self.news_delay_ms: Callable[[], float] = lambda: 0.0
        self._schedule = schedule
        self._rng = rng
        self._defaults = dict(defaults)
        self._brokers: dict[int, MemoryBroker] = {}
        self._pending: dict[int, None] = {}

    # ---- brokers ----------------------------------------------------------------------------

    def register(self, broker: MemoryBroker) -> None:
        """A broker is there, perhaps again: it may lead."""
        self._brokers[broker.broker_id] = broker
        if broker.broker_id not in self.image.living:
            living = tuple(sorted((*self.image.living, broker.broker_id)))
            self.image = replace(self.image, living=living)
        for topic, each in self._partitions():
            if each.leader < 0 and broker.broker_id in each.in_sync:
                self.lead(topic, each, broker.broker_id)
        self.publish()

    def fence(self, broker_id: int) -> None:
        """A broker was not heard of for its session time-out: others lead."""
        if broker_id not in self.image.living:
            return
        living = tuple(each for each in self.image.living if each != broker_id)
        self.image = replace(self.image, living=living)
        for topic, each in self._partitions():
            if broker_id not in each.in_sync:
                continue
            left = tuple(other for other in each.in_sync if other != broker_id) or each.in_sync
            if each.leader == broker_id:
                able = [other for other in each.replicas if other in left and other in living]
                self.lead(topic, each, able[0] if able else -1, in_sync=left)
            else:
                self._put(topic, replace(each, in_sync=left))
        self.publish()

    def publish(self) -> None:
        """Let every broker that listens hear the newest image."""
        for broker in self._brokers.values():
            self.tell(broker)

    def tell(self, broker: MemoryBroker) -> None:
        """Let one broker hear the newest image, after a delay."""
        delay_ms = self.news_delay_ms()
        if delay_ms <= 0:
            self._hear(broker)
        elif broker.broker_id not in self._pending:
            self._pending[broker.broker_id] = None
            self._schedule.later(delay_ms, partial(self._hear_later, broker))

    def _hear_later(self, broker: MemoryBroker) -> None:
        self._pending.pop(broker.broker_id, None)
        self._hear(broker)

    def _hear(self, broker: MemoryBroker) -> None:
        if broker.runs and not broker.deaf and broker.image is not self.image:
            broker.hear(self.image)

    # ---- leaders ----------------------------------------------------------------------------

    def partition(self, topic: str, partition: int) -> tuple[BrokerTopic, PartitionMetadata]:
        """Return a partition as decided.

        Raises:
            BrokerRefusedError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        image = self.image.topics.get(topic)
        if image is None or not 0 <= partition < len(image.partitions):
            raise refusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        return image, image.partitions[partition]

    def lead(
        self,
        topic: BrokerTopic,
        partition: PartitionMetadata,
        leader: int,
        *,
        in_sync: tuple[int, ...] | None = None,
    ) -> None:
        """Give a partition another leader, under the next leader epoch."""
        changed = replace(
            partition,
            leader=leader,
            leader_epoch=partition.leader_epoch + 1,
            in_sync=partition.in_sync if in_sync is None else in_sync,
        )
        self._put(topic, changed)

    def change_in_sync(
        self, leader: MemoryBroker, replica: Replica, in_sync: tuple[int, ...]
    ) -> None:
        """A leader asks for other in-sync replicas; refused if it is not the leader, or fenced."""
        topic = self.image.by_id(replica.key[0])
        if leader.deaf or topic is None:
            return
        decided = topic.partitions[replica.key[1]]
        if decided.leader != leader.broker_id or decided.leader_epoch != replica.epoch:
            return
        able = tuple(
            each for each in decided.replicas if each in in_sync and each in self.image.living
        )
        if able and able != decided.in_sync:
            self._put(topic, replace(decided, in_sync=able))
            # The leader waits for who joins before it hears so: another may lead from now on.
            replica.in_sync = tuple(dict.fromkeys((*replica.in_sync, *able)))
            self.publish()

    # ---- topics -----------------------------------------------------------------------------

    def create(self, new: NewBrokerTopic) -> TopicId:
        """Create a topic.

        Raises:
            BrokerRefusedError: As a controller refuses.
        """
        if not _NAME.fullmatch(new.topic) or new.topic in (".", ".."):
            raise refusal(BrokerCode.INVALID_TOPIC_EXCEPTION, new.topic)
        if new.topic in self.image.topics:
            raise refusal(BrokerCode.TOPIC_ALREADY_EXISTS, new.topic)
        if new.partitions < 1:
            raise refusal(BrokerCode.INVALID_PARTITIONS, f"{new.partitions} partitions")
        factor = (
            min(3, len(self._brokers)) if new.replication_factor < 0 else new.replication_factor
        )
        if not 1 <= factor <= len(self.image.living):
            detail = f"{factor} replicas, {len(self.image.living)} brokers"
            raise refusal(BrokerCode.INVALID_REPLICATION_FACTOR, detail)
        check_settings(new.configs)
        topic_id = TopicId(self._rng.randbytes(16))
        configs = {**self._defaults, **new.configs}
        first = self._rng.randrange(len(self.image.living))
        partitions = self._placed(range(new.partitions), factor, first)
        self.image = self.image.with_topic(BrokerTopic(new.topic, topic_id, partitions, configs))
        self.publish()
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic.

        Raises:
            BrokerRefusedError: There is no such topic, or it has so many already.
        """
        topic, first = self.partition(name, 0)
        have = len(topic.partitions)
        if partitions <= have:
            raise refusal(BrokerCode.INVALID_PARTITIONS, f"{name} has {have} partitions")
        added = self._placed(range(have, partitions), len(first.replicas), have)
        changed = replace(topic, partitions=(*topic.partitions, *added))
        self.image = self.image.with_topic(changed)
        self.publish()

    def delete(self, name: str) -> None:
        """Delete a topic.

        Raises:
            BrokerRefusedError: There is none of this name.
        """
        self.partition(name, 0)
        self.image = self.image.without_topic(name)
        self.publish()

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None: back to the default.

        Raises:
            BrokerRefusedError: There is no such topic or setting.
        """
        topic, _ = self.partition(name, 0)
        check_settings({key: value for key, value in changes.items() if value is not None})
        configs = {**topic.configs, **{key: value or "" for key, value in changes.items()}}
        for key, value in changes.items():
            if value is None:
                del configs[key]
                if key in self._defaults:
                    configs[key] = self._defaults[key]
        self.image = self.image.with_topic(replace(topic, configs=configs))
        self.publish()

    def _placed(self, numbers: range, factor: int, first: int) -> tuple[PartitionMetadata, ...]:
        living = self.image.living
        placed = []
        for number in numbers:
            start = first + number
            chosen = tuple(living[(start + step) % len(living)] for step in range(factor))
            placed.append(PartitionMetadata(number, chosen[0], 0, chosen, chosen))
        return tuple(placed)

    def _partitions(self) -> list[tuple[BrokerTopic, PartitionMetadata]]:
        return [(topic, each) for topic in self.image.topics.values() for each in topic.partitions]

    def _put(self, topic: BrokerTopic, changed: PartitionMetadata) -> None:
        current = self.image.topics[topic.name]
        partitions = list(current.partitions)
        partitions[changed.partition] = changed
        self.image = self.image.with_topic(replace(current, partitions=tuple(partitions)))


def check_settings(configs: Mapping[str, str]) -> None:
    """Refuse settings that are not known here.

    Raises:
        BrokerRefusedError: INVALID_CONFIG.
    """
    for name, value in configs.items():
        if name not in SETTINGS:
            raise refusal(BrokerCode.INVALID_CONFIG, f"unknown setting {name}")
        if SETTINGS[name].lstrip("-").isdigit() and not value.lstrip("-").isdigit():
            raise refusal(BrokerCode.INVALID_CONFIG, f"{name} = {value!r} is no number")
        if name == "compression.type" and value not in _COMPRESSIONS:
            raise refusal(BrokerCode.INVALID_CONFIG, f"{name} = {value!r}")
