"""Logins of Kafka's clients at a real listener before a mesh in memory."""

import asyncio
import logging
import struct

import pytest

from sharemesh import methods
from sharemesh.domain.scram_credentials import salted_password
from sharemesh.kafka.scram import ScramExchange
from sharemesh.kafka_listener.login.logins import REFUSAL_MS
from sharemesh.telemetry import names
from tests.kafka_listener.logins import (
    ALGORITHMS,
    AUTHENTICATE,
    HANDSHAKE,
    PASSWORD,
    Tokens,
    add_user,
    log_in,
    say,
    scram,
)
from tests.kafka_listener.world import NO_ERROR, ListeningMesh, request_frame

UNPROVEN = "UNAUTHENTICATED"
EVERY = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def listening(**more):
    return ListeningMesh(mechanisms=EVERY, tokens=Tokens(), **more)


def asked_as(mesh):
    """Return whom the handlers of Metadata are asked by."""
    seen = []
    handler = mesh.listener.handlers._unary[methods.METADATA.name]

    async def hear(request, context):
        seen.append(context.principal)
        return await handler(request, context)

    mesh.listener.handlers._unary[methods.METADATA.name] = hear
    return seen


@pytest.mark.parametrize("mechanism", EVERY)
async def test_requests_run_as_whom_a_login_has_proved(mechanism):
    """KLS-20, KLS-21."""
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        seen = asked_as(mesh)
        answer = await log_in(client, mechanism, "alice")
        assert (answer.error_code, answer.error_message) == (NO_ERROR, None)
        assert (await client.ask(3, 13, topics=None)).error_code == NO_ERROR
        assert seen == ["User:alice"]
        assert mesh.counted(names.KAFKA_LISTENER_LOGINS) == {(mechanism, "done"): 1}


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_each_version_of_sasl_authenticate(version):
    """KLS-20."""
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        await client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        said = f"\0alice\0{PASSWORD}".encode()
        assert (await client.ask(AUTHENTICATE, version, auth_bytes=said)).error_code == NO_ERROR


@pytest.mark.parametrize(
    ("mechanism", "name", "password"),
    [
        ("PLAIN", "alice", "another"),
        ("PLAIN", "nobody", PASSWORD),
        ("SCRAM-SHA-256", "alice", "another"),
        ("SCRAM-SHA-512", "nobody", PASSWORD),
    ],
)
async def test_a_wrong_user_looks_like_a_wrong_password(mechanism, name, password, caplog):
    """KLS-22: 58 in words that do not say which, late; then the connection is closed."""
    caplog.set_level(logging.DEBUG)
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        answer = await log_in(client, mechanism, name, password)
        assert int(answer.error_code) == 58
        assert f"invalid credentials with SASL mechanism {mechanism}" in answer.error_message
        assert await client.is_closed()
        await mesh.until(lambda: mesh.refused)
        assert mesh.counted(names.KAFKA_LISTENER_LOGINS) == {(mechanism, "refused"): 1}
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("login_refused",): 1}
    [(method, principal, _, status)] = mesh.refused
    assert (method, principal, status) == ("SaslAuthenticate", "", "UNAUTHENTICATED")
    assert not [each for each in caplog.messages if password in each or PASSWORD in each]


async def salt_of(client, name, mechanism="SCRAM-SHA-256"):
    """Return salt and iterations that somebody is asked for."""
    await client.ask(HANDSHAKE, 1, mechanism=mechanism)
    first = await say(client, f"n,,n={name},r=abc".encode())
    return first.auth_bytes.partition(b",")[2]


async def test_a_user_who_does_not_exist_is_asked_for_the_same_salt_by_each_process():
    """KLS-22: also after a restart; another cluster, name or mechanism has another one."""
    salts = []
    for secret in (b"of the cluster", b"of the cluster", b"of another one"):
        async with listening(secret=secret) as mesh:
            for _ in range(2):
                async with mesh.connect() as client:
                    salts.append(await salt_of(client, "nobody"))
    assert len(set(salts[:4])) == 1
    assert salts[4] == salts[5] != salts[0]
    assert salts[0].endswith(b",i=8192")
    async with listening() as mesh:
        async with mesh.connect() as client:
            assert await salt_of(client, "another") not in salts
        async with mesh.connect() as client:
            assert await salt_of(client, "nobody", "SCRAM-SHA-512") not in salts


