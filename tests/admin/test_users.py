"""Users with passwords as RPCs: what is stored, told and refused (KLS-25)."""

import pytest

from sharemesh import methods
from sharemesh.audit.classes import AUDIT_CLASSES
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.authorizer import CLUSTER_NAME
from sharemesh.ports.coordination import CoordinationError
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb
from tests.admin.world import World

SMALL, LARGE = pb.SCRAM_MECHANISM_SHA_256, pb.SCRAM_MECHANISM_SHA_512


@pytest.fixture
async def world():
    world = await World().start()
    yield world
    await world.stop()


def kept(mechanism, size):
    keys = {"stored_key": b"s" * size, "server_key": b"k" * size}
    return pb.ScramCredential(mechanism=mechanism, iterations=4_096, salt=b"saltsalt", **keys)


def altered(name, *upsertions, deletions=()):
    return pb.UserAlteration(name=name, upsertions=upsertions, deletions=deletions)


async def alter(world, *alterations):
    answer = await world.call(methods.ALTER_USER_SCRAM_CREDENTIALS, alterations=alterations)
    assert [each.name for each in answer.results] == [each.name for each in alterations]
    return [each.error_code for each in answer.results]


async def found(world, *names):
    answer = await world.call(methods.DESCRIBE_USER_SCRAM_CREDENTIALS, names=names)
    assert answer.error_code == 0
    return {
        each.name: each.error_code
        or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


async def test_users_are_stored_told_and_removed(world):
    both = altered("ann", kept(SMALL, 32), kept(LARGE, 64))
    assert await alter(world, both, altered("bob", kept(LARGE, 64))) == [0, 0]
    everybody = {"ann": [(SMALL, 4_096), (LARGE, 4_096)], "bob": [(LARGE, 4_096)]}
    assert await found(world) == everybody
    assert await found(world, "bob", "eve", "bob") == {
        "bob": everybody["bob"],
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
    }
    assert await alter(world, altered("ann", deletions=[SMALL, LARGE])) == [0]
    assert set(await found(world)) == {"bob"}


async def test_one_that_is_refused_leaves_the_others(world):
    invalid = ErrorCode.INVALID_REQUEST
    wanted = (
        (altered("a"), invalid),
        (altered("b", kept(3, 32)), invalid),
        (altered("c", kept(SMALL, 32), deletions=[SMALL]), invalid),
        (altered("d", kept(SMALL, 31)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (altered("e", deletions=[SMALL]), ErrorCode.RESOURCE_NOT_FOUND),
        (altered("", kept(SMALL, 32)), invalid),
        (altered("f", kept(SMALL, 32)), invalid),
        (altered("f", kept(SMALL, 32)), invalid),
        (altered("g", kept(SMALL, 32)), ErrorCode.NONE),
    )
    assert await alter(world, *(each for each, _ in wanted)) == [code for _, code in wanted]
    assert set(await found(world)) == {"g"}


async def test_rights_on_the_cluster_are_needed(world):
    world.rules.denied.add(("alter", "cluster", CLUSTER_NAME))
    assert await alter(world, altered("a", kept(SMALL, 32))) == [31]
    world.rules.denied.add(("describe", "cluster", CLUSTER_NAME))
    answer = await world.call(methods.DESCRIBE_USER_SCRAM_CREDENTIALS)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_store_that_is_away_is_said(world, monkeypatch):
    async def away(*_):
        raise CoordinationError("etcd is away")

    monkeypatch.setattr(world.coordination, "get", away)
    monkeypatch.setattr(world.coordination, "list", away)
    assert await alter(world, altered("a", kept(SMALL, 32))) == [7]
    answer = await world.call(methods.DESCRIBE_USER_SCRAM_CREDENTIALS)
    assert answer.error_code == 7


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        (methods.ALTER_USER_SCRAM_CREDENTIALS, {"alterations": [altered("a")] * 101}),
        (methods.DESCRIBE_USER_SCRAM_CREDENTIALS, {"names": ["a"] * 101}),
    ],
)
async def test_a_request_has_a_bound_of_users(world, method, fields):
    with pytest.raises(CallFailedError) as caught:
        await world.call(method, **fields)
    assert caught.value.failure is Failure.INVALID_ARGUMENT


def test_the_audit_log_names_mechanisms_and_no_key():
    change = altered("ann", kept(SMALL, 32), deletions=[LARGE, 9])
    request = pb.AlterUserScramCredentialsRequest(alterations=[change])
    audited = AUDIT_CLASSES[methods.ALTER_USER_SCRAM_CREDENTIALS.name]
    [told] = [audited.named(each, request, bytes.hex) for each in audited.parts(request)]
    assert (told.type, told.name) == ("user", "User:ann")
    assert told.change == "password: SHA_256 stored, SHA_512 removed, 9 removed"
