"""AUT-9: whatever carries the id of a group, a member or a topic refuses one too long alike."""

from dataclasses import replace

import pytest
from google.protobuf.descriptor import FieldDescriptor

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import (
    MAX_GROUP_ID_CHARS,
    MAX_MEMBER_ID_CHARS,
    MAX_TOPIC_NAME_CHARS,
)
from sharemesh.methods import METHODS
from sharemesh.v1 import admin_pb2 as admin
from tests.authorization.test_nothing_is_told import (
    EVE,
    MINE,
    by_cluster,
    by_group,
    codes,
    heartbeat,
)
from tests.authorization.test_nothing_is_told import answer as ask
from tests.authorization.test_nothing_is_told import world as world  # noqa: PLC0414
from tests.authorization.world import ROOT

LONG_GROUP = "g" * (MAX_GROUP_ID_CHARS + 1)
REFUSED = ErrorCode.INVALID_GROUP_ID
SHARE_KEY = f"{LONG_GROUP}:{'B' * 21}Q:1"


def fields_of(descriptor, wanted):
    """Return whether a request carries one of these fields, at any depth."""
    return any(
        field.name in wanted
        or (
            field.type == FieldDescriptor.TYPE_MESSAGE
            and field.message_type is not descriptor
            and fields_of(field.message_type, wanted)
        )
        for field in descriptor.fields
    )


def put(message, name, value):
    """Set each string field of this name that the message or a part of it has."""
    for field in message.DESCRIPTOR.fields:
        held = getattr(message, field.name)
        if field.name == name:
            setattr(message, name, value)
        elif field.name == f"{name}s":
            del held[:]
            held.append(value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            parts = held if field.is_repeated else [held] * message.HasField(field.name)
            for each in parts:
                put(each, name, value)


def copied(message):
    return type(message).FromString(message.SerializeToString())


def requests(world):
    """A request on a group too long for every RPC that names one."""
    for asked in (*by_group(world), *by_cluster(world)):
        request = copied(asked.existing)
        if asked.method is methods.FIND_COORDINATOR:
            is_share = request.key_type == admin.COORDINATOR_KEY_TYPE_SHARE
            request.keys[:] = [SHARE_KEY if is_share else LONG_GROUP]
        else:
            put(request, "group_id", LONG_GROUP)
        if request != asked.existing:
            yield asked, request


async def test_every_rpc_refuses_a_group_id_that_is_too_long_with_one_code(world):
    seen = set()
    for asked, request in requests(world):
        for principal in (ROOT, EVE) if asked in by_group(world) else (ROOT,):
            await ask(world, replace(asked, principal=principal, code=REFUSED), request)
        seen.add(asked.method.name)
    assert seen == {
        method.name
        for method in METHODS
        if method is methods.FIND_COORDINATOR
        or fields_of(method.request.DESCRIPTOR, {"group_id", "group_ids"})
    }


async def test_every_rpc_refuses_a_member_id_that_is_too_long_with_one_code(world):
    seen = set()
    for asked in by_group(world):
        request = copied(asked.existing)
        put(request, "member_id", "m" * (MAX_MEMBER_ID_CHARS + 1))
        if request != asked.existing:
            refused = replace(asked, principal=ROOT, code=ErrorCode.INVALID_REQUEST)
            await ask(world, refused, request)
            seen.add(asked.method.name)
    assert seen == {
        method.name for method in METHODS if fields_of(method.request.DESCRIPTOR, {"member_id"})
    } - {methods.WRITE_SHARE_GROUP_STATE.name}  # what a leader writes of a member it checked


@pytest.mark.parametrize("longer", [0, 1])
async def test_a_topic_name_too_long_is_refused_wherever_it_might_be_kept(world, longer):
    name = "t" * (MAX_TOPIC_NAME_CHARS + longer)
    joined = await world.call(ROOT, methods.SHARE_GROUP_HEARTBEAT, heartbeat(MINE, "mallory", name))
    creating = admin.CreateTopicsRequest()
    creating.topics.add(name=name, partitions=1)
    created = await world.call(ROOT, methods.CREATE_TOPICS, creating)
    refused = {ErrorCode.INVALID_TOPIC_EXCEPTION} if longer else set()
    assert codes(joined) == codes(created) == refused
