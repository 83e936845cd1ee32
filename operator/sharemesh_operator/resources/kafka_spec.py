"""Kafka storage of a ShareCluster: its block of the spec, and the settings that follow from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sharemesh_operator.resources.spec_fields import key, read

SASL_MECHANISMS = {
    "Plain": "PLAIN",
    "ScramSha256": "SCRAM-SHA-256",
    "ScramSha512": "SCRAM-SHA-512",
    "OAuthBearer": "OAUTHBEARER",
}
"""Types of authentication that are SASL mechanisms, with Kafka's names of them."""


@dataclass(frozen=True, slots=True)
class KafkaTlsSpec:
    """TLS to the brokers; the Secrets are empty where there are none."""

    ca_secret: str = key("caSecretName", "")
    ca_key: str = key("caKey", "ca.crt")
    certificate_secret: str = key("certificateSecretName", "")


@dataclass(frozen=True, slots=True)
class KafkaLoginSpec:
    """As whom all processes appear to the brokers."""

    kind: str = key("type", "None")
    secret: str = key("secretName", "")
    username: str = key("username", "")
    password_key: str = key("passwordKey", "password")
    token_key: str = key("tokenKey", "token")


@dataclass(frozen=True, slots=True)
class KafkaSpec:
    """The brokers, and what Sharemesh keeps there."""

    servers: tuple[str, ...]
    login: KafkaLoginSpec
    tls: KafkaTlsSpec | None
    topics: tuple[str, ...] = ()
    topic_prefix: str = key("topicPrefix", "")
    replication_factor: int = key("replicationFactor", 3)
    min_insync_replicas: int = key("minInsyncReplicas", 2)
    single_replica: bool = key("singleReplica", default=False)
    manage_topics: bool = key("manageTopics", default=False)
    client_id: str = key("clientId", "")

    @property
    def secrets(self) -> dict[str, str]:
        """Each Secret that is mounted, with the name of its volume."""
        found = {self.login.secret: "kafka-user"}
        if self.tls is not None:
            found[self.tls.ca_secret] = "kafka-ca"
            found[self.tls.certificate_secret] = "kafka-certificate"
        return {secret: volume for secret, volume in found.items() if secret}


def kafka_spec(given: Mapping[str, Any]) -> KafkaSpec:
    """Return what ``spec.storage.kafka`` says."""
    tls = given.get("tls")
    return read(
        KafkaSpec,
        given,
        servers=tuple(given["bootstrapServers"]),
        login=read(KafkaLoginSpec, given.get("authentication") or {}),
        tls=None if tls is None else read(KafkaTlsSpec, tls),
        topics=tuple(given.get("topics") or ()),
    )


def kafka_settings(kafka: KafkaSpec, secrets: str) -> dict[str, object]:
    """Return the settings of a process by which it reaches and uses the brokers.

    Args:
        kafka: What the spec says.
        secrets: The folder where each Secret is mounted, as a folder of its name.
    """
    found: dict[str, object] = {
        "storage": "kafka",
        "kafka_bootstrap_servers": list(kafka.servers),
        "kafka_security": _security(kafka),
        "kafka_replication_factor": kafka.replication_factor,
        "kafka_min_insync_replicas": kafka.min_insync_replicas,
        "kafka_single_replica": kafka.single_replica,
        "kafka_manage_topics": kafka.manage_topics,
    }
    if kafka.topic_prefix:
        found["kafka_topic_prefix"] = kafka.topic_prefix
    if kafka.topics:
        found["kafka_topics"] = list(kafka.topics)
    if kafka.client_id:
        found["kafka_client_id"] = kafka.client_id
    return found | _tls_files(kafka, secrets) | _login(kafka.login, secrets)


def _security(kafka: KafkaSpec) -> str:
    if kafka.login.kind not in SASL_MECHANISMS:
        return "plaintext" if kafka.tls is None else "tls"
    return "sasl_plaintext" if kafka.tls is None else "sasl_tls"


def _tls_files(kafka: KafkaSpec, secrets: str) -> dict[str, object]:
    tls = kafka.tls
    if tls is None:
        return {}
    found: dict[str, object] = {}
    if tls.ca_secret:
        found["kafka_tls_authority"] = f"{secrets}/{tls.ca_secret}/{tls.ca_key}"
    shown, name = tls.certificate_secret, "tls"
    if kafka.login.kind == "Tls" and not shown:
        shown, name = kafka.login.secret, "user"  # as in the Secret of a KafkaUser
    if shown:
        found["kafka_tls_certificate"] = f"{secrets}/{shown}/{name}.crt"
        found["kafka_tls_key"] = f"{secrets}/{shown}/{name}.key"
    return found


def _login(login: KafkaLoginSpec, secrets: str) -> dict[str, object]:
    mechanism = SASL_MECHANISMS.get(login.kind)
    if mechanism is None:
        return {}
    folder = f"{secrets}/{login.secret}"
    if login.kind == "OAuthBearer":
        return {
            "kafka_sasl_mechanism": mechanism,
            "kafka_oauth_token_file": f"{folder}/{login.token_key}",
        }
    return {
        "kafka_sasl_mechanism": mechanism,
        "kafka_sasl_username": login.username or login.secret,
        "kafka_sasl_password_file": f"{folder}/{login.password_key}",
    }
