"""Kafka's own Java clients over TLS, with logins and certificates, at real processes."""

import os

import py4j.protocol
import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.kafka.jars import KafkaMissingError
from tests.kafka_listener.java_clients import JavaClients, java_gateway
from tests.kafka_listener.logins import PASSWORD
from tests.kafka_listener.secured_process import ALICE, secured

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

_MODULES = "org.apache.kafka.common.security"
REAUTH_MS = 4_000


@pytest.fixture(scope="module")
def gateway():
    running = java_gateway()
    try:
        yield running.__enter__()
    except KafkaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    else:
        running.__exit__(None, None, None)


@pytest.fixture(scope="module")
def logins(tmp_path_factory):
    often = f"--kafka-listener-max-reauth-ms={REAUTH_MS}"
    with secured(tmp_path_factory.mktemp("logins"), often, by_login=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    with secured(tmp_path_factory.mktemp("certificates"), by_login=False) as cluster:
        yield cluster


def encrypted(cluster, protocol):
    return {
        "security_protocol": protocol,
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": cluster.authority,
    }


def login(cluster, mechanism, password=PASSWORD):
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    entry = f'{_MODULES}.{module} required username="{ALICE}" password="{password}";'
    return encrypted(cluster, "SASL_SSL") | {
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": entry,
    }


def certificate(cluster, name):
    key = load_pem_private_key((cluster.directory / f"{name}.key").read_bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    pem += (cluster.directory / f"{name}.crt").read_text()
    (cluster.directory / f"{name}.pem").write_text(pem)
    return encrypted(cluster, "SSL") | {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": cluster.file(f"{name}.pem"),
    }


def through(clients, topic, settings):
    """Produce and consume 100 records."""
    values = [str(number) for number in range(100)]
    producer = clients.producer(**settings)
    assert clients.send(producer, topic, *values) == list(range(100))
    consumer = clients.consumer(topic, **settings)
    consumer.subscribe([topic])
    assert [each.value() for each in clients.polled(consumer, 100)] == values
    assert clients.committed(consumer) == [False]
    return producer, consumer


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_records_go_through_with_each_mechanism(gateway, logins, mechanism):
    """KLS-20, KLS-21, KLS-23: also when the login is over and made anew."""
    topic = f"java-{mechanism.lower()}"
    logins.prepare(topic)
    clients = JavaClients(gateway, logins.kafka)
    producer, consumer = through(clients, topic, login(logins, mechanism))
    for _ in range(2 * REAUTH_MS // 500):
        clients.poll(consumer)
    assert clients.send(producer, topic, "later") == [100]
    assert [each.value() for each in clients.polled(consumer, 1)] == ["later"]
    names = [entry.getKey().name() for entry in producer.metrics().entrySet().toArray()]
    assert "reauthentication-latency-avg" in names
    consumer.close()
    producer.close()


def test_records_go_through_with_a_certificate(gateway, certificates):
    """KLS-19."""
    certificates.prepare("java-certificate")
    clients = JavaClients(gateway, certificates.kafka)
    settings = certificate(certificates, ALICE)
    for each in through(clients, "java-certificate", settings):
        each.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_an_authentication_exception(gateway, logins, mechanism):
    """KLS-22: not retried, in words."""
    clients = JavaClients(gateway, logins.kafka)
    producer = clients.producer(**login(logins, mechanism, password="another"))
    with pytest.raises(py4j.protocol.Py4JJavaError) as caught:
        clients.send(producer, "java-plain", "x")
    trace = str(caught.value)
    assert "SaslAuthenticationException" in trace
    assert "invalid credentials with SASL mechanism" in trace
    assert "another" not in trace.replace("another one", "")
    producer.close()


def test_who_may_not_write_is_told_so(gateway, certificates):
    """KLS-26."""
    certificates.prepare("java-not-of-eve")
    clients = JavaClients(gateway, certificates.kafka)
    producer = clients.producer(**certificate(certificates, "eve"), enable_idempotence="false")
    with pytest.raises(py4j.protocol.Py4JJavaError, match="TopicAuthorizationException"):
        clients.send(producer, "java-not-of-eve", "x")
    producer.close()
