"""RPC x principal: each RPC is called as seven principals; the page says how it ends for each."""

import asyncio

import pytest
from google.protobuf.message import Message

from deploy.pages.permission_outcomes import (
    ANSWERED,
    CODES,
    FAILS,
    LEFT_OUT,
    Caller,
    outcome,
)
from sharemesh.authorization.permissions import PERMISSIONS, Open
from sharemesh.methods import METHODS, StreamingKind
from sharemesh.ports.authorizer import CLUSTER_NAME, ResourceType
from sharemesh.ports.network import CallFailedError, Failure
from tests.authorization.test_nothing_is_told import (
    FAMILIES,
    HERE,
    SECRET,
    codes,
    sent_in,
)
from tests.authorization.test_nothing_is_told import world as world  # noqa: PLC0414
from tests.authorization.world import ROOT

PRINCIPALS = {
    Caller.SUPER_USER: ROOT,
    Caller.ANONYMOUS: "User:ANONYMOUS",
    Caller.NO_RIGHT: "User:bob",
    Caller.OTHER_RIGHT: "User:carol",
    Caller.EXACT_RIGHT: "User:erin",
    Caller.PREFIX_RIGHT: "User:pat",
    Caller.REVOKED: "User:rita",
}
ORDER = sorted(Caller, key=lambda caller: caller in {Caller.PREFIX_RIGHT, Caller.SUPER_USER})
"""Who may delete what others ask about comes last."""

HEARD_S = 0.3
EXACT = {
    ResourceType.TOPIC: SECRET,
    ResourceType.GROUP: HERE,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: "orders-1",
}
OTHER = {ResourceType.TOPIC: "carols", ResourceType.GROUP: "carols"}


def request_of(world, method):
    """Return the first request about what is another's."""
    for family in FAMILIES:
        for asked in family(world):
            if asked.method is method:
                return asked.existing
    raise AssertionError(f"{method.name} has no request")


def needs(name):
    permissions = PERMISSIONS[name]
    return () if isinstance(permissions, Open) else permissions


async def allow_as_declared(world, principal, name, names, *, prefixed=False):
    for each in needs(name):
        if each.resource not in names:
            continue
        thing = names[each.resource]
        short = prefixed and each.resource is not ResourceType.CLUSTER
        await world.allow(
            principal, each.operation, each.resource, thing[:4] if short else thing, prefixed=short
        )


async def have_rights(world, caller, name):
    """Give a caller the rights that its column says."""
    principal = PRINCIPALS[caller]
    if caller is Caller.OTHER_RIGHT:
        await allow_as_declared(world, principal, name, OTHER)
    elif caller in {Caller.EXACT_RIGHT, Caller.REVOKED}:
        await allow_as_declared(world, principal, name, EXACT)
    elif caller is Caller.PREFIX_RIGHT:
        await allow_as_declared(world, principal, name, EXACT, prefixed=True)
    if caller is Caller.REVOKED and needs(name):
        await world.forbid(principal)


async def found(world, principal, method, request):
    """Return how a call ends for a principal, and all that it was told."""
    try:
        if method.kind is StreamingKind.STREAM:
            said = await heard(world, principal, method, request)
        else:
            said = [await world.call(principal, method, request)]
    except CallFailedError as error:
        if error.failure is not Failure.PERMISSION_DENIED:
            raise
        return FAILS, str(error).encode()
    told = b"".join(each.SerializeToString() for each in said)
    refused = {int(code) for code in CODES.values()} & set().union(set(), *map(codes, said))
    return " ".join(map(str, sorted(refused))) or ANSWERED, told


async def heard(world, principal, method, request) -> list[Message]:
    """Return what a stream says first; silence is no refusal."""
    stream = await world.caller(principal).stream(method, to="node-1:1")
    said = []
    try:
        await stream.send(request)
        async with asyncio.timeout(HEARD_S):
            async for answer in stream:
                said.append(answer)
    except TimeoutError:
        pass
    finally:
        await stream.close()
    return said


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_each_rpc_ends_for_each_principal_as_the_page_says(world, method):
    name = method.name
    await world.create_topic(OTHER[ResourceType.TOPIC], 1)
    request = request_of(world, method)
    hidden = {
        "the topic": (SECRET.encode(),),
        "the group": (HERE.encode(),),
        "the topic's id": (world.secret, world.secret.hex().encode()),
    }
    for caller in ORDER:
        await have_rights(world, caller, name)
        ended, told = await found(world, PRINCIPALS[caller], method, request)
        expected = outcome(name, caller)
        assert ended == (ANSWERED if expected == LEFT_OUT else expected), (caller, told)
        if outcome(name, caller) == ANSWERED and needs(name):
            continue
        for what, forms in hidden.items():
            if not any(sent_in(request, form) for form in forms):
                assert not any(form in told for form in forms), f"{caller} is told {what}: {told}"
