"""AUT-1, AUT-2: who lacks a right cannot tell what is there from what is not, over every RPC."""

import asyncio
import re
from dataclasses import dataclass

import pytest
from google.protobuf.message import Message

from sharemesh import methods
from sharemesh.methods import METHODS, Method, StreamingKind
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as admin
from sharemesh.v1 import group_coordinator_pb2 as group
from sharemesh.v1 import record_log_pb2 as log
from sharemesh.v1 import share_coordinator_pb2 as state
from sharemesh.v1 import share_leader_pb2 as leader
from tests.authorization.world import ROOT, World, allow_group, heartbeat, running_world

EVE, MALLORY = "User:eve", "User:mallory"  # no right at all; every right on a group of her own
HERE, THERE, MINE = "alices", "nobody", "mallor"  # groups: others', of nobody, mallory's
SECRET, ABSENT = "secret", "absent"  # topics: of others, of nobody
NO_ID = b"no such topic id"
LED, BEYOND = 1, 7  # a partition that is there, and one that is not
TOPIC, CLUSTER = admin.CONFIG_RESOURCE_TYPE_TOPIC, admin.CONFIG_RESOURCE_TYPE_CLUSTER


@dataclass(frozen=True)
class Asked:
    """The same request about what exists and about what does not; ``code`` refuses both."""

    principal: str
    method: Method[Message, Message]
    existing: Message
    absent: Message
    code: int | None  # None: the call itself fails, or the answer needs no refusal


def by_group(world):
    """Requests on a group that is somebody else's, or nobody's."""

    def pair(method, make, code=30):
        return Asked(EVE, method, make(HERE), make(THERE), code)

    def altered(name):
        request = group.AlterShareGroupOffsetsRequest(group_id=name)
        request.topics.add(topic_name=SECRET).partitions.add(partition=LED, start_offset=5)
        return request

    def described(name):
        request = group.DescribeShareGroupOffsetsRequest()
        request.groups.add(group_id=name)
        return request

    def configured(name):
        request = group.AlterGroupConfigsRequest(group_id=name)
        request.configs.add(name="share.isolation.level", value="read_committed")
        return request

    return [
        pair(methods.SHARE_GROUP_HEARTBEAT, lambda name: heartbeat(name, "m", SECRET)),
        pair(methods.SHARE_GROUP_HEARTBEAT_STREAM, lambda name: heartbeat(name, "m", SECRET)),
        pair(methods.SHARE_GROUP_HEARTBEAT, lambda name: heartbeat(name, "alice", epoch=-1)),
        pair(
            methods.SHARE_GROUP_DESCRIBE,
            lambda name: group.ShareGroupDescribeRequest(group_ids=[name]),
        ),
        pair(methods.LIST_GROUPS, lambda _: group.ListGroupsRequest(), None),
        pair(methods.DELETE_GROUPS, lambda name: group.DeleteGroupsRequest(group_ids=[name])),
        pair(methods.DESCRIBE_SHARE_GROUP_OFFSETS, described),
        pair(methods.ALTER_SHARE_GROUP_OFFSETS, altered),
        pair(
            methods.DELETE_SHARE_GROUP_OFFSETS,
            lambda name: group.DeleteShareGroupOffsetsRequest(group_id=name, topic_names=[SECRET]),
        ),
        pair(
            methods.DESCRIBE_GROUP_CONFIGS,
            lambda name: group.DescribeGroupConfigsRequest(group_ids=[name]),
        ),
        pair(methods.ALTER_GROUP_CONFIGS, configured),
        pair(methods.SHARE_FETCH, lambda name: fetch(name, world.secret, LED)),
        pair(methods.SHARE_ACKNOWLEDGE, lambda name: acknowledge(name, world.secret, LED)),
        pair(methods.CONSUME, lambda name: consume(name, world.secret, LED)),
        pair(
            methods.HOLD_SESSION,
            lambda name: leader.HoldSessionRequest(group_id=name, member_id="m"),
        ),
        pair(methods.EXPLAIN, lambda name: explain(name, SECRET, LED)),
        pair(methods.FIND_COORDINATOR, lambda name: admin.FindCoordinatorRequest(keys=[name])),
    ]


