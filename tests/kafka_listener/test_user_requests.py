"""Users with passwords, and quotas, as kafka-configs asks for them (KLS-44)."""

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.scram_credentials import ScramMechanism, salted_password
from sharemesh.kafka_listener.translation import scram_users
from tests.kafka_listener.logins import PASSWORD, add_user, log_in
from tests.kafka_listener.world import NO_ERROR, ListeningMesh

DESCRIBE_QUOTAS, ALTER_QUOTAS, DESCRIBE_USERS, ALTER_USERS = 48, 49, 50, 51
EXACT, DEFAULT, ANY = 0, 1, 2
SMALL, LARGE = 1, 2
MECHANISMS = {SMALL: ScramMechanism.SHA_256, LARGE: ScramMechanism.SHA_512}


def upsertion(name, mechanism=SMALL, password=PASSWORD, iterations=4_096, salt=b"salted-well"):
    """Return what Kafka's admin client sends: the password's hash, from which keys follow."""
    known = MECHANISMS.get(mechanism, ScramMechanism.SHA_256)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted_password(known, password, salt, max(iterations, 1)),
    }


def deletion(name, mechanism=SMALL):
    return {"name": name, "mechanism": mechanism}


async def alter(client, *upsertions, deletions=()):
    told = await client.ask(ALTER_USERS, 0, upsertions=upsertions, deletions=deletions)
    return {each.user: int(each.error_code) for each in told.results}


async def users(client, *names):
    asked = [{"name": each} for each in names] or None
    told = await client.ask(DESCRIBE_USERS, 0, users=asked)
    assert told.error_code == NO_ERROR
    return {
        each.user: int(each.error_code)
        or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in told.results
    }


async def quotas(client, *components, version=1, strict=True):
    told = await client.ask(
        DESCRIBE_QUOTAS,
        version,
        components=[
            {"entity_type": kind, "match_type": match, "match": name}
            for kind, match, name in components
        ],
        strict=strict,
    )
    if told.error_code != NO_ERROR:
        assert told.entries is None
        return int(told.error_code)
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in told.entries
    }


async def alter_quotas(client, entity, /, version=1, **changes):
    told = await client.ask(
        ALTER_QUOTAS,
        version,
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in changes.items()
                ],
            }
        ],
        validate_only=False,
    )
    [result] = told.entries
    assert [(each.entity_type, each.entity_name) for each in result.entity] == entity
    return int(result.error_code)


async def test_who_gets_a_password_by_kafkas_tool_logs_in_with_it():
    """KLS-44: what is kept follows from what the tool sends."""
    mechanisms = list(MECHANISMS.values())
    async with ListeningMesh(mechanisms=mechanisms) as mesh, mesh.connect() as client:
        await add_user(mesh, "root", mechanisms=mechanisms[:1])
        await log_in(client, mechanisms[0], "root")
        both = (upsertion("ann"), upsertion("ann", LARGE, iterations=5_000), upsertion("bob"))
        assert await alter(client, *both) == {"ann": 0, "bob": 0}
        told = await users(client)
        assert told.keys() == {"ann", "bob", "root"}
        assert told["ann"] == [(SMALL, 4_096), (LARGE, 5_000)]
        missing = ErrorCode.RESOURCE_NOT_FOUND
        assert await users(client, "bob", "eve") == {"bob": [(SMALL, 4_096)], "eve": missing}
        view = mesh.mesh.nodes[0].view
        assert await view.wait_for(lambda: "ann" in view.tables.users, timeout_ms=5_000)
        for each in mechanisms:
            async with mesh.connect() as hers:
                assert (await log_in(hers, each, "ann")).error_code == NO_ERROR
        async with mesh.connect() as stranger:
            wrong = await log_in(stranger, mechanisms[0], "ann", "another password")
            assert int(wrong.error_code) == 58
        gone = [deletion("ann"), deletion("ann", LARGE), deletion("eve")]
        assert await alter(client, deletions=gone) == {"ann": 0, "eve": missing}
        assert set(await users(client)) == {"bob", "root"}


