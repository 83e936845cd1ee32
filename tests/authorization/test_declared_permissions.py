"""Each RPC declares its permissions, and its handler asks for these and no others."""

import pytest
from google.protobuf.message import Message

from sharemesh.authorization.permissions import PERMISSIONS, Level, Open
from sharemesh.codec.record_set import build_batch
from sharemesh.methods import METHODS
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.v1 import group_coordinator_pb2 as group
from sharemesh.v1 import record_log_pb2 as log
from tests.authorization.test_nothing_is_told import (
    EVE,
    FAMILIES,
    HERE,
    LED,
    SECRET,
    Asked,
    answer,
    methods,
)
from tests.authorization.test_nothing_is_told import world as world  # noqa: PLC0414

CODES = {
    ResourceType.TOPIC: 29,
    ResourceType.GROUP: 30,
    ResourceType.CLUSTER: 31,
    ResourceType.TRANSACTIONAL_ID: 53,
}


def declared(name):
    """Return the pairs of operation and type of resource that a method may ask for."""
    permissions = PERMISSIONS[name]
    if isinstance(permissions, Open):
        return set()
    pairs = {(each.operation, each.resource) for each in permissions}
    return pairs | {each.instead for each in permissions if each.instead is not None}


def test_every_rpc_declares_its_permissions_or_says_why_it_needs_none():
    assert list(PERMISSIONS) == [method.name for method in METHODS]
    for name, permissions in PERMISSIONS.items():
        assert permissions.reason if isinstance(permissions, Open) else permissions, name


@pytest.fixture
def asked_of(world):
    """What the access rules were asked, of a caller without the rights, while an RPC ran."""
    found = {method.name: set() for method in METHODS}
    current = []
    allows = world.table.allows

    def recording(principal, operation, resource, name):
        if current and principal == current[-1].principal:
            found[current[-1].method.name].add((operation, resource))
        return allows(principal, operation, resource, name)

    world.table.allows = recording

    async def ask(asked):
        current.append(asked)
        try:
            return await answer(world, asked, asked.existing)
        finally:
            current.pop()

    return found, ask


async def test_every_handler_asks_for_what_its_rpc_declares_and_for_nothing_else(world, asked_of):
    found, ask = asked_of
    for family in FAMILIES:
        for asked in family(world):
            await ask(asked)
    await world.allow(EVE, Operation.DESCRIBE, ResourceType.GROUP, HERE)
    request = group.ShareGroupDescribeRequest(group_ids=[HERE])  # its members' topics are hidden
    await ask(Asked(EVE, methods.SHARE_GROUP_DESCRIBE, request, request, 29))
    await world.allow(EVE, Operation.WRITE, ResourceType.TOPIC, SECRET)
    transactional = log.ProduceRequest(transactional_id="orders-1")
    records = bytes(
        build_batch([(None, b"v", ())], timestamp_ms=1, producer_id=4, is_transactional=True)
    )
    transactional.partitions.add(topic_name=SECRET, partition=LED, records=records)
    await ask(Asked(EVE, methods.PRODUCE, transactional, transactional, 53))
    assert found == {method.name: declared(method.name) for method in METHODS}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
async def test_a_refusal_stands_at_the_level_that_is_declared(world, family):
    for asked in family(world):
        permissions = PERMISSIONS[asked.method.name]
        if isinstance(permissions, Open):
            continue
        found = await answer(world, asked, asked.existing)
        if asked.code is None:
            level = Level.FILTERED if isinstance(found, Message) else Level.CALL
            if level is Level.CALL:
                assert {each.level for each in permissions} == {level}
            continue
        levels = {
            each.level
            for each in permissions
            if asked.code in {CODES[each.resource], each.instead and CODES[each.instead[1]]}
        }
        at_top = getattr(found, "error_code", 0) == asked.code
        assert levels, asked.method.name
        assert (levels == {Level.REQUEST}) is at_top, (asked.method.name, found)


async def test_a_refusal_says_what_is_missing_and_the_command_that_allows_it(world):
    request = group.DeleteGroupsRequest(group_ids=[HERE])
    found = await answer(world, Asked(EVE, methods.DELETE_GROUPS, request, request, 30), request)
    assert [each.error_message for each in found.results] == [
        "User:eve is not authorized for DELETE on group 'alices'; an administrator can allow it "
        "with: sharemesh acls add --principal User:eve --operation delete --group alices"
    ]
