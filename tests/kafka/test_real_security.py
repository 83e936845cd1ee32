"""TLS, logins and their refusals at a real Apache Kafka; certificates are made here (spec KBR)."""

import asyncio
import base64
import json
import logging
import random
import time

import pytest
import trustme
import uvloop
from cryptography.hazmat.primitives import serialization

from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.kafka.security import KafkaSecurity, SaslMechanism, SecurityProtocol
from sharemesh.ports.brokers import (
    BrokerAddress,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
)
from tests.clocks import LoopClock
from tests.free_ports import free_port
from tests.kafka.real_broker import QUICK, real_brokers
from tests.kafka.test_real_requests import a_batch, a_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

SECRET = "alices-secret"
LIFETIME_MS = 3_000
_MODULES = "org.apache.kafka.common.security"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required;"
_LISTENERS = {"TLS": "SSL", "MTLS": "SSL", "LOGIN": "SASL_SSL", "OPEN": "SASL_PLAINTEXT"}


def pem(folder, name, cert):
    """Write a certificate with its key as Kafka wants them: PKCS 8, in one file."""
    key = serialization.load_pem_private_key(cert.private_key_pem.bytes(), None)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = b"".join(each.bytes() for each in cert.cert_chain_pems)
    (folder / f"{name}.pem").write_bytes(text + chain)
    (folder / f"{name}.key").write_bytes(text)
    (folder / f"{name}.crt").write_bytes(chain)


