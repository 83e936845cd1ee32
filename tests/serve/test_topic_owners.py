"""Whose the own topics are, when several coordination stores want them (KTP-20)."""

import asyncio
import random
from dataclasses import replace

import pytest

from sharemesh.backends.kafka.shard_logs.coordinator_topics import coordinator_topic_configs
from sharemesh.backends.kafka.shard_logs.owner_record import OWNER_KEY
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.storage_record import storage_owner, stored_storage
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_stamp import read_stamped_batch
from sharemesh.codec.record_set import build_plain_batch
from sharemesh.domain.stamped_log.judgement import Judgement, judge
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    FetchedRecords,
    NewBrokerTopic,
)
from sharemesh.ports.coordination import CoordinationError, Put
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.own_topics import OwnTopics
from sharemesh.testing.clock import MeshClock
from sharemesh.testing.memory_brokers.cluster import MemoryCluster

CLUSTER = "local"
STATE, GROUP = "__sharemesh-local-state", "__sharemesh-local-group"


class Store:
    """One coordination store, whose cluster keeps its logs in a Kafka cluster that others use."""

    def __init__(self, kafka: MemoryCluster, clock: MeshClock, seed: int) -> None:
        self.clock = clock
        self.kafka = kafka
        self.local = LocalStore(clock)
        self.coordination = LocalCoordination(self.local)
        self.rng = random.Random(seed)

    async def start(self, brokers=None):
        """Return the record of the storage, as a process that starts finds or makes it."""
        given = ServeSettings(storage="kafka", kafka_bootstrap_servers=("127.0.0.1:9092",))
        counts = {"group_shards": given.group_shards, "state_shards": given.state_shards}
        cluster = await ensure_cluster(self.coordination, CLUSTER, **counts)
        client = brokers or self.kafka.client()
        topics = OwnTopics(client, self.coordination, given, self.clock, self.rng, "here")
        return await topics.ready(cluster)

    async def recorded(self):
        """Return the record that is there, or None."""
        return await stored_storage(self.coordination, CLUSTER)

    async def refused(self, brokers=None) -> str:
        """Return the words with which a start ends, which records nothing."""
        with pytest.raises(StartError) as caught:
            await self.start(brokers)
        assert caught.value.code is ExitCode.STORAGE_TAKEN
        assert await self.recorded() is None
        return caught.value.message


class Kafka:
    """A Kafka cluster, and the stores whose clusters meet there."""

    def __init__(self) -> None:
        self.clock = MeshClock()
        self.cluster = MemoryCluster(self.clock, random.Random(5), brokers=3)
        self.stores: list[Store] = []

    def store(self) -> Store:
        """Return one more coordination store, which is empty."""
        self.stores.append(Store(self.cluster, self.clock, len(self.stores)))
        return self.stores[-1]

    def lying_at(self, topic: str, partition: int) -> BrokerPartition:
        image = self.cluster.controller.image.topics[topic]
        return BrokerPartition(image.topic_id, topic, partition)

    async def close(self) -> None:
        await self.cluster.close()
        for store in self.stores:
            await store.local.close()


@pytest.fixture
async def kafka():
    made = Kafka()
    yield made
    await made.close()


class Around:
    """A client of the brokers, some calls of which a test answers itself."""

    def __init__(self, client, **instead) -> None:
        self._client = client
        self._instead = instead

    def __getattr__(self, name: str):
        return self._instead.get(name) or getattr(self._client, name)


@pytest.mark.parametrize("seed", range(20))
async def test_ktp_20_of_two_stores_that_start_at_once_one_is_refused(kafka, seed):
    rng = random.Random(seed)
    first, second = kafka.store(), kafka.store()

    def slowed(client):
        def slow(name):
            async def call(*words, **named):
                for _ in range(rng.randrange(6)):
                    await asyncio.sleep(0)
                answer = await getattr(client, name)(*words, **named)
                for _ in range(rng.randrange(6)):
                    await asyncio.sleep(0)
                return answer

            return call

        calls = ("metadata", "create_topic", "list_offset", "produce", "fetch")
        return Around(client, **{name: slow(name) for name in calls})

    starts = [each.start(slowed(kafka.cluster.client())) for each in (first, second)]
    ended = await asyncio.gather(*starts, return_exceptions=True)
    refused = [each for each in ended if isinstance(each, StartError)]
    assert [each.code for each in refused] == [ExitCode.STORAGE_TAKEN]
    recorded = [await first.recorded(), await second.recorded()]
    assert sum(each is not None for each in recorded) == 1
    loser = first if recorded[0] is None else second
    assert "records of another Sharemesh cluster" in await loser.refused()


