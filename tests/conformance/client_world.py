"""What the client's scenarios need: topics and groups of their own on one running cluster."""

import itertools
import time
from collections.abc import Callable

from sharemesh.client import AdminClient, Producer, ShareConsumer, connect
from sharemesh.client.admin.client import LATEST
from sharemesh.client.admin_results import GroupOffset, TopicPartition

SHORT_LOCKS = ("--set", "group.share.min.record.lock.duration.ms=1000")
"""Options of ``up``: groups may ask for locks of one second."""


class ClientWorld:
    """Makes consumers, closes them, and waits for states with a deadline."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = connect(bootstrap)
        self.admin: AdminClient = self.cluster.admin()
        self.producer: Producer = self.cluster.producer(linger_ms=0)
        self._numbers = itertools.count(1)
        self._open: list[ShareConsumer] = []

    def close(self) -> None:
        self.end_test()
        self.producer.close()
        self.admin.close()

    def end_test(self) -> None:
        for consumer in self._open:
            consumer.close(2_000)
        self._open.clear()

    def topic(self, partitions: int = 1) -> str:
        name = f"topic-{next(self._numbers)}"
        self.admin.create_topic(name, partitions)
        self.until(lambda: self._led(name))
        return name

    def _led(self, name: str) -> bool:
        found = self.admin.describe_topics([name])[name]
        return all(each.leader_id for each in getattr(found, "partitions", [None]) if each)

    def group(self, **configs: object) -> str:
        name = f"group-{next(self._numbers)}"
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.in.flight.limit.type": "span",  # Kafka's
        }
        settings |= {key.replace("_", "."): str(value) for key, value in configs.items()}
        self.admin.alter_group_configs(name, settings)
        return name

    def produce(self, topic: str, count: int, *, batched: bool = False, partition: int = 0) -> None:
        """Produce values "0", "1"…; ``batched``: as one record batch."""
        if not batched:
            for number in range(count):
                self.producer.send(topic, str(number), partition=partition).result(20)
            return
        with self.cluster.producer(linger_ms=500, batch_size=4_000_000) as producer:
            for number in range(count):
                producer.send(topic, str(number), partition=partition)

    def consumer(self, topic: str, group: str, **config: object) -> ShareConsumer:
        consumer = self.cluster.share_consumer(group, [topic], **config)
        self._open.append(consumer)
        return consumer

    def explicit(self, topic: str, group: str, **config: object) -> ShareConsumer:
        return self.consumer(topic, group, share_acknowledgement_mode="explicit", **config)

    def poll(self, consumer: ShareConsumer, least: int = 1, timeout_s: float = 15.0) -> list:
        """Poll until ``least`` records came in one poll."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            records = consumer.poll(500)
            if records:
                assert len(records) >= least, records
                return records
        raise AssertionError("no records in time")

    def until(self, condition: Callable[[], object], timeout_s: float = 20.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.02)

    def lag(self, group: str, topic: str, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        found = self.admin.list_share_group_offsets(group).get(where)
        return found.lag if isinstance(found, GroupOffset) else -1

    def end(self, topic: str, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        return self.admin.list_offsets({where: LATEST})[where].offset
