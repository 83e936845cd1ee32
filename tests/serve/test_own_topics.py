"""The own topics of a cluster on Kafka: made once, checked ever after (spec KTP)."""

import asyncio
import random
from dataclasses import replace

import pytest

from sharemesh.backends.kafka.shard_logs.coordinator_topics import coordinator_topic_configs
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.storage_record import stored_storage
from sharemesh.codec.record_set import build_plain_batch
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
    ClusterMetadata,
    NewBrokerTopic,
    UnsupportedRequestError,
)
from sharemesh.ports.coordination import Put
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.own_topics import OwnTopics
from sharemesh.testing.clock import MeshClock
from sharemesh.testing.memory_brokers.cluster import MemoryCluster
from tests.clocks import ManualClock

STATE, GROUP = "__sharemesh-local-state", "__sharemesh-local-group"
SASL_AUTHENTICATION_FAILED, CLUSTER_AUTHORIZATION_FAILED = 58, 31
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE = 33, 34
UNKNOWN_TOPIC = 3


class Overtaken:
    """A coordination store that shows one key a read too late."""

    def __init__(self, store: LocalCoordination, key: str) -> None:
        self._store = store
        self._key = key
        self.blind = True

    def __getattr__(self, name: str):
        return getattr(self._store, name)

    async def get(self, key: str):
        if key == self._key and self.blind:
            self.blind = False
            return None
        return await self._store.get(key)


class World:
    """One coordination store, and Kafka clusters in memory."""

    def __init__(self, brokers: int = 3) -> None:
        self.clock = MeshClock()
        self.store = LocalStore(self.clock)
        self.coordination = LocalCoordination(self.store)
        self.kafka = MemoryCluster(self.clock, random.Random(5), brokers=brokers)

    async def ready(self, brokers: Brokers | None = None, **settings: object):
        given = ServeSettings(
            storage="kafka", kafka_bootstrap_servers=("127.0.0.1:9092",), **settings
        )
        cluster = await ensure_cluster(
            self.coordination,
            given.cluster_id,
            group_shards=given.group_shards,
            state_shards=given.state_shards,
        )
        client = brokers or self.kafka.client()
        topics = OwnTopics(client, self.coordination, given, self.clock, random.Random(id(self)))
        return await topics.ready(cluster)

    async def refused(self, code: ExitCode, *args: object, **settings: object) -> str:
        with pytest.raises(StartError) as caught:
            await self.ready(*args, **settings)
        assert caught.value.code is code
        return caught.value.message

    async def close(self) -> None:
        await self.kafka.close()
        await self.store.close()


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.close()


async def test_ktp_14_the_first_start_makes_both_topics_and_the_record(world):
    record = await world.ready()
    shown = await world.kafka.client().metadata([STATE, GROUP])
    assert [len(topic.partitions) for topic in shown.topics] == [8, 4]
    assert (record.state_topic_id, record.group_topic_id) == tuple(t.topic_id for t in shown.topics)
    assert record.kafka_cluster_id == shown.cluster_id
    configs = await world.kafka.client().topic_configs(STATE)
    assert configs["cleanup.policy"] == "delete"
    assert configs["retention.ms"] == "-1"
    assert configs["min.insync.replicas"] == "2"
    assert configs["message.timestamp.type"] == "LogAppendTime"
    assert await world.ready() == record
    assert await stored_storage(world.coordination, "local") == record


async def test_ktp_14_topics_that_exist_and_are_empty_are_taken(world):
    world.kafka.create(NewBrokerTopic(STATE, 8, 3, coordinator_topic_configs(2)))
    record = await world.ready()
    assert record.state_shards == 8


async def test_ktp_14_topics_that_hold_records_are_anothers(world):
    topic_id = world.kafka.create(NewBrokerTopic(GROUP, 4, 3, coordinator_topic_configs(2)))
    batch = bytes(build_plain_batch([(b"k", b"v", 0)]))
    await world.kafka.client().produce(BrokerPartition(topic_id, GROUP, 2), batch, timeout_ms=1_000)
    assert "set another kafka_topic_prefix" in await world.refused(ExitCode.STORAGE_TAKEN)
    assert await stored_storage(world.coordination, "local") is None


