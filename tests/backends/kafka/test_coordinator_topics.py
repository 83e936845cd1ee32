"""The two topics of a cluster's own: settings and creation (STL-22, STL-23)."""

import pytest

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    SEEN_RETRY_MS,
    CoordinatorTopic,
    CoordinatorTopicError,
    coordinator_topic_configs,
    coordinator_topic_problems,
    create_coordinator_topics,
)
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    BrokerRefusedError,
    ClusterMetadata,
    FetchedRecords,
    FoundOffset,
    PartitionMetadata,
    TopicMetadata,
)
from tests.clocks import ManualClock

TOPIC = "__sharemesh-a-state"
SERVERS = "a:9092,b:9092"
AS_CREATED = coordinator_topic_configs(2)


def test_stl_22_what_is_created_is_accepted():
    assert (
        coordinator_topic_problems(TOPIC, AS_CREATED, 3, servers=SERVERS, single_replica=False)
        == ()
    )
    assert (
        coordinator_topic_problems(
            TOPIC, {**AS_CREATED, "x": "y"}, 2, servers=SERVERS, single_replica=False
        )
        == ()
    )
    alone = coordinator_topic_configs(1)
    assert coordinator_topic_problems(TOPIC, alone, 1, servers=SERVERS, single_replica=True) == ()


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("cleanup.policy", "compact", "delete"),
        ("cleanup.policy", "compact,delete", "delete"),
        ("retention.ms", "604800000", "-1"),
        ("retention.bytes", "1", "-1"),
        ("min.insync.replicas", "1", "2"),
        ("unclean.leader.election.enable", "true", "false"),
        ("compression.type", "zstd", "producer"),
        ("max.message.bytes", "1000000", "1048588"),
        ("message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("remote.storage.enable", "true", "false"),
        ("message.format.version", "0.10.2-IV0", "0.11.0"),
    ],
)
def test_stl_22_each_difference_is_a_sentence_with_the_command(name, value, wanted):
    configs = {**AS_CREATED, name: value}
    (said,) = coordinator_topic_problems(TOPIC, configs, 3, servers=SERVERS, single_replica=False)
    assert said == (
        f"topic {TOPIC} has {name}={value}, it must be {wanted}: kafka-configs "
        f"--bootstrap-server {SERVERS} --alter --entity-type topics --entity-name {TOPIC} "
        f"--add-config {name}={wanted}"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", "uncompressed"),
        ("max.message.bytes", "2000000"),
        ("min.insync.replicas", "3"),
        ("remote.storage.enable", "false"),
        ("message.format.version", "3.0-IV1"),
        ("message.format.version", "odd"),
    ],
)
def test_stl_22_what_is_as_good_is_accepted(name, value):
    configs = {**AS_CREATED, name: value}
    assert (
        coordinator_topic_problems(TOPIC, configs, 3, servers=SERVERS, single_replica=False) == ()
    )


def test_stl_22_one_replica_is_accepted_only_where_that_is_said():
    alone = coordinator_topic_configs(1)
    few, one = coordinator_topic_problems(TOPIC, alone, 1, servers=SERVERS, single_replica=False)
    assert "min.insync.replicas=1, it must be 2" in few
    assert "1 replica" in one
    assert "kafka_single_replica" in one


def test_stl_22_more_replicas_in_sync_than_there_are_let_nothing_be_written():
    configs = {**AS_CREATED, "min.insync.replicas": "4"}
    (said,) = coordinator_topic_problems(TOPIC, configs, 3, servers=SERVERS, single_replica=False)
    assert said == (
        f"topic {TOPIC} has min.insync.replicas=4 and partitions with 3 replicas: nothing can be "
        "written; add replicas (kafka-reassign-partitions), or lower the setting: kafka-configs "
        f"--bootstrap-server {SERVERS} --alter --entity-type topics --entity-name {TOPIC} "
        "--add-config min.insync.replicas=2"
    )
    (alone,) = coordinator_topic_problems(
        TOPIC, AS_CREATED, 1, servers=SERVERS, single_replica=True
    )
    assert alone.endswith("--add-config min.insync.replicas=1")


