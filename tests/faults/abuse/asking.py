"""Questions: many names, many rules, leaders that are waited for, floods of metadata."""

import asyncio
import os

from sharemesh import methods as m
from sharemesh.client.acls import AclBinding
from sharemesh.client.errors import SharemeshError
from sharemesh.v1 import admin_pb2, share_leader_pb2
from sharemesh.v1.record_log_pb2 import ListOffsetsRequest
from tests.faults.abuse.abused_cluster import (
    MALLOR,
    MINE,
    NO_RIGHT,
    OTHER_RIGHT,
    REVOKED,
    ROLES,
    Stage,
)
from tests.faults.abuse.kinds import abuse, error_codes, flood

RULES = 10_000
NAMES = 10_000
RULES_AT_ONCE = 100
WAITING = 500
AWAITED = 1_000


async def with_rules(stage: Stage) -> None:
    """Have 10,000 rules of nobody on names that begin alike, as far as there is room."""
    if "rules" in stage.said:
        return
    made = [
        AclBinding("User:nobody", "read", "topic", f"n{number}", prefixed=number % 2 == 0)
        for number in range(RULES - 100)
    ]
    async with stage.client("root").async_admin() as admin:
        for at in range(0, len(made), RULES_AT_ONCE):
            problems = await admin.create_acls(made[at : at + RULES_AT_ONCE])
            assert set(problems.values()) <= {None}, problems
    stage.said["rules"] = len(made)


def many_names() -> list[str]:
    """Return 10,000 names that were never asked about."""
    return [f"n{number}-{os.urandom(4).hex()}" for number in range(NAMES)]


@abuse(NO_RIGHT, OTHER_RIGHT, finding=2, once=True, first=with_rules)
async def ten_thousand_names_against_ten_thousand_rules(stage: Stage, who: str) -> None:
    """Metadata and descriptions of 10,000 names, each of which the rules are asked about."""
    for role in ("share-leader", "controller"):
        names = admin_pb2.MetadataRequest()
        names.topics.names.extend(many_names())
        await stage.send(who, role, m.METADATA, names)
        described = admin_pb2.DescribeTopicsRequest(names=many_names())
        await stage.send(who, role, m.DESCRIBE_TOPICS, described)


@abuse(NO_RIGHT, once=True, first=with_rules)
async def ten_thousand_names_again_and_again(stage: Stage, who: str) -> None:
    """Eight such questions at the same time, which cost a process its lease once."""
    names = admin_pb2.MetadataRequest()
    names.topics.names.extend(many_names())
    await flood(stage, who, "share-leader", m.METADATA, [names] * 8, at_once=8)


@abuse(NO_RIGHT, finding=7, once=True)
async def leaders_that_are_awaited(stage: Stage, who: str) -> None:
    """Five hundred questions that wait for a thousand leaders each, while topics are made."""
    waiting = admin_pb2.MetadataRequest(max_wait_ms=2_000)
    waiting.topics.SetInParent()
    for number in range(AWAITED):
        waiting.awaited.add(topic_id=number.to_bytes(16), partition=0, above_leader_epoch=2**31 - 1)
    data = waiting.SerializeToString()
    asked = asyncio.ensure_future(
        flood(stage, who, "share-leader", m.METADATA, [data] * WAITING, at_once=100)
    )
    async with stage.client("mallory").async_admin() as admin:
        for number in range(3):
            try:
                await admin.create_topic(f"{MINE}-{number}", 1)
            except SharemeshError:
                continue  # mallory may create no more than that one
    await asked


@abuse(OTHER_RIGHT, finding=7, once=True)
async def leaders_of_ones_own_that_are_awaited(stage: Stage, who: str) -> None:
    """The same for partitions that one may see."""
    waiting = admin_pb2.MetadataRequest(max_wait_ms=1_000)
    waiting.topics.SetInParent()
    for _ in range(AWAITED):
        waiting.awaited.add(
            topic_id=stage.topic_ids[MINE], partition=0, above_leader_epoch=2**31 - 1
        )
    data = waiting.SerializeToString()
    await flood(stage, who, "controller", m.METADATA, [data] * 200, at_once=100)


@abuse(NO_RIGHT, REVOKED, OTHER_RIGHT)
async def metadata_without_pause(stage: Stage, who: str) -> None:
    """All topics, again and again, from every role."""
    for role in ROLES:
        await flood(stage, who, role, m.METADATA, [admin_pb2.MetadataRequest()] * 200, at_once=4)