async def test_ktp_14_a_topic_that_is_not_as_it_must_be_is_told_before_anything_is_written(world):
    configs = {**coordinator_topic_configs(2), "min.insync.replicas": "4"}
    topic_id = world.kafka.create(NewBrokerTopic(STATE, 8, 3, configs))
    words = await world.refused(ExitCode.STORAGE_MISCONFIGURED)
    assert f"topic {STATE} has min.insync.replicas=4 and partitions with 3 replicas" in words
    assert await stored_storage(world.coordination, "local") is None
    ends = [world.kafka.high_watermark(STATE, number) for number in range(8)]
    assert ends == [0] * 8
    assert world.kafka.controller.image.topics[STATE].topic_id == topic_id


async def test_ktp_14_the_words_for_topics_of_others_say_both_ways_out(world):
    topic_id = world.kafka.create(NewBrokerTopic(STATE, 8, 3, coordinator_topic_configs(2)))
    batch = bytes(build_plain_batch([(b"k", b"v", 0)]))
    await world.kafka.client().produce(BrokerPartition(topic_id, STATE, 0), batch, timeout_ms=1_000)
    words = await world.refused(ExitCode.STORAGE_TAKEN)
    assert f"topic {STATE} partition 0 holds records of another Sharemesh cluster: set" in words
    assert "set another kafka_topic_prefix; if it was this cluster, and its etcd" in words


async def test_ktp_14_no_topic_is_made_beside_one_that_cannot_be_taken(world):
    """Else the one that was made would refuse a start with other numbers of shards."""
    world.kafka.create(NewBrokerTopic(GROUP, 5, 3, coordinator_topic_configs(2)))
    assert "exists with 5 partitions" in await world.refused(ExitCode.STORAGE_TAKEN)
    assert STATE not in world.kafka.controller.image.topics


async def test_ktp_14_a_topic_that_is_missing_is_never_made_again(world):
    world.clock = ManualClock()
    await world.ready()
    world.kafka.delete(GROUP)
    client = world.kafka.client()
    words = []

    async def start():
        words.append(await world.refused(ExitCode.STORAGE_MISCONFIGURED, client))

    task = asyncio.create_task(start())
    await world.clock.advance(30_000)
    await task
    assert f"topic {GROUP} is missing" in words[0]
    assert (await client.metadata([GROUP])).topics[0].error


async def test_ktp_13_a_topic_made_again_has_another_id(world):
    await world.ready()
    world.kafka.delete(STATE)
    world.kafka.create(NewBrokerTopic(STATE, 8, 3, coordinator_topic_configs(2)))
    words = await world.refused(ExitCode.OTHER_CLUSTER)
    assert f"topic {STATE} has another id" in words


async def test_ktp_13_another_kafka_cluster_refuses_and_changes_nothing(world):
    record = await world.ready()
    world.kafka.cluster_id = "another"
    words = await world.refused(ExitCode.OTHER_CLUSTER)
    assert "is Kafka cluster 'another', and the logs of 'local' are in" in words
    assert await stored_storage(world.coordination, "local") == record


async def test_ktp_13_another_prefix_is_refused(world):
    await world.ready()
    words = await world.refused(ExitCode.OTHER_CLUSTER, kafka_topic_prefix="other-")
    assert "set kafka_topic_prefix back" in words


async def test_ktp_13_a_cluster_that_led_shards_without_a_record_is_embedded(world):
    key = Keys("local").epoch("state-0")
    await world.coordination.commit([], [Put(key, records.encode_number(1))])
    assert "keeps its logs in a data directory" in await world.refused(ExitCode.OTHER_CLUSTER)


async def test_ktp_14_whoever_was_overtaken_by_a_process_that_leads_already_takes_its_record(world):
    """It read that there is no record, and stood still while another made it and led a shard."""
    made = await world.ready()
    key = Keys("local").epoch("state-0")
    await world.coordination.commit([], [Put(key, records.encode_number(1))])
    late = world.coordination = Overtaken(world.coordination, Keys("local").storage)
    assert await world.ready() == made
    assert not late.blind


