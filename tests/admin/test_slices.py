"""Questions about many names hold the loop for no longer than a slice (spec BND-20)."""

import asyncio
import random

import pytest

from sharemesh import methods
from sharemesh.admin.service import AdminService
from sharemesh.admin.topic_stores import StoredTopics
from sharemesh.authorization.slices import UNITS_OF_A_SLICE
from sharemesh.cluster.acl_table import AclTable
from sharemesh.cluster.store.acl_rules import AclRule, Pattern, Permission, RuleSet
from sharemesh.domain.ids import TopicId
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.network import CallFailedError
from sharemesh.v1 import admin_pb2 as pb
from tests.admin.world import World
from tests.turns import Turns, holds_no_turn

EVE = "User:eve"
NAMES = [f"{n:05d}-{'x' * 90}" for n in range(10_000)]


def rules():
    """10,000 of them, prefixes of every length for everybody among them."""
    for number in range(5_000):
        yield AclRule(f"User:u{number}", Permission.ALLOW, None, ResourceType.TOPIC, f"t{number}")
    for number in range(2_500):
        name = NAMES[number][: 1 + number % 96]
        pattern = Pattern.PREFIXED
        yield AclRule(
            "User:*", Permission.ALLOW, Operation.WRITE, ResourceType.GROUP, name, pattern
        )
        yield AclRule("User:*", Permission.DENY, Operation.ALTER, ResourceType.TOPIC, name, pattern)


@pytest.fixture
async def world():
    made = await World().start()
    yield made
    await made.stop()