@abuse(NO_RIGHT, finding=14)
async def topics_by_guessed_ids(stage: Stage, who: str) -> None:
    """Offsets and leaders of ids that some topic has, and that none has."""
    request = ListOffsetsRequest()
    for topic_id in (stage.topic_ids["secret"], os.urandom(16)):
        for partition in (0, 1, 7, -1, 2**31 - 1):
            request.partitions.add(topic_id=topic_id, partition=partition, timestamp=-1)
    answer = await stage.ask(who, "share-leader", m.LIST_OFFSETS, request)
    known = {each.error_code for each in answer.partitions[:5]}
    assert known == {29}, f"partitions of one topic are told apart: {known}"


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def rules_asked_for_and_made(stage: Stage, who: str) -> None:
    """Who may what; a rule for oneself; and away with those of others."""
    rule = admin_pb2.CreateAclsRequest()
    rule.rules.add(
        resource_type=admin_pb2.ACL_RESOURCE_TYPE_TOPIC,
        resource_name="secret",
        pattern_type=admin_pb2.ACL_PATTERN_TYPE_LITERAL,
        principal="User:bob",
        operation=admin_pb2.ACL_OPERATION_ALL,
        permission=admin_pb2.ACL_PERMISSION_ALLOW,
    )
    away = admin_pb2.DeleteAclsRequest(filters=[admin_pb2.AclFilter()])
    for role in ROLES:
        for method, request in (
            (m.DESCRIBE_ACLS, admin_pb2.DescribeAclsRequest()),
            (m.CREATE_ACLS, rule),
            (m.DELETE_ACLS, away),
        ):
            said = await stage.send(who, role, method, request)
            codes = error_codes(method.response.FromString(said.data))
            assert 31 in codes, f"{who}, {method.name} at {role}: {codes}"


@abuse(NO_RIGHT, OTHER_RIGHT)
async def coordinators_of_many_groups(stage: Stage, who: str) -> None:
    """Thousands of keys in one question, of groups and of share partitions."""
    for kind in (admin_pb2.COORDINATOR_KEY_TYPE_GROUP, admin_pb2.COORDINATOR_KEY_TYPE_SHARE):
        request = admin_pb2.FindCoordinatorRequest(key_type=kind)
        request.keys.extend(f"g{number}:AAAAAAAAAAAAAAAAAAAAAQ:0" for number in range(1_000))
        await stage.send(who, "group-coordinator", m.FIND_COORDINATOR, request)


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def what_belongs_to_the_cluster(stage: Stage, who: str) -> None:
    """The cluster's description, its settings, a drain of its leader."""
    configs = admin_pb2.DescribeConfigsRequest()
    configs.resources.add(type=admin_pb2.CONFIG_RESOURCE_TYPE_CLUSTER)
    for role in ROLES:
        await stage.send(who, role, m.DESCRIBE_CLUSTER, admin_pb2.DescribeClusterRequest())
        await stage.send(who, role, m.DESCRIBE_CONFIGS, configs)
        drain = admin_pb2.DrainNodeRequest(node_id="share-leader-0")
        answer = await stage.ask(who, role, m.DRAIN_NODE, drain)
        assert answer.error_code == 31, f"{who} may drain: {answer}"


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def topics_of_others_changed(stage: Stage, who: str) -> None:
    """Delete, enlarge and set what is another's; make new ones of reserved and odd names."""
    new = admin_pb2.CreateTopicsRequest()
    for name in ("secret", "secret2", "__reserved", "../up", "a" * 300, "", "\x1b[2J"):
        new.topics.add(name=name, partitions=2**31 - 1)
    more = admin_pb2.CreatePartitionsRequest()
    more.topics.add(name="secret", total=10_000)
    setting = admin_pb2.AlterConfigsRequest()
    setting.resource.type, setting.resource.name = admin_pb2.CONFIG_RESOURCE_TYPE_TOPIC, "secret"
    setting.configs.add(name="retention.ms", value="1")
    for method, request in (
        (m.CREATE_TOPICS, new),
        (m.DELETE_TOPICS, admin_pb2.DeleteTopicsRequest(names=["secret"] * 100)),
        (m.CREATE_PARTITIONS, more),
        (m.ALTER_CONFIGS, setting),
    ):
        said = await stage.send(who, "controller", method, request)
        codes = error_codes(method.response.FromString(said.data))
        assert 0 not in codes or method is m.CREATE_TOPICS, f"{who}, {method.name}: {codes}"


@abuse(NO_RIGHT, OTHER_RIGHT)
async def explanations_without_pause(stage: Stage, who: str) -> None:
    """Explain of every offset there could be, of one's own and of others'."""
    topic, group = ("secret", "alices") if who == NO_RIGHT else (MINE, MALLOR + "y")
    requests = [
        share_leader_pb2.ExplainRequest(
            group_id=group, topic_name=topic, partition=number % 3, offset=offset
        )
        for number in range(20)
        for offset in (0, 1, -1, 2**62, 2**63 - 1, -(2**63))
    ]
    await flood(stage, who, "share-leader", m.EXPLAIN, requests, at_once=4)
