"""Topics of a Kafka cluster through the Admin service (KTP-3, KTP-11, KTP-12)."""

import asyncio
import random

import pytest

from sharemesh import methods
from sharemesh.admin.topic_stores import KafkaTopicStore
from sharemesh.cluster.store import records
from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.broker_topics import BrokerTopics
from sharemesh.ports.brokers import NewBrokerTopic
from sharemesh.ports.cluster import TopicInfo
from sharemesh.ports.coordination import Put
from sharemesh.testing.memory_brokers.cluster import MemoryCluster
from sharemesh.v1 import admin_pb2 as pb
from tests.admin.world import World

OWN = "__own-state"


class KafkaWorld(World):
    """The Admin service over a Kafka cluster in memory; a stand-in mirrors what is attached."""

    def __init__(self, *, managed: bool) -> None:
        super().__init__()
        self.kafka = MemoryCluster(self.clock, random.Random(3))
        self.kafka.create(NewBrokerTopic("orders", 4, 3, {"retention.ms": "1000"}))
        self._managed = managed

    def topic_store(self) -> KafkaTopicStore:
        self.view.subscribe(lambda _: self._mirror_soon())
        attachable = AttachableTopics("memory", ("*", "!__*"), own_topics=(OWN,))
        topics = BrokerTopics(self.kafka.client(), attachable, self._managed, 0)
        return KafkaTopicStore(self.coordination, self.view, topics)

    async def stop(self) -> None:
        await super().stop()
        await self.kafka.close()

    async def shown(self, name: str):
        return (await self.kafka.client().metadata([name])).topics[0]

    def _mirror_soon(self) -> None:
        task = asyncio.ensure_future(self._mirror())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _mirror(self) -> None:
        for name in dict(self.view.tables.attached):
            shown = await self.shown(name)
            known = self.view.topic_named(name)
            if shown.error or (known and known.partitions == len(shown.partitions)):
                continue
            topic = TopicInfo(name, shown.topic_id, len(shown.partitions), {})
            put = Put(self.view.keys.topic(name), records.encode_topic(topic))
            await self.coordination.commit([], [put])


@pytest.fixture
async def world():
    world = await KafkaWorld(managed=False).start()
    await world.register("node-1")
    yield world
    await world.stop()


@pytest.fixture
async def manager():
    world = await KafkaWorld(managed=True).start()
    await world.register("node-1")
    yield world
    await world.stop()


def create(name: str, partitions: int = 2, **configs: str) -> pb.CreateTopicsRequest:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    return pb.CreateTopicsRequest(
        topics=[pb.NewTopic(name=name, partitions=partitions, configs=given)]
    )


async def the_one(world: KafkaWorld, method, request=None, **fields):
    (found,) = (await world.call(method, request, **fields)).topics
    return found


def retention(value: str) -> pb.AlterConfigsRequest:
    request = pb.AlterConfigsRequest()
    request.resource.type, request.resource.name = pb.CONFIG_RESOURCE_TYPE_TOPIC, "orders"
    request.configs.add(name="retention.ms", value=value)
    return request