async def test_a_token_that_does_not_hold_is_told_in_json_and_then_refused():
    """KLS-21, KLS-22: RFC 7628."""
    async with listening() as mesh, mesh.connect() as client:
        answer = await log_in(client, "OAUTHBEARER", "stale")
        assert (answer.error_code, answer.auth_bytes) == (NO_ERROR, b'{"status":"invalid_token"}')
        answer = await say(client, b"\x01")
        assert int(answer.error_code) == 58
        assert answer.error_message == (
            "Authentication failed: the token has expired: send a newer one"
        )
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", b"\xff"),
        ("PLAIN", b"alice"),
        ("PLAIN", b"bob\0alice\0x"),
        ("PLAIN", b"\0" + b"n" * 256 + b"\0x"),
        ("PLAIN", b"\0\0x"),
        ("SCRAM-SHA-256", b""),
        ("SCRAM-SHA-256", b"\xff"),
        ("SCRAM-SHA-256", b"n,,r=abc,n=alice"),
        ("SCRAM-SHA-256", b"n,,n=,r=abc"),
        ("SCRAM-SHA-256", b"n,,n=alice,r="),
        ("SCRAM-SHA-256", b"n,a=bob,n=alice,r=abc"),
        ("SCRAM-SHA-256", b"p=tls-unique,,n=alice,r=abc"),
        ("OAUTHBEARER", b"\xff"),
        ("OAUTHBEARER", b"n,,\x01\x01"),
        ("OAUTHBEARER", b"n,a=bob,\x01auth=Bearer alice\x01\x01"),
    ],
)
async def test_what_is_no_login_is_refused(mechanism, message):
    """KLS-22."""
    async with listening() as mesh, mesh.connect() as client:
        await client.ask(HANDSHAKE, 1, mechanism=mechanism)
        answer = await say(client, message)
        assert int(answer.error_code) == 58
        assert answer.error_message
        assert await client.is_closed()


@pytest.mark.parametrize(
    "final", [b"", b"c=biws,r=x,p=AAAA", b"c=eSws,{r},p=AAAA", b"c=biws,{r},p=!"]
)
async def test_a_proof_that_is_none_is_refused(final):
    """KLS-22."""
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        await client.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        first = await say(client, b"n,a=alice,n=alice,r=abc")
        nonce = first.auth_bytes.split(b",")[0]
        final = final.replace(b"biws", b"bixhPWFsaWNlLA==").replace(b"{r}", nonce)
        assert int((await say(client, final)).error_code) == 58


async def test_a_proof_of_other_bytes_is_refused():
    """KLS-22: as long as a proof, and wrong."""
    async with listening() as mesh, mesh.connect() as client:
        await client.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        first = await say(client, b"n,,n=alice,r=abc")
        nonce = first.auth_bytes.split(b",")[0]
        final = b"c=biws," + nonce + b",p=" + b"A" * 43 + b"="
        assert int((await say(client, final)).error_code) == 58


async def test_names_are_written_as_rfc_5802_says():
    """KLS-21: with a comma and an equals sign."""
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "a,b=c")
        seen = asked_as(mesh)
        assert (await log_in(client, "SCRAM-SHA-512", "a,b=c")).error_code == NO_ERROR
        await client.ask(3, 13, topics=None)
        assert seen == ["User:a,b=c"]


async def test_a_password_for_one_mechanism_is_good_for_it_and_for_plain():
    """KLS-21."""
    async with listening() as mesh:
        await add_user(mesh, "alice", mechanisms=["SCRAM-SHA-256"])
        for mechanism, code in (("SCRAM-SHA-256", 0), ("PLAIN", 0), ("SCRAM-SHA-512", 58)):
            async with mesh.connect() as client:
                assert int((await log_in(client, mechanism, "alice")).error_code) == code