async def test_one_user_that_is_refused_leaves_the_others():
    """KLS-44."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        invalid, unacceptable = ErrorCode.INVALID_REQUEST, ErrorCode.UNACCEPTABLE_CREDENTIAL
        wanted = {"few": unacceptable, "unknown": invalid, "twice": invalid, "": invalid, "ann": 0}
        told = await alter(
            client,
            upsertion("few", iterations=4_095),
            upsertion("unknown", 7),
            *[upsertion("twice")] * 3,
            upsertion(""),
            upsertion("ann"),
        )
        assert told == wanted
        assert set(await users(client)) == {"ann"}
        many = [upsertion(f"u{number}") for number in range(101)]
        assert set((await alter(client, *many)).values()) == {invalid}
        asked = [{"name": f"u{number}"} for number in range(101)]
        assert int((await client.ask(DESCRIBE_USERS, 0, users=asked)).error_code) == invalid
        mesh.listener.handlers._unary = {}
        assert await alter(client, upsertion("ann")) == {"ann": ErrorCode.UNKNOWN_SERVER_ERROR}


def test_no_key_is_derived_for_what_is_refused_anyway(monkeypatch):
    """KLS-44: a request of many users costs nothing before its right is looked at."""
    derived = []
    original = scram_users.credential_of
    monkeypatch.setattr(
        scram_users, "credential_of", lambda *given: derived.append(1) or original(*given)
    )

    class Seen:
        class message:  # noqa: N801
            deletions = ()
            upsertions = ()

    def asked(*names):
        fields = upsertion("some")
        Seen.message.upsertions = [type("U", (), {**fields, "name": name}) for name in names]
        scram_users.alter_request(Seen)
        return len(derived)

    assert asked(*[f"u{number}" for number in range(101)]) == 0
    assert asked(*["one"] * 3) == 0
    assert asked("one", "one", "two") == 3


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_of_users_are_described_and_altered(version):
    """KLS-44: alice is User:alice."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        alice, everybody = [("user", "alice")], [("user", None)]
        rate = {"producer_byte_rate": 1_000.0}
        assert await alter_quotas(client, alice, version=version, **rate) == 0
        assert await alter_quotas(client, everybody, consumer_byte_rate=5.0) == 0
        own, default = {(("user", "alice"),): rate}, {(("user", None),): {"consumer_byte_rate": 5}}
        assert await quotas(client, ("user", EXACT, "alice"), version=version) == own
        assert await quotas(client, ("user", DEFAULT, None)) == default
        assert await quotas(client, ("user", ANY, None)) == own | default
        assert await quotas(client, strict=False) == own | default
        [stored] = [each async for each in described(mesh) if each.name]
        assert stored.name == "User:alice"
        assert await alter_quotas(client, alice, producer_byte_rate=None) == 0
        assert await quotas(client, ("user", ANY, None)) == default


async def described(mesh):
    for each in await mesh.admin().describe_client_quotas():
        yield each


async def test_client_ids_and_addresses_have_no_quotas():
    """KLS-44."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        for kind in ("client-id", "ip"):
            assert await quotas(client, (kind, ANY, None)) == {}
            assert await quotas(client, ("user", ANY, None), (kind, ANY, None), strict=False) == {}
            refused = await alter_quotas(client, [(kind, "x")], producer_byte_rate=5.0)
            assert refused == ErrorCode.INVALID_REQUEST
        both = [("user", "alice"), ("client-id", "x")]
        assert await alter_quotas(client, both, producer_byte_rate=5.0) == ErrorCode.INVALID_REQUEST
        assert await quotas(client, ("other", ANY, None)) == ErrorCode.UNSUPPORTED_VERSION
        mesh.listener.handlers._unary = {}
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        assert await quotas(client, ("user", ANY, None)) == unknown
        assert await alter_quotas(client, [("user", None)], producer_byte_rate=5.0) == unknown
