"""The port Brokers over Kafka's protocol: each request goes to the leader that is known, once."""

import random
import zlib
from collections.abc import Mapping, Sequence

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.answers import fetched_records, produced_batch
from sharemesh.kafka.dialing import REQUEST_TIMEOUT_MS, Dialing
from sharemesh.kafka.directory import BrokerLeader, LeaderDirectory
from sharemesh.kafka.lanes import BrokerLanes
from sharemesh.kafka.messages import (
    Content,
    KafkaMessage,
    load,
    milliseconds,
    refuse,
    to_uuid,
)
from sharemesh.kafka.silent_leaders import SilentLeaders
from sharemesh.kafka.versions import LAST_WITH_NAMES, KafkaRequest
from sharemesh.kafka.watch import KafkaWatch
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerAddress,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    BrokerWatch,
    ClusterMetadata,
    FetchedRecords,
    FoundOffset,
    Isolation,
    NewBrokerTopic,
    ProducedBatch,
)

ANSWER_SLACK_MS = 2_000
"""How much longer than a broker may take for a request, by its own time-out, we wait."""

PRODUCE_LANES = 2
TRANSACTION_TIMEOUT_MS = 60_000  # of producers that have none: brokers want a number

_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
_NOT_CONTROLLER = 41
_ALL_IN_SYNC = -1
_CONSUMER = -1