async def test_ktp_3_a_topic_is_attached_and_detached_and_nothing_changes_in_kafka(world):
    before = await world.shown("orders")
    attached = await the_one(world, methods.ATTACH_TOPICS, names=["orders"])
    assert (attached.error_code, attached.partitions) == (0, 4)
    assert attached.topic_id == before.topic_id
    again = await the_one(world, methods.ATTACH_TOPICS, names=["orders", "orders"])
    assert again == attached
    detached = await the_one(world, methods.DETACH_TOPICS, names=["orders"])
    assert detached == attached
    assert world.view.topic_named("orders") is None
    assert world.view.tables.attached == {}
    assert (await world.shown("orders")).topic_id == before.topic_id
    unknown = await the_one(world, methods.DETACH_TOPICS, names=["orders"])
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (OWN, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_ktp_3_what_cannot_be_attached_is_refused(world, name, error):
    refused = await the_one(world, methods.ATTACH_TOPICS, names=[name])
    assert refused.error_code == error
    assert refused.error_message
    assert world.view.tables.attached == {}


async def test_ktp_3_a_topic_without_the_right_is_named_with_the_right(world):
    world.kafka.deny("orders")
    refused = await the_one(world, methods.ATTACH_TOPICS, names=["orders"])
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "allow DESCRIBE and READ" in refused.error_message


async def test_ktp_3_an_attached_topic_that_is_not_shown_any_more_is_refused_and_stays(world):
    await the_one(world, methods.ATTACH_TOPICS, names=["orders"])
    world.kafka.deny("orders")
    refused = await the_one(world, methods.ATTACH_TOPICS, names=["orders"])
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "allow DESCRIBE and READ" in refused.error_message
    assert world.view.topic_named("orders") is not None
    world.kafka.allow("orders")
    world.kafka.delete("orders")
    refused = await the_one(world, methods.ATTACH_TOPICS, names=["orders"])
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_ktp_11_without_the_setting_nothing_is_passed_on(world):
    await the_one(world, methods.ATTACH_TOPICS, names=["orders"])
    created = await the_one(world, methods.CREATE_TOPICS, create("new"))
    deleted = await the_one(world, methods.DELETE_TOPICS, names=["orders"])
    grown = await the_one(
        world,
        methods.CREATE_PARTITIONS,
        pb.CreatePartitionsRequest(topics=[pb.NewPartitions(name="orders", total=9)]),
    )
    altered = await world.call(methods.ALTER_CONFIGS, retention("5"))
    for refused in (created, deleted, grown, altered):
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert "set kafka_manage_topics to true" in refused.error_message
    assert (await world.shown("new")).error
    assert len((await world.shown("orders")).partitions) == 4
    assert (await world.kafka.client().topic_configs("orders"))["retention.ms"] == "1000"


async def test_ktp_11_an_existing_topic_is_adopted_as_it_is(world):
    adopted = await the_one(world, methods.CREATE_TOPICS, create("orders", 7, retention_ms="5"))
    assert adopted.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert "attached as it is" in adopted.error_message
    assert world.view.topic_named("orders").partitions == 4
    assert (await world.kafka.client().topic_configs("orders"))["retention.ms"] == "1000"


async def test_ktp_11_with_the_setting_changes_are_passed_on_and_no_others(manager):
    created = await the_one(manager, methods.CREATE_TOPICS, create("new", 3, retention_ms="77"))
    assert (created.error_code, created.partitions) == (0, 3)
    assert (await manager.kafka.client().topic_configs("new"))["retention.ms"] == "77"
    grown = await the_one(
        manager,
        methods.CREATE_PARTITIONS,
        pb.CreatePartitionsRequest(topics=[pb.NewPartitions(name="new", total=5)]),
    )
    assert (grown.error_code, grown.partitions) == (0, 5)
    checked = await the_one(
        manager,
        methods.CREATE_PARTITIONS,
        pb.CreatePartitionsRequest(
            topics=[pb.NewPartitions(name="new", total=7)], validate_only=True
        ),
    )
    assert checked.error_code == ErrorCode.INVALID_REQUEST
    assert len((await manager.shown("new")).partitions) == 5
    await the_one(manager, methods.ATTACH_TOPICS, names=["orders"])
    assert (await manager.call(methods.ALTER_CONFIGS, retention("5"))).error_code == 0
    configs = await manager.kafka.client().topic_configs("orders")
    assert configs["retention.ms"] == "5"
    deleted = await the_one(manager, methods.DELETE_TOPICS, names=["new"])
    assert deleted.error_code == 0
    assert (await manager.shown("new")).error


async def test_ktp_11_a_topic_is_created_though_the_next_broker_has_not_heard_of_it(
    manager, monkeypatch
):
    async def not_shown(store, name):
        return None

    monkeypatch.setattr(KafkaTopicStore, "_shown", not_shown)
    created = await the_one(manager, methods.CREATE_TOPICS, create("new", 3))
    assert (created.error_code, created.partitions) == (0, 3)


async def test_ktp_11_an_own_topic_is_never_changed(manager):
    refused = await the_one(manager, methods.DELETE_TOPICS, names=[OWN])
    assert refused.error_code == ErrorCode.POLICY_VIOLATION


async def test_ktp_12_settings_are_those_that_kafka_reports(world):
    await the_one(world, methods.ATTACH_TOPICS, names=["orders"])
    request = pb.DescribeConfigsRequest()
    request.resources.add(type=pb.CONFIG_RESOURCE_TYPE_TOPIC, name="orders")
    (result,) = (await world.call(methods.DESCRIBE_CONFIGS, request)).results
    assert {each.name: each.value for each in result.configs}["retention.ms"] == "1000"
