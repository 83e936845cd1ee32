"""librdkafka over TLS, with logins and certificates, at the listener of a real process."""

import time

import pytest
from confluent_kafka import KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient

from tests.kafka_listener.logins import PASSWORD
from tests.kafka_listener.secured_process import ALICE, MECHANISMS, secured

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 60


@pytest.fixture(scope="module")
def logins(tmp_path_factory):
    with secured(tmp_path_factory.mktemp("logins"), by_login=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    with secured(tmp_path_factory.mktemp("certificates"), by_login=False) as cluster:
        yield cluster


def login(cluster, mechanism, name=ALICE, password=PASSWORD):
    settings = {
        "bootstrap.servers": cluster.kafka,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": cluster.authority,
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        shown = cluster.token_of(name)
        return settings | {"oauth_cb": lambda _: (shown, time.time() + 600)}
    return settings | {"sasl.username": name, "sasl.password": password}


def certificate(cluster, name):
    return {
        "bootstrap.servers": cluster.kafka,
        "security.protocol": "SSL",
        "ssl.ca.location": cluster.authority,
        "ssl.certificate.location": cluster.file(f"{name}.crt"),
        "ssl.key.location": cluster.file(f"{name}.key"),
    }


def through(settings, topic):
    """Produce and consume 100 records; return their values."""
    refused = []
    producer = Producer(settings)
    for number in range(100):
        producer.produce(
            topic, str(number).encode(), on_delivery=lambda error, _: refused.append(error)
        )
    assert producer.flush(PATIENCE_S) == 0
    assert refused == [None] * 100
    consumer = ShareConsumer({**settings, "group.id": topic})
    consumer.subscribe([topic])
    found = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < 100:
        assert time.monotonic() < deadline, len(found)
        for each in consumer.poll(0.5) or ():
            assert each.error() is None, each.error()
            found.append(int(each.value()))
    consumer.close()
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_go_through_with_each_mechanism(logins, mechanism):
    """KLS-20, KLS-21, KLS-26."""
    topic = f"by-{mechanism.lower()}"
    logins.prepare(topic)
    assert sorted(through(login(logins, mechanism), topic)) == list(range(100))


def test_records_go_through_with_a_certificate(certificates):
    """KLS-19, KLS-26."""
    certificates.prepare("by-certificate")
    found = through(certificate(certificates, ALICE), "by-certificate")
    assert sorted(found) == list(range(100))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_an_error_of_authentication(logins, mechanism):
    """KLS-22."""
    said = []
    settings = login(logins, mechanism, password="another")
    admin = AdminClient({**settings, "error_cb": said.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    deadline = time.monotonic() + PATIENCE_S
    while not said and time.monotonic() < deadline:
        admin.poll(0.2)
    assert any("invalid credentials" in each.str() for each in said), said


def test_who_may_not_write_is_told_so(logins, certificates):
    """KLS-26."""
    for cluster, settings in (
        (logins, login(logins, "OAUTHBEARER", name="eve")),
        (certificates, certificate(certificates, "eve")),
    ):
        cluster.prepare("not-of-eve")
        told = []
        producer = Producer({**settings, "message.timeout.ms": 5_000})
        producer.produce("not-of-eve", b"x", on_delivery=lambda error, _, to=told: to.append(error))
        producer.flush(PATIENCE_S)
        assert told[0] is not None
        assert "uthoriz" in told[0].str(), told[0]


def test_who_shows_no_certificate_gets_nothing(certificates):
    """KLS-19."""
    settings = certificate(certificates, ALICE)
    del settings["ssl.certificate.location"], settings["ssl.key.location"]
    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=5)