async def test_ktp_13_a_record_that_cannot_be_read_is_left_alone(world):
    await world.coordination.commit([], [Put(Keys("local").storage, b'{"v":1,"engine":"tape"}')])
    assert "engine 'tape' is not known" in await world.refused(ExitCode.OTHER_CLUSTER)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000"),
        ("min.insync.replicas", "1"),
        ("unclean.leader.election.enable", "true"),
        ("compression.type", "zstd"),
        ("max.message.bytes", "1000"),
        ("message.timestamp.type", "CreateTime"),
    ],
)
async def test_ktp_15_each_wrong_setting_is_named_with_its_repair(world, name, value):
    await world.ready()
    world.kafka.configure(STATE, {name: value})
    words = await world.refused(ExitCode.STORAGE_MISCONFIGURED)
    assert f"topic {STATE} has {name}={value}" in words
    assert "kafka-configs --bootstrap-server 127.0.0.1:9092 --alter" in words
    assert f"--entity-name {STATE} --add-config {name}=" in words


class OneThatHeardLate:
    """Answers for the settings of a topic only when it has heard of it."""

    def __init__(self, brokers: Brokers, refusals: int) -> None:
        self._brokers = brokers
        self._refusals = refusals

    def __getattr__(self, name: str) -> object:
        return getattr(self._brokers, name)

    async def topic_configs(self, topic: str) -> object:
        self._refusals -= 1
        if self._refusals >= 0:
            raise BrokerRefusedError(UNKNOWN_TOPIC, "UNKNOWN_TOPIC_OR_PARTITION", "")
        return await self._brokers.topic_configs(topic)


async def test_ktp_15_settings_are_checked_also_by_a_broker_that_hears_of_a_topic_late(
    world, caplog
):
    await world.ready(OneThatHeardLate(world.kafka.client(), 3))
    assert "not checked" not in caplog.text
    world.kafka.configure(STATE, {"cleanup.policy": "compact"})
    late = OneThatHeardLate(world.kafka.client(), 3)
    words = await world.refused(ExitCode.STORAGE_MISCONFIGURED, late)
    assert f"topic {STATE} has cleanup.policy=compact" in words


async def test_ktp_16_too_few_brokers():
    world = World(brokers=1)
    words = await world.refused(ExitCode.STORAGE_TOO_FEW_REPLICAS)
    assert f"has 1 broker, and topic {STATE} needs 3 copies" in words
    record = await world.ready(kafka_single_replica=True)
    assert record.state_shards == 8
    await world.close()


class Refusing:
    """Brokers that answer every request with one error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def metadata(self, *_: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            BrokerRefusedError(SASL_AUTHENTICATION_FAILED, "SASL_AUTHENTICATION_FAILED", "bad"),
            ExitCode.STORAGE_LOGIN_REFUSED,
        ),
        (
            BrokerRefusedError(UNSUPPORTED_SASL_MECHANISM, "UNSUPPORTED_SASL_MECHANISM", "other"),
            ExitCode.STORAGE_LOGIN_REFUSED,
        ),
        (
            BrokerRefusedError(ILLEGAL_SASL_STATE, "ILLEGAL_SASL_STATE", "no logins here"),
            ExitCode.STORAGE_LOGIN_REFUSED,
        ),
        (
            BrokerRefusedError(CLUSTER_AUTHORIZATION_FAILED, "CLUSTER_AUTHORIZATION_FAILED", ""),
            ExitCode.STORAGE_LOGIN_REFUSED,
        ),
    ],
)
async def test_ktp_16_a_refused_login_is_said_at_once(world, error, code):
    words = await world.refused(code, Refusing(error))
    assert error.name in words


TOO_OLD = UnsupportedRequestError("broker 1 at a:9092 offers Metadata versions 0 to 0")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TOO_OLD, "127.0.0.1:9092 cannot be asked: broker 1 at a:9092 offers Metadata versions 0"),
        (BrokerRefusedError(-1, "UNKNOWN_SERVER_ERROR", "odd"), "UNKNOWN_SERVER_ERROR: odd; the"),
    ],
)
async def test_ktp_16_brokers_that_are_too_old_or_refuse_metadata_are_said(world, error, words):
    assert words in await world.refused(ExitCode.STORAGE_MISCONFIGURED, Refusing(error))


class NotCreating:
    """Brokers that create no topic."""

    def __init__(self, brokers: Brokers, error: Exception) -> None:
        self._brokers = brokers
        self._error = error

    def __getattr__(self, name: str) -> object:
        return getattr(self._brokers, name)

    async def create_topic(self, *_: object, **__: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TOO_OLD, "topics __sharemesh-local-… cannot be created: broker 1 at a:9092 offers"),
        (BrokerRefusedError(44, "POLICY_VIOLATION", "no"), "cannot be created: POLICY_VIOLATION"),
    ],
)
async def test_ktp_16_own_topics_that_cannot_be_created_are_said(world, error, words):
    client = NotCreating(world.kafka.client(), error)
    assert words in await world.refused(ExitCode.STORAGE_MISCONFIGURED, client)


class NotNaming:
    """Brokers that create topics, and hear nothing of them."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def __getattr__(self, name: str) -> object:
        return getattr(self._brokers, name)

    async def metadata(self, *names: object, **ids: object) -> ClusterMetadata:
        found = await self._brokers.metadata(*names, **ids)
        unknown = (replace(each, error=UNKNOWN_TOPIC, partitions=()) for each in found.topics)
        return replace(found, topics=tuple(unknown))


