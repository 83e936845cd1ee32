"""Where the share state log of a cluster on Kafka lies: found once, kept beside generations.

``kafka-log.json`` makes a directory one whose log is a topic. It names files of secrets, and holds
none: tasks read them where they run.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import TopicId, format_topic_id, parse_topic_id
from sharemesh.kafka.security import KafkaSecurity, SaslMechanism, SecurityProtocol
from sharemesh_spark.reader.data_directory import KAFKA_FILE

CLUSTER_ID = "local"
PREFIX = "__sharemesh-{cluster_id}-"
STATE_TOPIC = "state"
_SUFFIXES = frozenset({".toml", ".yaml", ".yml"})
_PREFIXES = ("kafka_tls_", "kafka_sasl_", "kafka_oauth_")


class BadKafkaPlaceError(Exception):
    """Brokers, or the settings of a process, cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """How the brokers of a cluster are reached, by the settings of its processes.

    Attributes:
        cluster_id: Of Sharemesh.
        servers: ``host:port`` of brokers.
        topic_prefix: What the names of the cluster's own topics begin with.
        security: The settings ``kafka_security``, ``kafka_tls_…``, ``kafka_sasl_…`` and
            ``kafka_oauth_…`` that are given.
    """

    cluster_id: str
    servers: tuple[str, ...]
    topic_prefix: str
    security: Mapping[str, str]

    @property
    def state_topic(self) -> str:
        """The topic of the share coordinators."""
        return f"{self.topic_prefix}{STATE_TOPIC}"

    def kafka_security(self) -> KafkaSecurity:
        """Return how brokers are spoken to.

        Raises:
            BadKafkaPlaceError: A setting has no such value.
        """
        found = self.security
        try:
            protocol = SecurityProtocol(found.get("kafka_security", "plaintext"))
            mechanism = found.get("kafka_sasl_mechanism", "SCRAM-SHA-512")
            return KafkaSecurity(
                protocol=protocol,
                authority=_file(found, "kafka_tls_authority"),
                certificate=_file(found, "kafka_tls_certificate"),
                key=_file(found, "kafka_tls_key"),
                mechanism=SaslMechanism(mechanism) if protocol.logs_in else None,
                username=found.get("kafka_sasl_username", ""),
                password_file=_file(found, "kafka_sasl_password_file"),
                token_file=_file(found, "kafka_oauth_token_file"),
                token_provider=found.get("kafka_oauth_provider", ""),
            )
        except ValueError as error:
            raise BadKafkaPlaceError(f"a setting of Kafka's brokers: {error}") from error


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """The state log: which topic of which Kafka cluster, and how it is reached."""

    access: KafkaAccess
    kafka_cluster_id: str
    topic_id: TopicId
    shards: int


def access_of_brokers(words: str) -> KafkaAccess:
    """Return the access that an option gives: brokers, or the settings file of a process.

    Raises:
        BadKafkaPlaceError: The file cannot be used, or names no brokers.
    """
    path = Path(words)
    if path.suffix.lower() in _SUFFIXES or path.is_file():
        return _access_of(_settings(path), str(path))
    return _access_of({"kafka_bootstrap_servers": words}, "--kafka")


def encode_place(place: KafkaPlace) -> str:
    """Return the text of ``kafka-log.json``."""
    access = place.access
    found = {
        "cluster_id": access.cluster_id,
        "kafka_bootstrap_servers": list(access.servers),
        "kafka_topic_prefix": access.topic_prefix,
        "kafka_cluster_id": place.kafka_cluster_id,
        "state_topic_id": format_topic_id(place.topic_id),
        "state_shards": place.shards,
        **access.security,
    }
    return json.dumps(found, indent=1) + "\n"


def place_in(data: Path) -> KafkaPlace | None:
    """Return where the log of a directory lies; None: there, in files.

    Raises:
        BadKafkaPlaceError: The file is broken.
    """
    path = data / KAFKA_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(text)
        return KafkaPlace(
            _access_of(found, str(path)),
            str(found["kafka_cluster_id"]),
            parse_topic_id(found["state_topic_id"]),
            int(found["state_shards"]),
        )
    except (ValueError, KeyError, TypeError, RefusedError, BadKafkaPlaceError) as error:
        raise BadKafkaPlaceError(
            f"{path} cannot be read ({error}): name the brokers anew with --kafka"
        ) from error


def _access_of(found: Mapping[str, Any], where: str) -> KafkaAccess:
    servers = found.get("kafka_bootstrap_servers") or ()
    named = servers.split(",") if isinstance(servers, str) else servers
    names = tuple(str(each).strip() for each in named if str(each).strip())
    for each in names:
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal():
            raise BadKafkaPlaceError(f"{where}: {each!r} is not host:port of a broker")
    if not names:
        raise BadKafkaPlaceError(f"{where} names no brokers: set kafka_bootstrap_servers")
    cluster_id = str(found.get("cluster_id") or CLUSTER_ID)
    return KafkaAccess(
        cluster_id,
        names,
        str(found.get("kafka_topic_prefix") or PREFIX.format(cluster_id=cluster_id)),
        {
            name: str(value)
            for name, value in found.items()
            if name == "kafka_security" or name.startswith(_PREFIXES)
        },
    )


def _settings(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() != ".toml":
            import yaml

            found = yaml.safe_load(text)
        else:
            found = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadKafkaPlaceError(f"{path} cannot be read: {error}") from error
    except ImportError as error:
        raise BadKafkaPlaceError(
            f"{path} needs the package pyyaml: install it or write TOML"
        ) from error
    except yaml.YAMLError as error:
        raise BadKafkaPlaceError(f"{path} is not YAML: {error}") from error
    if not isinstance(found, dict):
        raise BadKafkaPlaceError(f"{path} holds no settings of a process")
    return found


def _file(found: Mapping[str, str], name: str) -> Path | None:
    return Path(found[name]) if found.get(name) else None