def settings(folder):
    plain = f'{_MODULES}.plain.PlainLoginModule required user_alice="{SECRET}";'
    bearer = (
        f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";'
    )
    protocols = {"CLIENT": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    return {
        **QUICK,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in {**protocols, **_LISTENERS}.items()
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "authority.crt",
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.login.plain.sasl.jaas.config": plain,
        "listener.name.login.scram-sha-256.sasl.jaas.config": _SCRAM,
        "listener.name.login.scram-sha-512.sasl.jaas.config": _SCRAM,
        "listener.name.login.oauthbearer.sasl.jaas.config": bearer,
        "listener.name.login.scram-sha-512.connections.max.reauth.ms": LIFETIME_MS,
        "listener.name.open.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.open.scram-sha-256.sasl.jaas.config": _SCRAM,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.crt")
    stranger.cert_pem.write_to_path(folder / "stranger.crt")
    pem(folder, "broker", authority.issue_cert("127.0.0.1", "localhost"))
    pem(folder, "client", authority.issue_cert("alice"))
    (folder / "password").write_text(f"{SECRET}\n")
    (folder / "wrong").write_text("not-the-secret\n")
    (folder / "token").write_text(a_token())
    (folder / "expired").write_text(a_token(lasts_s=-1_000))
    return folder


@pytest.fixture(scope="module")
def kafka(folder, tmp_path_factory):
    with real_brokers(
        tmp_path_factory.mktemp("secure"),
        settings=settings(folder),
        listeners=tuple(_LISTENERS),
        format_arguments=[
            word
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for word in ("--add-scram", f"{mechanism}=[name=alice,password={SECRET}]")
        ],
    ) as brokers:
        yield brokers


def a_token(lasts_s=3_600):
    """Return an unsecured JWT, which Kafka's own validator for tests takes."""
    claims = {"sub": "alice", "iat": time.time() - 2_000, "exp": time.time() + lasts_s}
    parts = [{"alg": "none"}, claims]
    words = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return (b".".join(words) + b".").decode()


async def a_token_of_a_server():
    return a_token()


def a_token_of_a_library():
    return a_token()


def no_token():
    raise OSError("the server that gives tokens is away")


def login(folder, mechanism, protocol=SecurityProtocol.SASL_TLS, **more):
    tls = {"authority": folder / "authority.crt"} if protocol.encrypts else {}
    user = {"username": "alice", "password_file": folder / "password"}
    if mechanism is SaslMechanism.OAUTHBEARER:
        user = {}
    return KafkaSecurity(protocol, mechanism=mechanism, **{**tls, **user, **more})


class Using:
    """A client of one listener, as a context."""

    def __init__(self, kafka, listener, security):
        dialing = Dialing(LoopClock(), "tester", security)
        self.opened = []

        async def counted(broker):
            self.opened.append(broker)
            return await dialing.open(broker)

        servers = kafka.addresses(listener).split(",")
        self.client = KafkaBrokers(servers, dialing, random.Random(1))
        self.client._lanes._open = counted

    async def __aenter__(self):
        return self.client

    async def __aexit__(self, *_):
        await self.client.close()


async def works(kafka, listener, security):
    """Produce and fetch as one listener's client."""
    async with Using(kafka, listener, security) as client:
        place = await a_topic(client)
        await client.produce(place, a_batch(2_000), timeout_ms=5_000)
        assert (await client.fetch(place, 0, max_bytes=1 << 20)).high_watermark == 2_000


def tls(folder, **more):
    return KafkaSecurity(SecurityProtocol.TLS, authority=folder / "authority.crt", **more)


async def test_kbr_10_brokers_are_spoken_to_over_tls(kafka, folder):
    await works(kafka, "TLS", tls(folder))


async def test_kbr_10_a_client_shows_its_certificate(kafka, folder):
    shown = {"certificate": folder / "client.crt", "key": folder / "client.key"}
    await works(kafka, "MTLS", tls(folder, **shown))


async def refused_with(kafka, listener, security, error=BrokerUnreachableError):
    async with Using(kafka, listener, security) as client:
        with pytest.raises(error) as refused:
            await client.metadata()
        assert f"127.0.0.1:{kafka.ports[listener][0]}" in str(refused.value)
        return refused.value


async def test_kbr_13_a_certificate_of_an_unknown_authority(kafka, folder):
    security = KafkaSecurity(SecurityProtocol.TLS, authority=folder / "stranger.crt")
    said = str(await refused_with(kafka, "TLS", security))
    assert "its certificate was not accepted" in said
    assert "set kafka_tls_authority" in said
    assert "stranger.crt" in said
    assert "bootstrap_servers" not in said, "it was reached"


async def test_kbr_13_a_client_without_the_certificate_that_is_asked_for(kafka, folder):
    said = str(await refused_with(kafka, "MTLS", tls(folder)))
    assert "kafka_tls_certificate" in said


async def test_kbr_13_a_listener_that_speaks_tls_and_one_that_does_not(kafka, folder):
    said = str(await refused_with(kafka, "TLS", KafkaSecurity()))
    assert "kafka_security" in said
    said = str(await refused_with(kafka, "CLIENT", tls(folder)))
    assert "check that this listener speaks what kafka_security says" in said


async def test_kbr_13_files_that_cannot_be_used(kafka, folder, tmp_path):
    missing = tmp_path / "missing"
    said = str(await refused_with(kafka, "TLS", tls(folder, certificate=missing, key=missing)))
    assert f"kafka_tls_certificate {missing}" in said
    security = KafkaSecurity(SecurityProtocol.TLS, authority=missing)
    said = str(await refused_with(kafka, "TLS", security))
    assert f"kafka_tls_authority {missing} cannot be used" in said
    security = login(folder, SaslMechanism.PLAIN, password_file=missing)
    said = str(await refused_with(kafka, "LOGIN", security))
    assert f"kafka_sasl_password_file {missing} cannot be read: No such file" in said


async def test_kbr_13_an_advertised_address_that_leads_nowhere():
    broker = BrokerAddress(5, "127.0.0.1", free_port())
    with pytest.raises(BrokerUnreachableError) as refused:
        await Dialing(LoopClock()).open(broker)
    said = str(refused.value)
    assert said.startswith(f"broker 5 at 127.0.0.1:{broker.port} (plaintext): ")
    assert "the cluster advertises this address" in said
    assert "advertised.listeners" in said
    with pytest.raises(BrokerUnreachableError, match="check kafka_bootstrap_servers"):
        await Dialing(LoopClock()).open(BrokerAddress(-1, "127.0.0.1", broker.port))
    with pytest.raises(BrokerUnreachableError, match=r"broker 5 at no-such-host\.invalid:1"):
        await Dialing(LoopClock()).open(BrokerAddress(5, "no-such-host.invalid", 1))


@pytest.mark.parametrize(
    "mechanism",
    [SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512],
)
async def test_kbr_11_a_user_logs_in(kafka, folder, mechanism):
    await works(kafka, "LOGIN", login(folder, mechanism))


async def test_kbr_11_a_user_logs_in_without_tls(kafka, folder):
    protocol = SecurityProtocol.SASL_PLAINTEXT
    await works(kafka, "OPEN", login(folder, SaslMechanism.SCRAM_SHA_256, protocol))


@pytest.mark.parametrize("provider", ["", "a_token_of_a_server", "a_token_of_a_library"])
async def test_kbr_11_a_token_logs_in(kafka, folder, provider):
    source = {"token_provider": f"{__name__}:{provider}"} if provider else {}
    source = source or {"token_file": folder / "token"}
    await works(kafka, "LOGIN", login(folder, SaslMechanism.OAUTHBEARER, **source))


@pytest.mark.parametrize("mechanism", [SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_512])
async def test_kbr_13_a_refused_login_is_said_without_the_secret(kafka, folder, mechanism, caplog):
    caplog.set_level(logging.DEBUG)
    security = login(folder, mechanism, password_file=folder / "wrong")
    refused = await refused_with(kafka, "LOGIN", security, BrokerRefusedError)
    assert refused.code == 58
    assert not refused.may_be_done
    assert "(sasl_tls as User:alice) refused the login" in str(refused)
    assert "check the user and its secret file" in str(refused)
    assert "not-the-secret" not in f"{refused}{caplog.text}"


async def test_kbr_13_a_refused_token_is_said_without_it(kafka, folder):
    security = login(folder, SaslMechanism.OAUTHBEARER, token_file=folder / "expired")
    refused = await refused_with(kafka, "LOGIN", security, BrokerRefusedError)
    assert refused.code == 58
    assert (folder / "expired").read_text() not in str(refused)
    assert f"the token of {folder / 'expired'}" in str(refused)


async def test_kbr_13_a_provider_that_fails(kafka, folder):
    for name, why in {"no_token": "failed: OSError", "missing": "no module:function"}.items():
        provider = f"{__name__}:{name}"
        security = login(folder, SaslMechanism.OAUTHBEARER, token_provider=provider)
        said = str(await refused_with(kafka, "LOGIN", security))
        assert f"kafka_oauth_provider {provider}" in said
        assert why in said


async def test_kbr_13_a_mechanism_that_the_listener_does_not_offer(kafka, folder):
    security = login(folder, SaslMechanism.PLAIN, SecurityProtocol.SASL_PLAINTEXT)
    refused = await refused_with(kafka, "OPEN", security, BrokerRefusedError)
    assert refused.code == 33
    assert "offers SCRAM-SHA-256, not PLAIN: change kafka_sasl_mechanism" in str(refused)


async def test_kbr_13_no_login_at_a_listener_that_wants_one(kafka, folder):
    for listener, security in {"OPEN": KafkaSecurity(), "LOGIN": tls(folder)}.items():
        said = str(await refused_with(kafka, listener, security))
        assert "a login first: check that kafka_security is what this listener expects" in said


async def test_kbr_13_a_login_at_a_listener_that_takes_none(kafka, folder):
    security = login(folder, SaslMechanism.PLAIN, SecurityProtocol.SASL_PLAINTEXT)
    refused = await refused_with(kafka, "CLIENT", security, BrokerRefusedError)
    assert refused.code == 34
    assert "takes no logins: check that kafka_security is what" in str(refused)


async def test_kbr_11_a_secret_that_was_replaced_is_used_at_the_next_login(kafka, folder, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("not-yet")
    security = login(folder, SaslMechanism.SCRAM_SHA_256, password_file=secret)
    async with Using(kafka, "LOGIN", security) as client:
        with pytest.raises(BrokerRefusedError):
            await client.metadata()
        secret.write_text(SECRET)
        assert (await client.metadata()).cluster_id


async def test_kbr_12_requests_go_on_over_the_end_of_a_session(kafka, folder):
    using = Using(kafka, "LOGIN", login(folder, SaslMechanism.SCRAM_SHA_512))
    loop = asyncio.get_running_loop()
    async with using as client:
        place = await a_topic(client)
        before, end = len(using.opened), loop.time() + 2.5 * LIFETIME_MS / 1_000
        while loop.time() < end:
            await client.produce(place, a_batch(), timeout_ms=5_000)
            await client.fetch(place, 0, max_bytes=1, max_wait_ms=50)
        opened = len(using.opened) - before
        assert 4 <= opened <= 8, "each of two lanes 2 or 3 times, and its first"


def test_the_loop_of_production_takes_them_too(kafka, folder):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(works(kafka, "LOGIN", login(folder, SaslMechanism.SCRAM_SHA_256)))
        runner.run(works(kafka, "CLIENT", KafkaSecurity()))
        runner.run(test_kbr_13_a_certificate_of_an_unknown_authority(kafka, folder))


async def test_a_partition_of_another_listener_is_the_same(kafka, folder):
    async with Using(kafka, "TLS", tls(folder)) as one:
        place = await a_topic(one)
        async with Using(kafka, "CLIENT", KafkaSecurity()) as other:
            found = BrokerPartition(place.topic_id, place.topic, 0)
            assert (await other.produce(found, a_batch(), timeout_ms=5_000)).base_offset == 0