@pytest.mark.parametrize(
    ("method", "make"),
    [
        (methods.METADATA, lambda: pb.MetadataRequest(topics=pb.TopicNames(names=NAMES))),
        (methods.DESCRIBE_TOPICS, lambda: pb.DescribeTopicsRequest(names=NAMES)),
        (methods.FIND_COORDINATOR, lambda: pb.FindCoordinatorRequest(keys=NAMES)),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
async def test_ten_thousand_names_against_ten_thousand_rules_bnd_20(world, method, make):
    table = AclTable(world.view, super_users=[])
    table._rules = RuleSet(rules())
    service = AdminService(
        world.coordination,
        world.view,
        table,
        StoredTopics(world.coordination, world.view, random.Random(1)),
        world.clock,
    )
    service.offer(world.network.listener("other:1"))
    caller = world.network.caller(EVE)
    request = make()
    await holds_no_turn(lambda: caller.call(method, request, to="other:1"))
    await caller.close()


CLUSTER = pb.ConfigResource(type=pb.CONFIG_RESOURCE_TYPE_CLUSTER)
TOO_MUCH = [
    (
        methods.ALTER_CLIENT_QUOTAS,
        lambda: pb.AlterClientQuotasRequest(
            entries=[pb.QuotaAlteration(entity=[pb.QuotaEntity(entity_type="u")] * 140_000)]
        ),
        "140000 components of an entity",
    ),
    (
        methods.ALTER_CONFIGS,
        lambda: pb.AlterConfigsRequest(
            resource=CLUSTER, configs=[pb.AlterConfig(name=f"{n:x}") for n in range(115_000)]
        ),
        "115000 settings in one call; send at most 100",
    ),
    (
        methods.CREATE_TOPICS,
        lambda: pb.CreateTopicsRequest(topics=[pb.NewTopic(name="x")] * 140_000),
        "140000 topics in one request; send at most 100",
    ),
    (
        methods.CREATE_PARTITIONS,
        lambda: pb.CreatePartitionsRequest(topics=[pb.NewPartitions(name="x")] * 140_000),
        "140000 topics in one request; send at most 100",
    ),
    (
        methods.ALTER_USER_SCRAM_CREDENTIALS,
        lambda: pb.AlterUserScramCredentialsRequest(
            alterations=[pb.UserAlteration(name="u", deletions=[1] * 1_000_000)]
        ),
        "1000000 changes of a user",
    ),
]


@pytest.mark.parametrize(
    ("method", "make", "words"), TOO_MUCH, ids=lambda each: getattr(each, "name", "")
)
async def test_what_is_too_much_is_refused_before_it_is_looked_through_bnd_20(
    world, method, make, words
):
    request = make()
    told = []

    async def refused():
        try:
            told.append(str(await world.call(method, request)))
        except CallFailedError as error:
            told.append(f"{error.failure}: {error.message}")

    await holds_no_turn(refused)
    assert words in told[0]


async def test_settings_of_a_thousand_resources_are_told_in_slices_bnd_20(world):
    request = pb.DescribeConfigsRequest(resources=[CLUSTER] * 1_000)
    await holds_no_turn(lambda: world.call(methods.DESCRIBE_CONFIGS, request))


async def test_eight_such_requests_have_one_slice_in_a_turn_bnd_20(world, monkeypatch):
    looked_up = [0]
    topic_named = world.view.topic_named

    def counted(name):
        looked_up[-1] += 1
        return topic_named(name)

    monkeypatch.setattr(world.view, "topic_named", counted)
    request = pb.DescribeTopicsRequest(names=NAMES[:1_000])
    asked = asyncio.gather(*(world.call(methods.DESCRIBE_TOPICS, request) for _ in range(8)))
    while not asked.done():
        await asyncio.sleep(0)
        looked_up.append(0)
    await asked
    assert sum(looked_up) == 8_000
    first_slices = [each for each in looked_up if each > UNITS_OF_A_SLICE]
    assert len(first_slices) <= 1, f"names looked at in a turn: {first_slices}"


async def test_awaited_leaders_of_topics_that_are_not_there_are_looked_at_in_slices_bnd_20(
    world, monkeypatch
):
    looked_up = [0]
    topic = world.view.topic

    def counted(topic_id):
        looked_up[-1] += 1
        return topic(topic_id)

    monkeypatch.setattr(world.view, "topic", counted)
    request = pb.MetadataRequest(max_wait_ms=2_000, topics=pb.TopicNames())
    for number in range(1_000):
        request.awaited.add(topic_id=number.to_bytes(16), partition=0, above_leader_epoch=7)
    asked = asyncio.gather(*(world.call(methods.METADATA, request) for _ in range(8)))
    while not asked.done():
        await asyncio.sleep(0)
        looked_up.append(0)
    await asked
    assert sum(looked_up) == 8_000
    first, *later = sorted(looked_up, reverse=True)
    assert first <= 8 * 250, "the first slice of each"
    assert max(later) <= 250, "one slice of one of them"


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        (methods.METADATA, pb.MetadataRequest()),
        (methods.METADATA, pb.MetadataRequest(topics=pb.TopicNames(names=["large"]))),
        (methods.DESCRIBE_TOPICS, pb.DescribeTopicsRequest(names=["large"])),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
async def test_one_topic_of_ten_thousand_partitions_is_answered_in_slices_bnd_20(
    world, monkeypatch, method, request_
):
    large = world.topic("large", TopicId(bytes(15) + b"L"), 10_000)
    await world.write(large, until=lambda: world.view.topic_named("large"))
    turns = Turns(world.clock, monkeypatch)
    turns.count(world.view, "leader")
    await world.call(method, request_)
    assert turns.total == 10_000
    assert turns.most <= UNITS_OF_A_SLICE


def test_prefixes_of_a_name_are_found_whatever_lies_between_bnd_20():
    chance = random.Random(20)
    for _ in range(300):
        names = {
            "".join(chance.choices("ab-", k=chance.randrange(1, 7)))
            for _ in range(chance.randrange(1, 40))
        }
        given = RuleSet(
            AclRule(EVE, Permission.ALLOW, None, ResourceType.TOPIC, each, Pattern.PREFIXED)
            for each in names
        )
        asked = "".join(chance.choices("ab-", k=chance.randrange(1, 9)))
        found = [rule.name for rule in given.fitting(EVE, ResourceType.TOPIC, asked)]
        wanted = sorted((each for each in names if asked.startswith(each)), key=len, reverse=True)
        assert found == wanted, (names, asked)