def by_topic_name(_world):
    """Requests on a topic by its name, with every right on the group."""

    def pair(method, make, code=29):
        return Asked(MALLORY, method, make(SECRET), make(ABSENT), code)

    def described(name):
        request = group.DescribeShareGroupOffsetsRequest()
        request.groups.add(group_id=MINE).topics.topics.add(topic_name=name, partitions=[LED])
        return request

    def altered(name):
        request = group.AlterShareGroupOffsetsRequest(group_id=MINE)
        request.topics.add(topic_name=name).partitions.add(partition=LED, start_offset=5)
        return request

    def produced(name):
        request = log.ProduceRequest()
        request.partitions.add(topic_name=name, partition=LED).decoded_records.add(value=b"v")
        return request

    def read(name):
        request = log.FetchRequest()
        request.partitions.add(topic_name=name, partition=LED, max_bytes=1_000)
        return request

    def listed(name):
        request = log.ListOffsetsRequest()
        request.partitions.add(topic_name=name, partition=LED, timestamp=-1)
        return request

    def trimmed(name):
        request = log.DeleteRecordsRequest()
        request.partitions.add(topic_name=name, partition=LED, offset=1)
        return request

    def named(kind, **fields):
        def make(name):
            request = kind()
            request.topics.add(name=name, **fields)
            return request

        return make

    def metadata(name):
        request = admin.MetadataRequest()
        request.topics.names.append(name)
        return request

    def settings(name):
        request = admin.DescribeConfigsRequest()
        request.resources.add(type=TOPIC, name=name)
        return request

    def set_to(name):
        request = admin.AlterConfigsRequest()
        request.resource.type, request.resource.name = TOPIC, name
        request.configs.add(name="retention.ms", value="5000")
        return request

    return [
        pair(methods.SHARE_GROUP_HEARTBEAT, lambda name: heartbeat(MINE, "m", name)),
        pair(methods.SHARE_GROUP_HEARTBEAT_STREAM, lambda name: heartbeat(MINE, "m", name)),
        pair(methods.DESCRIBE_SHARE_GROUP_OFFSETS, described),
        pair(methods.ALTER_SHARE_GROUP_OFFSETS, altered),
        pair(
            methods.DELETE_SHARE_GROUP_OFFSETS,
            lambda name: group.DeleteShareGroupOffsetsRequest(group_id=MINE, topic_names=[name]),
        ),
        pair(methods.EXPLAIN, lambda name: explain(MINE, name, LED)),
        pair(methods.PRODUCE, produced),
        pair(methods.LIST_OFFSETS, listed),
        pair(methods.DELETE_RECORDS, trimmed),
        pair(methods.FETCH, read),
        pair(methods.METADATA, metadata),
        pair(methods.METADATA, lambda _: admin.MetadataRequest(), None),
        pair(methods.DESCRIBE_TOPICS, lambda name: admin.DescribeTopicsRequest(names=[name])),
        pair(methods.DESCRIBE_TOPICS, lambda _: admin.DescribeTopicsRequest(), None),
        pair(methods.CREATE_TOPICS, named(admin.CreateTopicsRequest, partitions=3)),
        pair(methods.DELETE_TOPICS, lambda name: admin.DeleteTopicsRequest(names=[name])),
        pair(methods.ATTACH_TOPICS, lambda name: admin.AttachTopicsRequest(names=[name])),
        pair(methods.DETACH_TOPICS, lambda name: admin.DetachTopicsRequest(names=[name])),
        pair(methods.CREATE_PARTITIONS, named(admin.CreatePartitionsRequest, total=9)),
        pair(methods.DESCRIBE_CONFIGS, settings),
        pair(methods.ALTER_CONFIGS, set_to),
    ]