class Creating:
    """Brokers that create topics, which are seen a little later."""

    def __init__(self, *, exists: bool = False, partitions: int = 4, end: int = 0) -> None:
        self.created = []
        self.exists = exists
        self.partitions = partitions
        self.end = end
        self.unseen = 2
        self.looks = 0
        self.unheard = 0  # answers of brokers that have not heard of the topic

    async def create_topic(self, topic, *, timeout_ms):
        self.created.append(topic)
        if self.exists:
            raise BrokerRefusedError(36, "TOPIC_ALREADY_EXISTS")

    async def metadata(self, topics=(), *, topic_ids=()):
        self.looks += 1
        self.unseen -= 1
        if self.unseen >= 0:
            found = TopicMetadata(topics[0], TopicId(bytes(16)), error=3)
        else:
            partitions = tuple(PartitionMetadata(n, 1, 0) for n in range(self.partitions))
            found = TopicMetadata(topics[0], TopicId(topics[0].encode()[-16:]), partitions)
        return ClusterMetadata("kafka", 1, (), (found,))

    async def list_offset(self, partition, timestamp_ms):
        self.unheard -= 1
        if self.unheard >= 0:
            raise BrokerRefusedError(100, "UNKNOWN_TOPIC_ID")
        return FoundOffset(self.end if partition.partition == 2 else 0)

    async def fetch(self, partition, offset, *, max_bytes, max_wait_ms):
        return FetchedRecords(b"", 0, 0, 0)


async def create(brokers: Creating):
    clock = ManualClock()

    async def no_wait(duration_ms):
        return None

    clock.sleep_ms = no_wait
    return await create_coordinator_topics(
        brokers,
        clock,
        {"state": ("0123456789-state", 4), "group": ("0123456789-group", 4)},
        replication_factor=3,
        min_insync_replicas=2,
        servers="127.0.0.1:9092",
    )


async def test_stl_23_both_topics_are_created_with_their_settings():
    brokers = Creating()
    made = await create(brokers)
    assert made["state"] == CoordinatorTopic("0123456789-state", TopicId(b"0123456789-state"))
    assert made["group"].topic == "0123456789-group"
    assert [each.configs for each in brokers.created] == [AS_CREATED, AS_CREATED]
    assert [(each.partitions, each.replication_factor) for each in brokers.created] == [(4, 3)] * 2


async def test_stl_23_an_empty_topic_of_an_earlier_start_is_taken():
    made = await create(Creating(exists=True))
    assert made["state"].topic_id == b"0123456789-state"


async def test_stl_23_a_leader_that_has_not_heard_of_the_new_topic_is_asked_again():
    brokers = Creating(exists=True)
    brokers.unheard = 3
    assert (await create(brokers))["state"].topic_id == b"0123456789-state"


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        (Creating(exists=True, end=1), "partition 2 holds records of another Sharemesh cluster"),
        (Creating(exists=True, partitions=5), "exists with 5 partitions, this cluster has 4"),
        (Creating(exists=True, partitions=3), "exists with 3 partitions, this cluster has 4"),
        (Creating(partitions=3), "no broker has named it with 4 partitions for 15000 ms"),
    ],
)
async def test_stl_23_what_is_there_already_is_not_taken(brokers, words):
    with pytest.raises(CoordinatorTopicError, match=words):
        await create(brokers)


async def test_stl_23_a_topic_with_fewer_partitions_is_told_within_two_seconds():
    brokers = Creating(exists=True, partitions=3)
    with pytest.raises(CoordinatorTopicError, match="choose another kafka_topic_prefix"):
        await create(brokers)
    assert brokers.looks * SEEN_RETRY_MS <= 2_000


async def test_stl_23_a_topic_that_another_start_makes_now_may_be_seen_in_part_first():
    brokers = Creating(exists=True, partitions=3)
    metadata = brokers.metadata

    async def grows(topics=(), *, topic_ids=()):
        if brokers.looks == 4:
            brokers.partitions = 4
        return await metadata(topics, topic_ids=topic_ids)

    brokers.metadata = grows
    assert (await create(brokers))["state"].topic_id == b"0123456789-state"


async def test_stl_23_a_refusal_is_handed_on():
    brokers = Creating()

    async def refuse(topic, *, timeout_ms):
        raise BrokerRefusedError(38, "INVALID_REPLICATION_FACTOR")

    brokers.create_topic = refuse
    with pytest.raises(BrokerRefusedError, match="INVALID_REPLICATION_FACTOR"):
        await create(brokers)