async def test_ktp_20_processes_of_one_store_that_start_at_once_take_the_same_topics(kafka):
    store = kafka.store()
    first, *others = await asyncio.gather(*[store.start() for _ in range(4)])
    assert all(each == first for each in others)
    assert await store.recorded() == first


async def test_ktp_20_a_start_that_ended_before_the_record_is_gone_on_with(kafka):
    store, other = kafka.store(), kafka.store()
    client = kafka.cluster.client()

    async def write_and_end(*words, **named):
        await client.produce(*words, **named)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await store.start(Around(client, produce=write_and_end))
    assert await store.recorded() is None
    await other.refused()
    assert await store.start() == await store.recorded()


async def test_ktp_20_a_store_that_lost_everything_is_refused(kafka):
    await kafka.store().start()
    words = await kafka.store().refused()
    assert "(cluster id 'local', begun on host 'here' at 20" in words
    assert "set another kafka_topic_prefix; if it was this cluster, and its etcd is lost," in words
    delete = "kafka-topics --bootstrap-server 127.0.0.1:9092 --delete --topic"
    assert words.endswith(f"delete them: {delete} {STATE} && {delete} {GROUP}")


async def test_ktp_20_a_lost_answer_is_asked_for_again_and_decides_nothing(kafka):
    store = kafka.store()
    client = kafka.cluster.client()
    written = []

    async def without_answer(*words, **named):
        written.append(await client.produce(*words, **named))
        if len(written) < 3:
            raise BrokerUnreachableError("no answer")
        return written[-1]

    await store.start(Around(client, produce=without_answer))
    assert [each.base_offset for each in written] == [0, 1, 2]
    assert await store.recorded() is not None


async def test_ktp_20_what_only_one_broker_has_is_not_taken_for_confirmed(kafka):
    """An owner record that was appended and not confirmed may be lost with that broker."""
    store = kafka.store()
    client = kafka.cluster.client()
    answers = []

    async def appended(*words, **named):
        answers.append(await client.produce(*words, **named))
        if len(answers) == 1:
            raise BrokerRefusedError(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
        return answers[-1]

    await store.start(Around(client, produce=appended))
    assert len(answers) == 2


@pytest.mark.parametrize("code", [2, 13, 74, 75, 78])
@pytest.mark.parametrize("call", ["produce", "list_offset", "fetch"])
async def test_ktp_16_what_a_change_of_leaders_refuses_is_asked_again(kafka, call, code):
    store = kafka.store()
    client = kafka.cluster.client()
    refusals = [BrokerRefusedError(code, "it passes")]

    async def refuse_once(*words, **named):
        if refusals:
            raise refusals.pop()
        return await getattr(client, call)(*words, **named)

    await store.start(Around(client, **{call: refuse_once}))
    assert not refusals
    assert await store.recorded() is not None


async def test_ktp_20_what_is_not_readable_yet_is_asked_for_again(kafka):
    store = kafka.store()
    client = kafka.cluster.client()
    answers = [
        FetchedRecords(b"", 0, 0, 0),
        FetchedRecords(b"cut", 0, 0, 0),
        BrokerRefusedError(1, "OFFSET_OUT_OF_RANGE"),
    ]

    async def late(*words, **named):
        if not answers:
            return await client.fetch(*words, **named)
        answer = answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    await store.start(Around(client, fetch=late))
    assert not answers
    assert await store.recorded() is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (OWNER_KEY, b"0123456789abcdef"),
        (OWNER_KEY, b'{"owner_id":7}'),
        (OWNER_KEY, b'{"owner_id":"a","cluster_id":"x","host":"h","made_ms":9e99}'),
        (OWNER_KEY, b'{"owner_id":"a","cluster_id":"x","host":"h","made_ms":%d}' % (1 << 62)),
        (b"k", b"v"),
    ],
)
async def test_ktp_20_whatever_else_lies_there_is_anothers(kafka, key, value):
    made = kafka.cluster.create(NewBrokerTopic(STATE, 8, 3, coordinator_topic_configs(2)))
    batch = bytes(build_plain_batch([(key, value, 0)]))
    await kafka.cluster.client().produce(BrokerPartition(made, STATE, 0), batch, timeout_ms=1_000)
    assert "holds records of another Sharemesh cluster" in await kafka.store().refused()