def by_topic_id(world):
    """Requests on a partition by the id of its topic: the number of partitions is not told."""

    def pair(method, make):
        return Asked(
            MALLORY, method, make(MINE, world.secret, LED), make(MINE, world.secret, BEYOND), 29
        )

    def produced(_group, topic_id, number):
        request = log.ProduceRequest()
        part = request.partitions.add(topic_id=topic_id, partition=number)
        part.decoded_records.add(value=b"v")
        return request

    def listed(_group, topic_id, number):
        request = log.ListOffsetsRequest()
        request.partitions.add(topic_id=topic_id, partition=number, timestamp=-1)
        return request

    def read(_group, topic_id, number):
        request = log.FetchRequest()
        request.partitions.add(topic_id=topic_id, partition=number, max_bytes=1_000)
        return request

    def producers(_group, topic_id, number):
        request = log.DescribeProducersRequest()
        request.partitions.add(topic_id=topic_id, partition=number)
        return request

    def trimmed(_group, topic_id, number):
        request = log.DeleteRecordsRequest()
        request.partitions.add(topic_id=topic_id, partition=number, offset=1)
        return request

    return [
        pair(methods.SHARE_FETCH, fetch),
        pair(methods.SHARE_FETCH, acknowledging_fetch),
        pair(methods.SHARE_ACKNOWLEDGE, acknowledge),
        pair(methods.CONSUME, consume),
        pair(methods.PRODUCE, produced),
        pair(methods.FETCH, read),
        pair(methods.LIST_OFFSETS, listed),
        pair(methods.DELETE_RECORDS, trimmed),
        pair(methods.DESCRIBE_PRODUCERS, producers),
    ]


def by_cluster(world):
    """What is the cluster's own: whatever it names, there is one answer."""

    def pair(method, make, code=31):
        return Asked(EVE, method, make(world.secret), make(NO_ID), code)

    def of_state(kind):
        def make(topic_id):
            request = kind(group_id=HERE)
            request.topics.add(topic_id=topic_id).partitions.add(partition=LED)
            return request

        return make

    def marked(topic_id):
        request = log.WriteTxnMarkersRequest()
        request.markers.add(topic_id=topic_id, partition=LED, producer_id=4)
        return request

    def ruled(_):
        request = admin.CreateAclsRequest()
        request.rules.add(principal=EVE, resource_name=SECRET)
        return request

    def bounded(_):
        request = admin.AlterClientQuotasRequest()
        request.entries.add().entity.add(entity_type="user", entity_name=EVE)
        return request

    def users(_):
        request = admin.AlterUserScramCredentialsRequest()
        request.alterations.add(name=EVE)
        return request

    def settings(_):
        request = admin.DescribeConfigsRequest()
        request.resources.add(type=CLUSTER)
        return request

    def set_to(_):
        request = admin.AlterConfigsRequest()
        request.resource.type = CLUSTER
        return request

    def share_key(topic_id):
        key = f"{HERE}:{'A' * 21 if topic_id == NO_ID else 'B' * 21}Q:1"
        return admin.FindCoordinatorRequest(keys=[key], key_type=admin.COORDINATOR_KEY_TYPE_SHARE)

    return [
        pair(
            methods.INITIALIZE_SHARE_GROUP_STATE, of_state(state.InitializeShareGroupStateRequest)
        ),
        pair(methods.READ_SHARE_GROUP_STATE, of_state(state.ReadShareGroupStateRequest)),
        pair(methods.WRITE_SHARE_GROUP_STATE, of_state(state.WriteShareGroupStateRequest)),
        pair(methods.DELETE_SHARE_GROUP_STATE, of_state(state.DeleteShareGroupStateRequest)),
        pair(
            methods.READ_SHARE_GROUP_STATE_SUMMARY,
            of_state(state.ReadShareGroupStateSummaryRequest),
        ),
        pair(methods.READ_SHARE_RECORD_HISTORY, of_state(state.ReadShareRecordHistoryRequest)),
        pair(
            methods.COMMIT_GENERATION,
            lambda key: state.CommitGenerationRequest(shard=0 if key == NO_ID else 5),
        ),
        pair(methods.WRITE_TXN_MARKERS, marked),
        pair(methods.INIT_PRODUCER_ID, lambda _: log.InitProducerIdRequest()),
        pair(methods.FIND_COORDINATOR, share_key),
        pair(methods.DESCRIBE_CONFIGS, settings),
        pair(methods.ALTER_CONFIGS, set_to),
        pair(
            methods.DESCRIBE_CLUSTER, lambda _: admin.DescribeClusterRequest(partitions=True), None
        ),
        pair(methods.CREATE_ACLS, ruled),
        pair(methods.DELETE_ACLS, lambda _: admin.DeleteAclsRequest(filters=[admin.AclFilter()])),
        pair(methods.DESCRIBE_ACLS, lambda _: admin.DescribeAclsRequest()),
        pair(methods.ALTER_CLIENT_QUOTAS, bounded),
        pair(methods.DESCRIBE_CLIENT_QUOTAS, lambda _: admin.DescribeClientQuotasRequest()),
        pair(methods.ALTER_USER_SCRAM_CREDENTIALS, users),
        pair(
            methods.DESCRIBE_USER_SCRAM_CREDENTIALS,
            lambda _: admin.DescribeUserScramCredentialsRequest(),
        ),
        pair(methods.ACCEPT_LOSS, lambda _: admin.AcceptLossRequest(shard="state-0")),
        pair(
            methods.DRAIN_NODE,
            lambda key: admin.DrainNodeRequest(node_id="node-1" if key == NO_ID else "any"),
        ),
        pair(methods.API_VERSIONS, lambda _: admin.ApiVersionsRequest(), None),
    ]