class KafkaBrokers:
    """A cluster; what was learned of a leader is forgotten after a refusal or a lost answer."""

    def __init__(self, bootstrap: Sequence[str], dialing: Dialing, rng: random.Random) -> None:
        """Import the messages; connections are opened when they are needed.

        ``bootstrap`` names servers as ``host:port``, of which one that answers is enough.
        """
        if not bootstrap:
            raise ValueError("no bootstrap server given; name at least one as host:port")
        load()
        self._clock = clock = dialing.clock
        self.traffic = dialing.traffic
        self._watches = 0
        servers = [_bootstrap_server(each) for each in bootstrap]
        self._lanes = BrokerLanes(dialing.open, clock, rng)
        self._directory = LeaderDirectory(servers, self._lanes, clock)
        self._silent = SilentLeaders(self._directory, clock)

    async def metadata(
        self, topics: Sequence[str] = (), *, topic_ids: Sequence[TopicId] = ()
    ) -> ClusterMetadata:
        """Ask one broker, another one each time (port Brokers)."""
        return await self._directory.metadata(topics, topic_ids)

    async def produce(
        self,
        partition: BrokerPartition,
        batch: bytes,
        *,
        timeout_ms: int,
        lane: BrokerLane = BrokerLane.PRODUCE,
    ) -> ProducedBatch:
        """Append one record batch with acks=all (port Brokers)."""
        found = await self._at_leader(
            KafkaRequest.PRODUCE,
            partition,
            {"records": batch},
            {
                "transactional_id": None,
                "acks": _ALL_IN_SYNC,
                "timeout": milliseconds(timeout_ms),
            },
            lane=lane,
            timeout_ms=timeout_ms + ANSWER_SLACK_MS,
        )
        return produced_batch(found)

    async def fetch(
        self,
        partition: BrokerPartition,
        offset: int,
        *,
        max_bytes: int,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        last_fetched_epoch: int = -1,
    ) -> FetchedRecords:
        """Read from the batch that holds ``offset`` (port Brokers)."""
        leader = await self._directory.leader(partition)
        found = await self._at_leader(
            KafkaRequest.FETCH,
            partition,
            {
                "fetch_offset": offset,
                "last_fetched_epoch": last_fetched_epoch,
                "partition_max_bytes": max_bytes,
            },
            {
                "replica_id": _CONSUMER,
                "max_wait": milliseconds(max_wait_ms),
                "min_bytes": 1,
                "max_bytes": max_bytes,
                "isolation_level": int(isolation),
            },
            lane=BrokerLane.READ,
            timeout_ms=max_wait_ms + REQUEST_TIMEOUT_MS,
            leader=leader,
        )
        return fetched_records(found, leader.epoch)

    def watch(self) -> BrokerWatch:
        """Return a new watch over no partition (port Brokers)."""
        self._watches += 1
        return KafkaWatch(self._watches, self._directory, self._lanes, self._silent, self._clock)

    async def list_offset(
        self,
        partition: BrokerPartition,
        timestamp_ms: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> FoundOffset:
        """Return the first offset at or after a time (port Brokers)."""
        found = await self._at_leader(
            KafkaRequest.LIST_OFFSETS,
            partition,
            {"timestamp": timestamp_ms},
            {
                "replica_id": _CONSUMER,
                "isolation_level": int(isolation),
                "timeout": milliseconds(REQUEST_TIMEOUT_MS - ANSWER_SLACK_MS),
            },
        )
        return FoundOffset(found.offset, found.timestamp, found.leader_epoch)

    async def end_offset_of_epoch(
        self, partition: BrokerPartition, leader_epoch: int
    ) -> tuple[int, int]:
        """Return where the log of an epoch ends (port Brokers)."""
        found = await self._at_leader(
            KafkaRequest.OFFSET_FOR_LEADER_EPOCH,
            partition,
            {"leader_epoch": leader_epoch},
            {"replica_id": _CONSUMER},
        )
        return found.leader_epoch, found.end_offset

    async def delete_records(
        self, partition: BrokerPartition, before_offset: int, *, timeout_ms: int
    ) -> int:
        """Move the log start (port Brokers)."""
        # The request names the topic only: whether it is still this one is asked anew.
        self._directory.forget(partition)
        found = await self._at_leader(
            KafkaRequest.DELETE_RECORDS,
            partition,
            {"offset": before_offset},
            {"timeout": milliseconds(timeout_ms)},
            timeout_ms=timeout_ms + ANSWER_SLACK_MS,
        )
        start: int = found.low_watermark
        return start

    async def create_topic(self, topic: NewBrokerTopic, *, timeout_ms: int) -> None:
        """Create one topic (port Brokers)."""
        configs = [{"name": name, "value": value} for name, value in topic.configs.items()]
        asked = {
            "name": topic.topic,
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": configs,
        }
        await self._at_controller(KafkaRequest.CREATE_TOPICS, {"topics": [asked]}, timeout_ms)

    async def create_partitions(self, topic: str, partitions: int, *, timeout_ms: int) -> None:
        """Let a topic grow (port Brokers)."""
        asked = {"name": topic, "count": partitions, "assignments": None}
        await self._at_controller(KafkaRequest.CREATE_PARTITIONS, {"topics": [asked]}, timeout_ms)

    async def delete_topic(self, topic: str, *, timeout_ms: int) -> None:
        """Delete a topic (port Brokers)."""
        asked = {"topics": [{"name": topic, "topic_id": None}], "topic_names": (topic,)}
        await self._at_controller(KafkaRequest.DELETE_TOPICS, asked, timeout_ms)

    async def topic_configs(self, topic: str) -> Mapping[str, str]:
        """Return the effective settings of a topic (port Brokers)."""
        asked = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic}
        content = {"resources": [{**asked, "configuration_keys": None}]}
        answer = await self._at_any(KafkaRequest.DESCRIBE_CONFIGS, content)
        (found,) = answer.results
        refuse(found.error_code, found.error_message)
        return {
            each.name: each.value
            for each in found.configs
            if each.value is not None and not each.is_sensitive
        }

    async def alter_topic_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set settings of a topic (port Brokers)."""
        configs = [
            {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
            for name, value in changes.items()
        ]
        asked = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configs": configs}
        content = {"resources": [asked], "validate_only": False}
        answer = await self._at_any(KafkaRequest.INCREMENTAL_ALTER_CONFIGS, content)
        (found,) = answer.responses
        refuse(found.error_code, found.error_message)

    async def new_producer_id(self) -> tuple[int, int]:
        """Return (id, epoch) of a new idempotent producer (port Brokers)."""
        content = {
            "transactional_id": None,
            "transaction_timeout": milliseconds(TRANSACTION_TIMEOUT_MS),
        }
        answer = await self._at_any(KafkaRequest.INIT_PRODUCER_ID, content)
        refuse(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    async def close(self) -> None:
        """Close every connection (port Brokers)."""
        await self._silent.close()
        await self._directory.close()
        await self._lanes.close()

    async def _at_leader(
        self,
        request: KafkaRequest,
        partition: BrokerPartition,
        asked: Content,
        whole: Content,
        *,
        lane: BrokerLane = BrokerLane.CONTROL,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        leader: BrokerLeader | None = None,
    ) -> KafkaMessage:
        """Return the partition's part of the leader's answer."""
        try:
            leader = leader or await self._directory.leader(partition)
            with self._silent.given_up(leader.broker, (partition,)) as awaited:
                connection = await self._lanes.connection(
                    leader.broker, lane, _share_of(partition, lane)
                )
                awaited.goes_over(connection)
                content = content_for(partition, {**asked, "current_leader_epoch": leader.epoch})
                answer = await connection.call(
                    request,
                    {**content, **whole},
                    timeout_ms=timeout_ms,
                    at_most=version_bound(request, partition),
                )
            return _only_partition(answer, str(connection.listener))
        except (BrokerRefusedError, BrokerUnreachableError):
            self._directory.forget(partition)
            raise

    async def _at_controller(
        self, request: KafkaRequest, content: Content, timeout_ms: int
    ) -> None:
        broker = await self._directory.controller()
        try:
            connection = await self._lanes.connection(broker, BrokerLane.CONTROL)
            whole = {**content, "timeout": milliseconds(timeout_ms), "validate_only": False}
            answer = await connection.call(request, whole, timeout_ms=timeout_ms + ANSWER_SLACK_MS)
            found = next(
                getattr(answer, name)[0]
                for name in ("topics", "results", "responses")
                if hasattr(answer, name)
            )
            refuse(found.error_code, getattr(found, "error_message", ""))
        except (BrokerRefusedError, BrokerUnreachableError):
            self._directory.forget_controller()
            raise

    async def _at_any(self, request: KafkaRequest, content: Content) -> KafkaMessage:
        broker = await self._directory.any_broker()
        connection = await self._lanes.connection(broker, BrokerLane.CONTROL)
        return await connection.call(request, content, timeout_ms=REQUEST_TIMEOUT_MS)


def _bootstrap_server(text: str) -> BrokerAddress:
    host, _, port = text.rpartition(":")
    return BrokerAddress(-1, host.strip("[]"), int(port))  # brackets: an address of IPv6


def content_for(partition: BrokerPartition, asked: Content) -> Content:
    """Return what asks for one partition; the requests have three spellings of it."""
    number = partition.partition
    part = {**asked, "partition": number, "index": number, "partition_index": number}
    topic = {
        "name": partition.topic,
        "topic": partition.topic,
        "topic_id": to_uuid(partition.topic_id),
        "partitions": (part,),
        "partition_data": (part,),
    }
    return {"topics": (topic,), "topic_data": (topic,)}


def version_bound(request: KafkaRequest, partition: BrokerPartition) -> int | None:
    """Return the newest version that can name a topic without an id; None: any."""
    names = partition.topic_id == NO_TOPIC_ID
    return LAST_WITH_NAMES if names and request in _BY_ID else None


_BY_ID = frozenset({KafkaRequest.FETCH, KafkaRequest.PRODUCE})


def _share_of(partition: BrokerPartition, lane: BrokerLane) -> object:
    """Return which of a broker's lanes of one kind a partition has: batches stay in order."""
    if lane is BrokerLane.SHARD:
        return partition
    if lane is BrokerLane.PRODUCE:
        return zlib.crc32(partition.topic_id, partition.partition) % PRODUCE_LANES
    return None


def _only_partition(answer: KafkaMessage, listener: str) -> KafkaMessage:
    """Return the one partition of an answer.

    Raises:
        BrokerRefusedError: As the whole answer or the partition says.
        BrokerUnreachableError: It says nothing of the partition.
    """
    if hasattr(answer, "error_code"):
        refuse(answer.error_code, listener)
    topics = getattr(answer, "responses", None) or getattr(answer, "topics", None)
    partitions = topics and (
        getattr(topics[0], "partition_responses", None) or getattr(topics[0], "partitions", None)
    )
    if not partitions:
        raise BrokerUnreachableError(f"{listener}: its answer lacks the partition")
    (found,) = partitions
    refuse(found.error_code, getattr(found, "error_message", None) or listener)
    return found