async def test_only_what_belongs_to_a_login_comes_before_it():
    """KLS-20, AUD-3: refused by its first eight bytes, whatever it announces."""
    async with listening() as mesh:
        async with mesh.connect() as client:
            assert (
                await client.ask(18, 4, client_software_name="x", client_software_version="1")
            ).api_keys
            client.writer.write(struct.pack(">ihhi", 20_000_000, 0, 13, 1))
            assert await client.is_closed()
        async with mesh.connect() as client:
            client.writer.write(request_frame(3, 13, 1, {"topics": None}))
            assert await client.is_closed()
        async with mesh.connect() as client:
            client.writer.write(struct.pack(">ihhi", 20_000, AUTHENTICATE, 2, 1))
            assert await client.is_closed()
        await mesh.until(lambda: len(mesh.refused) == 3)
        assert [told[3] for told in mesh.refused] == [
            *["UNAUTHENTICATED"] * 2,
            "RESOURCE_EXHAUSTED",
        ]
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("no_login",): 2, ("too_large",): 1}


async def test_who_does_not_log_in_is_closed():
    """KLS-22."""
    async with listening(login_ms=300) as mesh, mesh.connect() as client:
        await client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        assert await client.is_closed()
        await mesh.until(lambda: mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("no_login",): 1})


async def test_who_has_not_logged_in_gives_way_to_who_comes(caplog):
    """KLS-27: the oldest first; who has logged in stays, and then nobody gives way."""
    async with listening(max_connections=3) as mesh:
        await add_user(mesh, "alice")
        clients = [mesh.connect() for _ in range(6)]
        for each in clients[:3]:
            await each.__aenter__()
            await each.ask(HANDSHAKE, 1, mechanism="PLAIN")
        logged_in = clients[0]
        assert (await say(logged_in, f"\0alice\0{PASSWORD}".encode())).error_code == NO_ERROR
        for newer in (3, 4):
            await clients[newer].__aenter__()
            assert (await log_in(clients[newer], "PLAIN", "alice")).error_code == NO_ERROR
            assert await clients[newer - 2].is_closed()
        await clients[5].__aenter__()
        assert await clients[5].is_closed(), "all others have logged in"
        assert (await logged_in.ask(3, 13, topics=None)).error_code == NO_ERROR
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("gave_way",): 2, ("too_many",): 1}
        assert mesh.listener.connections == 3
        for each in clients:
            await each.__aexit__()
        await mesh.until(lambda: not mesh.listener.connections)
        assert (mesh.listener._strangers, mesh.listener._leaving) == ({}, {})
    assert sum("log in at once" in each for each in caplog.messages) == 1, "the same once in 10 s"


async def test_those_that_give_way_are_bounded_too(monkeypatch):
    """KLS-27."""
    monkeypatch.setattr("sharemesh.kafka_listener.listener.LEAVING_MAX", 0)
    async with listening(max_connections=1) as mesh, mesh.connect() as one:
        await one.ask(HANDSHAKE, 1, mechanism="PLAIN")
        async with mesh.connect() as another:
            assert await another.is_closed()
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("too_many",): 1}


async def test_a_mechanism_that_is_not_taken_is_answered_with_those_that_are():
    """KLS-20."""
    async with ListeningMesh(mechanisms=["SCRAM-SHA-512"]) as mesh, mesh.connect() as client:
        answer = await client.ask(HANDSHAKE, 1, mechanism="GSSAPI")
        assert (int(answer.error_code), answer.mechanisms) == (33, ("SCRAM-SHA-512",))
        assert await client.is_closed()


async def test_a_login_out_of_turn_is_refused():
    """KLS-20."""
    async with listening() as mesh, mesh.connect() as client:
        answer = await say(client, b"\0alice\0x")
        assert int(answer.error_code) == 34
        assert await client.is_closed()
    async with ListeningMesh() as mesh, mesh.connect() as client:
        answer = await client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        assert (int(answer.error_code), answer.mechanisms) == (34, ())
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("mechanism", "session_ms", "lasts_ms"),
    [("PLAIN", 0, 0), ("PLAIN", 900, 900), ("OAUTHBEARER", 0, 60_000), ("OAUTHBEARER", 900, 900)],
)
async def test_an_answer_says_how_long_a_login_lasts(mechanism, session_ms, lasts_ms):
    """KLS-23."""
    async with listening(session_ms=session_ms) as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        answer = await log_in(client, mechanism, "alice")
        assert answer.session_lifetime.total_seconds() * 1_000 == lasts_ms