FAMILIES = (by_group, by_topic_name, by_topic_id, by_cluster)


def fetch(group_id, topic_id, number, **fields):
    request = leader.ShareFetchRequest(
        group_id=group_id, member_id="m", max_bytes=1_000, max_records=5, **fields
    )
    request.topics.add(topic_id=topic_id).partitions.add(partition=number)
    return request


def acknowledging_fetch(group_id, topic_id, number):
    """The fetch that goes on in the session that the one before opened, and acknowledges."""
    request = fetch(group_id, topic_id, number, share_session_epoch=1)
    batches = request.topics[0].partitions[0].acknowledgement_batches
    batches.add(first_offset=0, last_offset=0, acknowledge_types=[1])
    return request


def acknowledge(group_id, topic_id, number):
    request = leader.ShareAcknowledgeRequest(
        group_id=group_id, member_id="m", share_session_epoch=1
    )
    part = request.topics.add(topic_id=topic_id).partitions.add(partition=number)
    part.acknowledgement_batches.add(first_offset=0, last_offset=0, acknowledge_types=[1])
    return request


def consume(group_id, topic_id, number):
    request = leader.ConsumeRequest(credit_records=10)
    request.start.group_id, request.start.member_id = group_id, "m"
    request.add.add(topic_id=topic_id, partitions=[number])
    return request


def explain(group_id, topic_name, number):
    return leader.ExplainRequest(
        group_id=group_id, topic_name=topic_name, partition=number, offset=0
    )


@pytest.fixture
async def world():
    async with running_world() as made:
        made.secret = await made.create_topic(SECRET, 2)
        await made.produce(made.secret, LED)
        await made.join(ROOT, HERE, "alice", SECRET)
        await allow_group(made, MALLORY, MINE)
        await made.join(ROOT, MINE, "guest", SECRET)
        await made.call(ROOT, methods.SHARE_GROUP_HEARTBEAT, heartbeat(MINE, "guest", epoch=-1))
        yield made


async def answer(world: World, asked: Asked, request: Message) -> bytes | str:
    """Return the whole answer, or how the call failed."""
    try:
        if asked.method.kind is StreamingKind.STREAM:
            [found] = await world.said(asked.principal, asked.method, request)
        else:
            await _open_session(world, asked, request)
            found = await world.call(asked.principal, asked.method, request)
    except CallFailedError as error:
        if error.failure is not Failure.PERMISSION_DENIED:
            raise
        return str(error)
    if asked.code is not None:
        assert asked.code in codes(found), (asked.method.name, found)
        assert codes(found) <= {0, asked.code}, (asked.method.name, found)
    return found


