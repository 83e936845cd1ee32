"""What trials ask of the brokers and change there, by Kafka's public clients."""

import asyncio
import io
import socket
import struct
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as OffsetPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from sharemesh.kafka.messages import entity_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own files so
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

SHOWN_LOOKS, SHOWN_AGAIN_S = 20, 0.1
METADATA_S = 5
HEALTHY_S = 90
WHOLE_S = 2.0  # so long every broker that is asked must say so: one may not have heard yet
POLL_S = 0.2
PREFERRED = 0
QUOTAS_KEY, QUOTAS_VERSION = 49, 1
"""AlterClientQuotas."""


class BrokerAdmin:
    """Leaders, replicas in sync, and where partitions lie."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    async def leaders(self, topic: str) -> dict[int, int]:
        """Return the broker that leads each partition (−1: none), as some broker says."""
        found = await asyncio.to_thread(self._client.list_topics, topic, METADATA_S)
        return {number: each.leader for number, each in found.topics[topic].partitions.items()}

    async def in_sync(self, topic: str) -> set[int]:
        """Return the replicas in sync of the first partition, as some broker says."""
        found = await asyncio.to_thread(self._client.list_topics, topic, METADATA_S)
        return set(found.topics[topic].partitions[0].isrs)

    async def busiest(self, topic: str) -> int:
        """Return the broker that leads most partitions of a topic."""
        counts = Counter((await self.leaders(topic)).values())
        return counts.most_common(1)[0][0]

    async def healthy(self, count: int) -> bool:
        """Wait until all brokers are in, and every partition is led and wholly in sync."""
        loop = asyncio.get_running_loop()
        whole_since = float("inf")
        deadline = loop.time() + HEALTHY_S
        while loop.time() < deadline:
            try:
                is_whole = await asyncio.to_thread(self._is_healthy, count)
            except KafkaException:
                is_whole = False  # nobody answers yet
            whole_since = min(whole_since, loop.time()) if is_whole else float("inf")
            if loop.time() - whole_since >= WHOLE_S:
                return True
            await asyncio.sleep(POLL_S)
        return False

    def _is_healthy(self, count: int) -> bool:
        found = self._client.list_topics(timeout=METADATA_S)
        partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
        return len(found.brokers) == count and all(
            each.leader > 0 and len(each.isrs) == len(each.replicas) for each in partitions
        )

    async def delete_below(self, topic: str, ends: Mapping[int, int]) -> None:
        """Have records of partitions deleted below offsets."""
        wanted = [OffsetPartition(topic, number, end) for number, end in ends.items()]
        for future in self._client.delete_records(wanted).values():
            await asyncio.to_thread(future.result, METADATA_S)

    async def set_config(self, topic: str, name: str, value: str) -> None:
        """Set one setting of a topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._client.incremental_alter_configs([resource]).values():
            await asyncio.to_thread(future.result, METADATA_S)

    async def throttle(self, client_id: str, bytes_a_second: float | None) -> None:
        """Bound what one client id may produce and fetch at each broker; None: no bound."""
        await asyncio.to_thread(self._throttle, client_id, bytes_a_second)

    def _throttle(self, client_id: str, bytes_a_second: float | None) -> None:
        operations = [
            {
                "key": name,
                "value": bytes_a_second or 0.0,
                "remove": bytes_a_second is None,
            }
            for name in ("producer_byte_rate", "consumer_byte_rate")
        ]
        entity = [{"entity_type": "client-id", "entity_name": client_id}]
        content = {
            "entries": [{"entity": entity, "ops": operations}],
            "validate_only": False,
        }
        answer = _asked(self._bootstrap, QUOTAS_KEY, QUOTAS_VERSION, content)
        refused = [each for each in answer.entries if int(each.error_code)]
        assert not refused, refused

    async def move_leaders(self, topic: str) -> int:
        """Let another replica of each partition lead, by reassignment and election.

        Return how many leaders are others as soon as the broker that is asked shows one: each hears
        of elections a little later than the controller decides them.
        """
        before = await self.leaders(topic)
        await asyncio.to_thread(self._move, topic)
        for _ in range(SHOWN_LOOKS):
            after = await self.leaders(topic)
            moved = sum(after[number] != leader for number, leader in before.items())
            if moved:
                return moved
            await asyncio.sleep(SHOWN_AGAIN_S)
        return 0

    def _move(self, topic: str) -> None:
        found = self._client.list_topics(topic, METADATA_S).topics[topic].partitions
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap.split(","))
        try:
            admin.alter_partition_reassignments(
                {
                    TopicPartition(topic, number): [*each.replicas[1:], each.replicas[0]]
                    for number, each in found.items()
                }
            )
            admin.elect_leaders(PREFERRED, {topic: list(found)}, raise_errors=False)
        finally:
            admin.close()


def _asked(bootstrap: str, key: int, version: int, content: dict[str, object]) -> Any:
    """Ask a broker for what no client in Python offers; return kio's message."""
    request: Any = load_request_schema(key, version)
    response: Any = load_response_schema(key, version)
    head = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": 1,
        "client_id": "trials",
    }
    out = io.BytesIO()
    header = request.__header_schema__
    entity_writer(header)(out, entity_of(header, head))
    entity_writer(request)(out, entity_of(request, content))
    host, port = bootstrap.split(",", maxsplit=1)[0].split(":")
    with socket.create_connection((host, int(port)), METADATA_S) as connection:
        connection.sendall(struct.pack(">i", len(out.getvalue())) + out.getvalue())
        with connection.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(size)
    _, at = entity_reader(response.__header_schema__)(answer, 0)
    return entity_reader(response)(answer, at)[0]