@pytest.mark.parametrize(("topic", "partition"), [(STATE, 1), (GROUP, 0)])
async def test_ktp_20_whose_they_are_is_said_also_where_another_partition_was_written_to(
    kafka, topic, partition
):
    await kafka.store().start()
    batch = bytes(build_plain_batch([(b"k", b"v", 0)]))
    place = kafka.lying_at(topic, partition)
    await kafka.cluster.client().produce(place, batch, timeout_ms=1_000)
    refused = await kafka.store().refused()
    assert f"topic {topic} partition {partition} holds records of another Sharemesh" in refused
    assert "cluster (cluster id 'local', begun on host 'here'" in refused


async def test_ktp_20_an_owner_that_cannot_be_read_is_left_out_of_the_sentence(kafka):
    await kafka.store().start()
    batch = bytes(build_plain_batch([(b"k", b"v", 0)]))
    client = kafka.cluster.client()
    await client.produce(kafka.lying_at(STATE, 1), batch, timeout_ms=1_000)

    async def refuse(*words, **named):
        raise BrokerRefusedError(29, "TOPIC_AUTHORIZATION_FAILED")

    refused = await kafka.store().refused(Around(client, fetch=refuse))
    assert f"topic {STATE} partition 1 holds records of another Sharemesh cluster: set" in refused


async def test_ktp_20_a_batch_that_is_damaged_where_it_lies_is_anothers(kafka):
    await kafka.store().start()
    client = kafka.cluster.client()

    async def damaged(*words, **named):
        answer = await client.fetch(*words, **named)
        return replace(answer, records=answer.records[:-1] + b"?")

    refused = await kafka.store().refused(Around(client, fetch=damaged))
    assert "holds records of another Sharemesh cluster: set" in refused


async def test_ktp_20_a_log_that_was_pruned_is_anothers(kafka):
    await kafka.store().start()
    place = kafka.lying_at(STATE, 0)
    await kafka.cluster.client().delete_records(place, 1, timeout_ms=1_000)
    assert f"topic {STATE} partition 0 holds records of" in await kafka.store().refused()


async def test_ktp_20_whoever_may_not_write_is_told_the_right(kafka):
    store = kafka.store()

    async def refuse(*words, **named):
        raise BrokerRefusedError(29, "TOPIC_AUTHORIZATION_FAILED")

    with pytest.raises(
        StartError, match="cannot be written or read: TOPIC_AUTHORIZATION_FAILED; let the user"
    ) as caught:
        await store.start(Around(kafka.cluster.client(), produce=refuse))
    assert caught.value.code is ExitCode.STORAGE_LOGIN_REFUSED


async def test_ktp_20_an_owner_record_is_void_to_readers_of_the_log(kafka):
    await kafka.store().start()
    fetched = await kafka.cluster.client().fetch(kafka.lying_at(STATE, 0), 0, max_bytes=1 << 20)
    walk = walk_frames(
        fetched.records, start=0, limit=1 << 62, base_offset=0, leader_epoch=None, check_crc=True
    )
    (frame, *_) = walk.frames
    assert judge(read_stamped_batch(frame, fetched.records), log=7) is Judgement.VOID
    assert kafka.cluster.high_watermark(GROUP) == 0


async def test_ktp_20_the_owner_id_is_made_once_and_one_that_cannot_be_read_is_told(kafka):
    store = kafka.store()
    made = await storage_owner(store.coordination, CLUSTER, store.rng)
    assert await storage_owner(store.coordination, CLUSTER, store.rng) == made
    assert len(bytes.fromhex(made)) == 16
    await store.coordination.commit([], [Put(Keys(CLUSTER).storage_owner, b"odd")])
    with pytest.raises(CoordinationError, match="storage-owner cannot be read"):
        await storage_owner(store.coordination, CLUSTER, store.rng)