async def test_a_token_that_ends_while_it_is_judged_gives_no_login_without_an_end():
    """KLS-23: no login outlasts its token."""
    async with (
        ListeningMesh(mechanisms=EVERY, tokens=Tokens(lasts_ms=0)) as mesh,
        mesh.connect() as client,
    ):
        answer = await log_in(client, "OAUTHBEARER", "alice")
        assert answer.session_lifetime.total_seconds() == 0.001
        [connection] = mesh.listener._open
        await mesh.until(connection.login.is_over)


async def test_a_login_is_begun_once_for_each_connection_and_not_in_its_midst():
    """KLS-20, KLS-22: else one connection could try as many users and tokens as it likes."""
    async with listening() as mesh, mesh.connect() as client:
        await client.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        assert int((await say(client, b"n,,n=alice,r=abc")).error_code) == 0
        again = await client.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        assert (int(again.error_code), again.mechanisms) == (34, EVERY)
        assert await client.is_closed()


async def test_a_login_that_is_over_has_to_be_repeated_by_the_same_user():
    """KLS-23: KIP-368."""
    async with listening(session_ms=200) as mesh:
        await add_user(mesh, "alice")
        await add_user(mesh, "bob")
        async with mesh.connect() as client:
            await log_in(client, "PLAIN", "alice")
            [connection] = mesh.listener._open
            for _ in range(2):
                await mesh.until(connection.login.is_over)
                assert (await log_in(client, "SCRAM-SHA-512", "alice")).error_code == NO_ERROR
                assert (await client.ask(3, 13, topics=None)).error_code == NO_ERROR
            await mesh.until(connection.login.is_over)
            client.send(3, 13, topics=None)
            assert await client.is_closed()
        async with mesh.connect() as client:
            await log_in(client, "PLAIN", "alice")
            answer = await log_in(client, "PLAIN", "bob")
            assert int(answer.error_code) == 58
            assert answer.error_message == "Cannot change principals during re-authentication"
        await mesh.until(lambda: len(mesh.counted(names.KAFKA_LISTENER_CLOSED)) == 2)
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {
            ("login_over",): 1,
            ("login_refused",): 1,
        }


async def test_one_principal_cannot_take_all_connections():
    """KLS-24."""
    async with listening(max_principal_connections=1) as mesh, mesh.connect() as first:
        await add_user(mesh, "alice")
        await add_user(mesh, "bob")
        await log_in(first, "PLAIN", "alice")
        async with mesh.connect() as second, mesh.connect() as other:
            await second.ask(HANDSHAKE, 1, mechanism="PLAIN")
            second.send(AUTHENTICATE, 2, auth_bytes=f"\0alice\0{PASSWORD}".encode())
            assert await second.is_closed()
            assert (await log_in(other, "PLAIN", "bob")).error_code == NO_ERROR
        await mesh.until(lambda: mesh.listener.connections == 1)
        assert mesh.listener._of_principal == {"User:alice": 1}
        assert mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("too_many_of_principal",): 1}


async def test_a_user_who_is_deleted_cannot_log_in():
    """KLS-25: connections that are open stay so."""
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        await log_in(client, "PLAIN", "alice")
        await mesh.mesh.admin().alter_user_scram_credentials({"alice": dict.fromkeys(ALGORITHMS)})
        view = mesh.mesh.nodes[0].view
        assert await view.wait_for(lambda: not view.tables.users, timeout_ms=5_000)
        assert (await client.ask(3, 13, topics=None)).error_code == NO_ERROR
        async with mesh.connect() as again:
            assert int((await log_in(again, "PLAIN", "alice")).error_code) == 58


