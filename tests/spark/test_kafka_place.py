"""How brokers are named to `sharemesh-spark`: by their addresses, or a process's settings."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.security import SaslMechanism, SecurityProtocol
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.broker_connection import broker_security
from sharemesh_spark.reader.data_directory import KAFKA_FILE, UnreadableLogError, cluster_file
from sharemesh_spark.reader.kafka_place import (
    BadKafkaPlaceError,
    KafkaPlace,
    access_of_brokers,
    encode_place,
    place_in,
)

SETTINGS = """
role = "share-coordinator"
cluster_id = "main"
storage = "kafka"
kafka_bootstrap_servers = ["one:9093", "two:9093"]
kafka_security = "sasl_tls"
kafka_tls_authority = "/secrets/ca.crt"
kafka_sasl_username = "alice"
kafka_sasl_password_file = "/secrets/password"
[settings]
"group.share.max.size" = 1
"""


def test_addresses_alone_are_a_cluster_of_the_default_name():
    access = access_of_brokers("one:9092, two:9092")
    assert access.servers == ("one:9092", "two:9092")
    settings = ServeSettings()
    assert access.cluster_id == settings.cluster_id
    assert access.topic_prefix == settings.own_topic_prefix
    assert access.kafka_security() == broker_security(settings)


@pytest.mark.parametrize("suffix", [".toml", ".yaml"])
def test_settings_of_a_process_say_all(tmp_path, suffix):
    path = tmp_path / f"sharemesh{suffix}"
    text = SETTINGS
    if suffix == ".yaml":
        text = re.sub(r"^\[settings\]\n.*", "", text, flags=re.MULTILINE).replace(" = ", ": ")
    path.write_text(text)
    access = access_of_brokers(str(path))
    settings = ServeSettings(
        cluster_id="main",
        kafka_security="sasl_tls",
        kafka_tls_authority=Path("/secrets/ca.crt"),
        kafka_sasl_username="alice",
        kafka_sasl_password_file=Path("/secrets/password"),
    )
    assert access.kafka_security() == broker_security(settings)
    assert access.state_topic == f"{settings.own_topic_prefix}state"


def test_what_was_found_is_kept_without_a_secret(tmp_path):
    (tmp_path / "sharemesh.toml").write_text(SETTINGS)
    access = access_of_brokers(str(tmp_path / "sharemesh.toml"))
    place = KafkaPlace(access, "kafka-1", TopicId(bytes(range(16))), 3)
    assert place_in(tmp_path) is None
    (tmp_path / KAFKA_FILE).write_text(encode_place(place))
    assert place_in(tmp_path) == place
    security = access.kafka_security()
    assert security.protocol is SecurityProtocol.SASL_TLS
    assert security.mechanism is SaslMechanism.SCRAM_SHA_512


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("role = 'all'", "names no brokers: set kafka_bootstrap_servers"),
        ("kafka_bootstrap_servers = 'nowhere'", "'nowhere' is not host:port of a broker"),
        ("[", "cannot be read"),
    ],
)
def test_settings_that_name_no_brokers_are_one_sentence(tmp_path, text, words):
    path = tmp_path / "sharemesh.toml"
    path.write_text(text)
    with pytest.raises(BadKafkaPlaceError, match=words):
        access_of_brokers(str(path))


@pytest.mark.parametrize(("text", "words"), [("- a", "holds no settings"), ("a: [", "is not YAML")])
def test_yaml_that_is_none_is_one_sentence(tmp_path, text, words):
    path = tmp_path / "sharemesh.yaml"
    path.write_text(text)
    with pytest.raises(BadKafkaPlaceError, match=words):
        access_of_brokers(str(path))


def test_a_setting_without_meaning_is_said_before_anybody_is_asked():
    access = replace(access_of_brokers("one:9092"), security={"kafka_security": "ssl"})
    with pytest.raises(BadKafkaPlaceError, match="'ssl' is not a valid SecurityProtocol"):
        access.kafka_security()


def test_a_broken_note_says_what_to_do(tmp_path):
    (tmp_path / KAFKA_FILE).write_text("{}")
    with pytest.raises(UnreadableLogError, match="name the brokers anew with --kafka"):
        cluster_file(tmp_path)
