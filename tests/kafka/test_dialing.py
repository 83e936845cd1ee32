"""Opening a connection ends in time and in words, whatever an address or a login is (spec KBR)."""

import asyncio
import ssl
import sys
import threading
import types
from random import Random

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from sharemesh.backends.local.clock import SystemClock
from sharemesh.kafka import dialing
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.kafka.security import (
    KafkaSecurity,
    KafkaSecurityError,
    SaslMechanism,
    SecurityProtocol,
)
from sharemesh.kafka.versions import KafkaRequest
from sharemesh.ports.brokers import BrokerAddress, BrokerRefusedError, BrokerUnreachableError
from tests.kafka.scripted_broker import ScriptedBroker, no_error, no_time, says, versions

HANDSHAKE = says(KafkaRequest.SASL_HANDSHAKE, error_code=no_error(), mechanisms=("OAUTHBEARER",))


def with_tokens_of(provider):
    security = KafkaSecurity(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        mechanism=SaslMechanism.OAUTHBEARER,
        token_provider=provider,
    )
    return Dialing(SystemClock(), "me", security)


@pytest.fixture
def let_go():
    found = threading.Event()
    yield found
    found.set()


@pytest.fixture
def hanging(let_go, monkeypatch):
    """A module with providers that do not return."""

    async def token():
        await asyncio.Event().wait()

    module = types.ModuleType("hanging_tokens")
    module.token = token
    module.token_in_a_thread = let_go.wait
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


@pytest.mark.parametrize("function", ["token", "token_in_a_thread"])
async def test_kbr_7_a_provider_that_does_not_return_ends_the_attempt_in_words(
    hanging, monkeypatch, function
):
    monkeypatch.setattr(dialing, "OPEN_TIMEOUT_MS", 300)
    async with ScriptedBroker(SASL_HANDSHAKE=HANDSHAKE) as broker:
        opening = with_tokens_of(f"{hanging}:{function}").open(
            BrokerAddress(7, "127.0.0.1", broker.port)
        )
        words = rf"broker 7 at .* kafka_oauth_provider hanging_tokens:{function} returned no token"
        with pytest.raises(BrokerUnreachableError, match=words):
            await asyncio.wait_for(opening, 20)


@pytest.mark.parametrize(
    ("code", "offered", "words"),
    [
        (33, ("PLAIN",), "offers PLAIN, not OAUTHBEARER: change kafka_sasl_mechanism"),
        (34, (), "takes no logins: check that kafka_security is what this listener expects"),
    ],
)
async def test_kbr_13_a_handshake_that_is_refused_names_the_setting_to_look_at(
    code, offered, words
):
    from kio.schema.errors import ErrorCode

    refuses = says(KafkaRequest.SASL_HANDSHAKE, error_code=ErrorCode(code), mechanisms=offered)
    async with ScriptedBroker(SASL_HANDSHAKE=refuses) as broker:
        with pytest.raises(BrokerRefusedError, match=words) as refused:
            await with_tokens_of("tokens:token").open(BrokerAddress(7, "127.0.0.1", broker.port))
    assert refused.value.code == code


async def test_kbr_7_a_login_that_is_not_answered_ends_with_the_same_bound(hanging, monkeypatch):
    monkeypatch.setattr(dialing, "OPEN_TIMEOUT_MS", 300)
    async with ScriptedBroker(SASL_HANDSHAKE=lambda *_: None) as broker:
        opening = with_tokens_of(f"{hanging}:token").open(
            BrokerAddress(7, "127.0.0.1", broker.port)
        )
        with pytest.raises(BrokerUnreachableError, match="it did not answer the login"):
            await asyncio.wait_for(opening, 20)


async def test_kbr_13_a_provider_whose_module_breaks_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "broken_tokens.py").write_text("raise RuntimeError('no region set')\n")
    monkeypatch.syspath_prepend(tmp_path)
    async with ScriptedBroker(SASL_HANDSHAKE=HANDSHAKE) as broker:
        client = KafkaBrokers(
            [f"127.0.0.1:{broker.port}"], with_tokens_of("broken_tokens:token"), Random(1)
        )
        words = "kafka_oauth_provider broken_tokens:token failed at its import: RuntimeError"
        with pytest.raises(BrokerUnreachableError, match=words):
            await client.metadata(["orders"])
        await client.close()


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "broker..internal", "...", "b\x00ad"])
async def test_kbr_13_a_host_that_is_no_name_is_one_sentence(host):
    with pytest.raises(BrokerUnreachableError, match=r"broker 1 .* advertised\.listeners"):
        await Dialing(SystemClock()).open(BrokerAddress(1, host, 9092))


@pytest.mark.parametrize("port", [70_000, 0, -1])
async def test_kbr_13_a_port_that_is_none_is_one_sentence(port):
    with pytest.raises(BrokerUnreachableError, match=rf"broker 1 .* {port} is no port"):
        await Dialing(SystemClock()).open(BrokerAddress(1, "127.0.0.1", port))


def test_kbr_13_a_key_that_is_encrypted_is_one_sentence_and_no_question_at_a_terminal(
    tmp_path, monkeypatch
):
    issued = trustme.CA().issue_cert("localhost")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    certificate, encrypted = tmp_path / "client.crt", tmp_path / "client.key"
    certificate.write_bytes(issued.cert_chain_pems[0].bytes())
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    load = ssl.SSLContext.load_cert_chain

    def loaded(context, chain, key, password=None):
        assert password is not None, "OpenSSL asks at the terminal"
        load(context, chain, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", loaded)
    security = KafkaSecurity(SecurityProtocol.TLS, certificate=certificate, key=encrypted)
    with pytest.raises(KafkaSecurityError, match=r"kafka_tls_key .*client\.key cannot be used"):
        security.tls()


async def test_kbr_8_a_broker_that_advertises_nonsense_is_passed_over():
    brokers = [
        {"node_id": 1, "host": "broker..internal", "port": 9092, "rack": None},
        {"node_id": 2, "host": "127.0.0.1", "port": 70_000, "rack": None},
    ]
    told = says(
        KafkaRequest.METADATA,
        throttle_time=no_time(),
        error_code=no_error(),
        brokers=brokers,
        cluster_id="k",
        controller_id=1,
        topics=(),
    )
    async with ScriptedBroker(API_VERSIONS=versions(), METADATA=told) as broker:
        client = KafkaBrokers([f"127.0.0.1:{broker.port}"], Dialing(SystemClock()), Random(1))
        for _ in range(2):
            assert len((await client.metadata()).brokers) == 2
        await client.close()
