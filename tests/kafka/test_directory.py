"""Who leads which partition: when that is asked, and what of it is believed (spec KBR)."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.domain.ids import TopicId
from sharemesh.kafka import directory as room
from sharemesh.kafka.directory import LeaderDirectory
from sharemesh.kafka.versions import KafkaRequest
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerAddress,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from tests.kafka.test_lanes import Clock

ORDERS = TopicId(b"o" * 16)
ONE = BrokerPartition(ORDERS, "orders", 0)
BROKERS = (BrokerAddress(1, "a", 1), BrokerAddress(2, "b", 1), BrokerAddress(3, "c", 1))
BOOTSTRAP = BrokerAddress(-1, "boot", 1)


def topic(*partitions, **more):
    found = tuple(PartitionMetadata(*each) for each in partitions)
    return TopicMetadata(**{"topic": "orders", "topic_id": ORDERS, "partitions": found, **more})


class Cluster:
    """Lanes and answers at once: each connection answers what ``topics`` says now."""

    def __init__(self, monkeypatch):
        self.topics = [topic((0, 1, 4))]
        self.down = set()
        self.frozen = set()
        self.reads = 3
        self.given_up = []
        self.asked = []
        self.contents = []
        monkeypatch.setattr(room, "cluster_metadata", self.metadata)

    async def connection(self, broker, lane):
        if broker.host in self.down:
            raise BrokerUnreachableError(f"{broker.host} is down")
        self.at = broker
        return self

    def version_of(self, request):
        assert request is KafkaRequest.METADATA
        return 13

    def give_up(self, reads_before):
        self.given_up.append(reads_before)

    async def call(self, request, content, *, timeout_ms):
        self.asked.append(self.at.host)
        self.contents.append(content)
        await (asyncio.Event().wait() if self.at.host in self.frozen else asyncio.sleep(0))
        return self.topics

    def metadata(self, topics, broker):
        return ClusterMetadata("id", 2, BROKERS, tuple(topics), broker.broker_id)


@pytest.fixture
def cluster(monkeypatch):
    return Cluster(monkeypatch)


@pytest.fixture
def clock():
    found = Clock()
    found.now = 1_000
    return found


@pytest.fixture
def known(cluster, clock):
    return LeaderDirectory([BOOTSTRAP], cluster, clock)


async def test_kbr_8_another_broker_is_asked_each_time_and_one_that_is_down_is_passed_over(
    known, cluster
):
    for _ in range(7):
        await known.metadata(["orders"])
    assert cluster.asked[0] == "boot"
    assert sorted(cluster.asked[1:]) == ["a", "a", "b", "b", "c", "c"]
    assert cluster.asked[1:4] == cluster.asked[4:]
    cluster.down = {"a", "b"}
    cluster.asked.clear()
    await known.metadata()
    await known.metadata()
    assert cluster.asked == ["c", "c"]
    cluster.down = {"a", "b", "c"}
    await known.metadata()
    assert cluster.asked[-1] == "boot"
    cluster.down.add("boot")
    with pytest.raises(BrokerUnreachableError):
        await known.metadata()


async def test_kbr_8_beside_a_broker_that_says_nothing_the_next_one_is_asked(
    known, cluster, monkeypatch
):
    await known.metadata()
    monkeypatch.setattr(room, "METADATA_PATIENCE_MS", 50)
    cluster.asked.clear()
    cluster.frozen = {"a", "b"}
    for _ in range(3):
        async with asyncio.timeout(20):
            assert (await known.metadata()).answered_by == 3
    assert {"a", "b"} < set(cluster.asked)
    await asyncio.sleep(0)
    silent = [each for each in cluster.asked if each in cluster.frozen]
    assert cluster.given_up == [3] * len(silent)
    await known.close()
    assert len(cluster.given_up) == len(silent)


async def test_kbr_8_a_broker_that_answers_late_is_heard_if_no_other_one_answers(
    known, cluster, monkeypatch
):
    monkeypatch.setattr(room, "METADATA_PATIENCE_MS", 0)
    answered = asyncio.Event()

    async def late(*words, **more):
        await answered.wait()
        return cluster.topics

    cluster.call = late
    asked = asyncio.create_task(known.metadata())
    for _ in range(10):
        await asyncio.sleep(0)
    answered.set()
    assert (await asked).answered_by == -1


async def test_kbr_8_no_topic_is_created_by_asking(known, cluster):
    await known.leader(ONE)
    assert all(each["allow_auto_topic_creation"] is False for each in cluster.contents)


async def test_kbr_8_topics_that_wait_are_asked_for_in_one_request_at_most_each_100_ms(
    known, cluster, clock
):
    others = [BrokerPartition(TopicId(bytes([n]) * 16), f"t{n}", 0) for n in range(5)]
    cluster.topics = [topic((0, 1, 4))] + [
        topic((0, 1, 4), topic=each.topic, topic_id=each.topic_id) for each in others
    ]
    await asyncio.gather(*[known.leader(each) for each in (ONE, *others)])
    assert len(cluster.asked) == 1
    known.forget(ONE)
    await known.leader(ONE)
    assert clock.slept == [100]
    assert len(cluster.asked) == 2


async def test_kbr_8_what_is_old_stays_in_use_while_it_is_asked_for_anew(known, cluster, clock):
    await known.leader(ONE)
    clock.now += 60_001
    cluster.topics = [topic((0, 2, 5))]
    assert (await known.leader(ONE)).broker.broker_id == 1
    while known._wanted:
        await asyncio.sleep(0)
    assert (await known.leader(ONE)).epoch == 5


async def test_kbr_8_a_refresh_that_fails_keeps_leaders_and_is_repeated(known, cluster, clock):
    found = await known.leader(ONE)
    clock.now += 60_001
    cluster.down = {"a", "b", "c", "boot"}
    assert known.known_leader(ONE) == found
    while known._wanted:
        await asyncio.sleep(0)
    assert known.known_leader(ONE) == found
    cluster.down = set()
    cluster.topics = [topic((0, 2, 5))]
    while known.known_leader(ONE) == found:
        await asyncio.sleep(0)
    assert known.known_leader(ONE) == (BROKERS[1], 5)


async def test_kbr_8_a_topic_that_is_refused_has_no_leader_any_more(known, cluster, clock):
    await known.leader(ONE)
    clock.now += 60_001
    cluster.topics = [topic(error=3)]
    known.known_leader(ONE)
    while known._wanted:
        await asyncio.sleep(0)
    assert known.known_leader(ONE) is None


def many(cluster, count):
    ids = [TopicId(number.to_bytes(16, "big")) for number in range(1, count + 1)]
    places = [BrokerPartition(each, f"t{number}", 0) for number, each in enumerate(ids)]
    cluster.topics = [
        topic((0, 1, 4), (1, 2, 4), topic=each.topic, topic_id=each.topic_id) for each in places
    ]
    return places


async def test_kbr_8_so_many_partitions_are_known_and_those_asked_for_last_are_kept(
    known, cluster, monkeypatch
):
    monkeypatch.setattr(room, "PARTITIONS_KNOWN_MAX", 20)
    places = many(cluster, 30)
    for each in places:
        await known.leader(each)
    assert [known.known_leader(each) is not None for each in places] == [False] * 20 + [True] * 10


async def test_kbr_8_what_is_no_longer_asked_for_is_forgotten(known, cluster, clock):
    first, second = many(cluster, 2)
    await known.leader(first)
    clock.now += 600_001
    await known.leader(second)
    assert known.known_leader(first) is None
    assert known.known_leader(second) is not None


async def test_kbr_9_a_leader_of_an_older_epoch_is_not_believed(known, cluster):
    assert await known.leader(ONE) == (BROKERS[0], 4)
    known.forget(ONE)
    cluster.topics = [topic((0, 2, 3))]
    with pytest.raises(BrokerRefusedError, match="epoch 3 for orders-0; 4 is known") as refused:
        await known.leader(ONE)
    assert refused.value.code == 74
    cluster.topics = [topic((0, 2, 5))]
    assert await known.leader(ONE) == (BROKERS[1], 5)


async def test_kbr_9_without_ids_a_lower_epoch_may_be_that_of_another_topic(known, cluster):
    named = replace(ONE, topic_id=NO_TOPIC_ID)
    cluster.topics = [topic((0, 1, 4), topic_id=NO_TOPIC_ID)]
    await known.leader(named)
    known.forget(named)
    cluster.topics = [topic((0, 2, 0), topic_id=NO_TOPIC_ID)]
    assert await known.leader(named) == (BROKERS[1], 0)


async def test_kbr_9_another_id_under_the_name_is_another_topic(known, cluster):
    cluster.topics = [topic((0, 1, 0), topic_id=TopicId(b"n" * 16))]
    with pytest.raises(BrokerRefusedError, match="was deleted and made again") as refused:
        await known.leader(ONE)
    assert refused.value.code == 100


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ([topic(error=29)], 29),
        ([topic((1, 1, 0))], 3),
        ([topic((0, -1, 0))], 5),
        ([topic((0, 9, 0))], 5),
        ([], 3),
    ],
)
async def test_why_there_is_no_leader_is_said_and_asked_again(known, cluster, topics, code):
    cluster.topics = topics
    with pytest.raises(BrokerRefusedError) as refused:
        await known.leader(ONE)
    assert (refused.value.code, refused.value.may_be_done) == (code, False)
    cluster.topics = [topic((0, 1, 4))]
    assert await known.leader(ONE) == (BROKERS[0], 4)


async def test_a_topic_without_a_name_is_asked_for_by_id(known, cluster):
    assert await known.leader(replace(ONE, topic="")) == (BROKERS[0], 4)
    (asked,) = cluster.contents[-1]["topics"]
    assert asked["topic_id"].bytes == ORDERS
    assert asked["name"] is None


async def test_topics_are_created_at_the_controller(known):
    assert (await known.controller()).broker_id == 2
    known.forget_controller()
    assert (await known.controller()).broker_id == 2
    assert (await known.any_broker()).broker_id in {1, 2, 3}


async def test_closing_ends_what_is_asked(known, cluster):
    asked = asyncio.Event()

    async def hang(*words, **more):
        asked.set()
        await asyncio.Event().wait()

    cluster.call = hang
    waiting = asyncio.create_task(known.leader(ONE))
    await asked.wait()
    await known.close()
    with pytest.raises(BrokerUnreachableError):
        await waiting