async def test_ktp_16_a_topic_that_was_made_and_is_not_named_is_said_and_the_start_repeated(world):
    world.clock = ManualClock()
    words = []

    async def start():
        client = NotNaming(world.kafka.client())
        words.append(await world.refused(ExitCode.STORAGE_UNREACHABLE, client))

    task = asyncio.create_task(start())
    while not task.done():
        await world.clock.advance(1_000)
    await task
    assert f"topic {STATE} was created, and no broker has named it with 8 partitions" in words[0]
    assert "see to the cluster's controller" in words[0]
    world.clock = MeshClock()
    assert (await world.ready()).kafka_cluster_id == "memory"


async def test_ktp_16_a_refusal_that_passes_is_repeated_and_then_started_again(world):
    world.clock = ManualClock()
    throttled = Refusing(BrokerRefusedError(89, "THROTTLING_QUOTA_EXCEEDED", "a pause"))
    words = []

    async def start():
        words.append(await world.refused(ExitCode.STORAGE_UNREACHABLE, throttled))

    task = asyncio.create_task(start())
    await world.clock.advance(14_000)
    assert not task.done()
    await world.clock.advance(2_000)
    await task
    assert "THROTTLING_QUOTA_EXCEEDED: a pause" in words[0]


async def test_ktp_16_brokers_that_do_not_answer_are_asked_for_a_while():
    world = World()
    world.clock = ManualClock()
    error = BrokerUnreachableError("broker 127.0.0.1:9092 does not answer: connection refused")
    words = []

    async def start():
        words.append(await world.refused(ExitCode.STORAGE_UNREACHABLE, Refusing(error)))

    task = asyncio.create_task(start())
    await world.clock.advance(14_000)
    assert not task.done()
    await world.clock.advance(2_000)
    await task
    assert "127.0.0.1:9092 does not answer" in words[0]
    assert "correct what their listeners advertise" in words[0]
    await world.close()


class OneThatStarts:
    """Takes connections before it is let in: until then its metadata names no broker."""

    def __init__(self, brokers: Brokers, answers: int) -> None:
        self._brokers = brokers
        self._answers = answers

    def __getattr__(self, name: str) -> object:
        return getattr(self._brokers, name)

    async def metadata(self, *names: object, **ids: object) -> ClusterMetadata:
        found = await self._brokers.metadata(*names, **ids)
        self._answers -= 1
        return replace(found, brokers=(), topics=()) if self._answers >= 0 else found


async def test_ktp_16_a_broker_that_is_just_starting_is_waited_for(world):
    record = await world.ready(OneThatStarts(world.kafka.client(), 3))
    assert await stored_storage(world.coordination, "local") == record


async def test_ktp_16_a_right_that_is_missing_is_named(world):
    await world.ready()
    world.kafka.deny(STATE)
    words = await world.refused(ExitCode.STORAGE_LOGIN_REFUSED)
    assert STATE in words