@pytest.mark.parametrize("password", [None, "another password, as long"])
async def test_a_login_that_was_begun_before_a_change_of_its_user_is_refused(password):
    """KLS-25: the proof is of what was kept then."""
    mechanism = "SCRAM-SHA-256"
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        await log_in(client, mechanism, "alice")
        await client.ask(HANDSHAKE, 1, mechanism=mechanism)
        exchange = ScramExchange(ALGORITHMS[mechanism], "alice", PASSWORD, "nonce-of-the-client")
        first = await say(client, exchange.first())
        tables = mesh.mesh.nodes[0].view.tables
        before = tables.users["alice"]
        change = dict.fromkeys(ALGORITHMS, password)
        await mesh.mesh.admin().alter_user_scram_credentials({"alice": change})
        await mesh.until(lambda: tables.users.get("alice") != before)
        last = await say(client, exchange.final(first.auth_bytes))
        assert int(last.error_code) == 58
        assert await client.is_closed()


async def test_a_user_who_is_deleted_while_a_password_is_hashed_does_not_log_in(monkeypatch):
    """KLS-25."""
    async with listening() as mesh, mesh.connect() as client:
        await add_user(mesh, "alice")
        tables = mesh.mesh.nodes[0].view.tables

        def hashed(*given):
            tables.users.clear()
            return salted_password(*given)

        monkeypatch.setattr("sharemesh.kafka_listener.login.hashing.salted_password", hashed)
        assert int((await log_in(client, "PLAIN", "alice")).error_code) == 58


@pytest.mark.parametrize("says", [None, b"n,,n=alice,r=abc"])
async def test_a_later_login_that_is_not_ended_ends_the_connection(says):
    """KLS-22: as the first one does; whoever begins none stays."""
    async with listening(login_ms=300) as mesh, mesh.connect() as client, mesh.connect() as other:
        await add_user(mesh, "alice")
        await log_in(client, "PLAIN", "alice")
        await log_in(other, "PLAIN", "alice")
        await client.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        if says is not None:
            await say(client, says)
        assert await client.is_closed()
        await mesh.until(lambda: mesh.counted(names.KAFKA_LISTENER_CLOSED) == {("no_login",): 1})
        assert (await other.ask(3, 13, topics=None)).error_code == NO_ERROR


async def test_a_refusal_takes_its_time():
    """KLS-22."""
    async with listening() as mesh, mesh.connect() as client:
        await client.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        began = asyncio.get_running_loop().time()
        assert int((await scram(client, "SCRAM-SHA-256", "nobody")).error_code) == 58
        assert asyncio.get_running_loop().time() - began >= REFUSAL_MS / 1_000 * 0.9


async def test_how_long_a_password_was_tried_is_not_told():
    """KLS-22: it depends on what is kept of the user, if there is one."""
    slept = []

    class Slow:
        times = iter((1_000, 1_070))

        def now_ms(self):
            return next(self.times)

        async def sleep_ms(self, duration_ms):
            slept.append(duration_ms)

    async with listening() as mesh, mesh.connect() as client:
        await client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        mesh.logins.clock = Slow()
        told = await client.ask(AUTHENTICATE, 2, auth_bytes=b"\0nobody\0secret")
        assert (int(told.error_code), slept) == (58, [REFUSAL_MS - 70])


async def test_one_principal_cannot_take_all_the_room_of_large_requests():
    """KLS-5."""
    async with (
        listening(max_held_bytes=1_000_000, max_principal_held_bytes=300_000) as mesh,
        mesh.connect() as first,
        mesh.connect() as second,
        mesh.connect() as another,
    ):
        await add_user(mesh, "alice")
        await add_user(mesh, "bob")
        begun = struct.pack(">ihh", 200_000, 3, 1)
        for client, name, taken in (
            (first, "alice", 200_000),
            (second, "alice", 200_000),
            (another, "bob", 400_000),
        ):
            await log_in(client, "PLAIN", name)
            client.writer.write(begun)
            await mesh.until(lambda taken=taken: mesh.listener.held.held == taken)
        held = mesh.listener.held
        await mesh.until(lambda: [each.principal for each in held._waiting] == ["User:alice"])
        first.writer.transport.abort()
        await mesh.until(lambda: not held._waiting)
        assert held.held == 400_000