async def _open_session(world: World, asked: Asked, request: Message) -> None:
    """A session of unary calls is opened first, for requests that go on in one."""
    if getattr(request, "share_session_epoch", 0) == 1 and asked.principal == MALLORY:
        [topic] = request.topics
        opening = fetch(request.group_id, topic.topic_id, topic.partitions[0].partition)
        await world.call(asked.principal, methods.SHARE_FETCH, opening)


def codes(message: Message) -> set[int]:
    """Return every error code anywhere in an answer."""
    found = set()
    for field, value in message.ListFields():
        if field.name.endswith("error_code"):
            found.add(value)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            several = [value] if isinstance(value, Message) else value
            found.update(*(codes(each) for each in several))
    return found


def without_echo(message: Message | str) -> str:
    """Return an answer as text, without what differs because it was sent."""
    if isinstance(message, str):
        return message
    text = str(type(message).FromString(message.SerializeToString().replace(NO_ID, b"?" * 16)))
    text = text.replace(NO_ID.hex(), "<id>")
    text = re.sub(r"  key: .*", "  key: <key>", text)
    for name in (SECRET, ABSENT, HERE, THERE):
        text = text.replace(name, "<name>")
    return re.sub(r"partition: \d+", "partition: <n>", text)


def sent_in(request: Message, what: bytes) -> bool:
    return what in request.SerializeToString()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
async def test_without_the_right_what_exists_is_answered_like_what_does_not(world, family):
    for asked in family(world):
        existing = await answer(world, asked, asked.existing)
        absent = await answer(world, asked, asked.absent)
        if family is by_cluster and isinstance(existing, Message):
            data = existing.SerializeToString().replace(world.secret, NO_ID)
            existing = type(existing).FromString(data)
        assert without_echo(existing) == without_echo(absent), asked.method.name


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
async def test_no_answer_names_what_the_request_did_not(world, family):
    for asked in family(world):
        found = await answer(world, asked, asked.existing)
        data = found.encode() if isinstance(found, str) else found.SerializeToString()
        for hidden in (SECRET.encode(), HERE.encode(), world.secret, world.secret.hex().encode()):
            if hidden == world.secret.hex().encode() and sent_in(asked.existing, world.secret):
                continue
            if not sent_in(asked.existing, hidden):
                assert hidden not in data, f"{asked.method.name} tells {hidden!r}: {found}"


async def test_every_rpc_is_asked(world):
    asked = {each.method.name for family in FAMILIES for each in family(world)}
    assert asked == {method.name for method in METHODS}


async def test_an_id_that_no_topic_has_is_unknown_and_nothing_else_is_told(world):
    for asked in by_topic_id(world):
        data = asked.existing.SerializeToString().replace(world.secret, NO_ID)
        request = type(asked.existing).FromString(data)
        one = Asked(asked.principal, asked.method, request, request, 100)
        found = await answer(world, one, request)
        assert SECRET not in str(found)


async def test_nobody_waits_for_the_leader_of_what_may_not_be_seen_bnd_22(world):
    def waited(topic_id, epoch):
        request = admin.MetadataRequest(max_wait_ms=2_000)
        request.topics.SetInParent()
        request.awaited.add(topic_id=topic_id, partition=LED, above_leader_epoch=epoch)
        return request

    async def took(principal, topic_id, epoch=2**31 - 1):
        began = asyncio.get_running_loop().time()
        await world.call(principal, methods.METADATA, waited(topic_id, epoch))
        return asyncio.get_running_loop().time() - began

    assert await took(EVE, world.secret) < 1.5
    assert await took(EVE, NO_ID) < 1.5
    assert await took(ROOT, world.secret, -1) < 1.5  # it is led: nothing to wait for
    assert await took(ROOT, world.secret) >= 1.9


async def test_a_group_with_a_hidden_assignment_does_not_name_the_topic(world):
    await world.allow(EVE, Operation.DESCRIBE, ResourceType.GROUP, HERE)
    request = group.ShareGroupDescribeRequest(group_ids=[HERE])
    found = await world.call(EVE, methods.SHARE_GROUP_DESCRIBE, request)
    assert [each.error_code for each in found.groups] == [29]
    assert SECRET not in str(found)
    assert world.secret not in found.SerializeToString()
