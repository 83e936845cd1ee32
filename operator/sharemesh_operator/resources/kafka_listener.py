"""The listener for clients of Kafka of a ShareCluster: its block of the spec, and its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sharemesh_operator.resources.external import External
from sharemesh_operator.resources.kafka_spec import SASL_MECHANISMS
from sharemesh_operator.resources.spec_fields import key, read

BEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class KafkaListenerSpec:
    """Where pods listen, how clients log in, and by which addresses they reach each pod."""

    mechanisms: tuple[str, ...]
    """By Kafka's names; none: nobody logs in."""
    external: External | None
    port: int = key("port", 9_092)
    max_reauth_s: int = key("maxReauthSeconds", 0)
    max_connections: int = key("maxConnections", 0)
    """0: as shipped."""

    @property
    def needs_passwords(self) -> bool:
        """Whether nobody can log in without a password."""
        return bool(self.mechanisms) and BEARER not in self.mechanisms


def kafka_listener_spec(given: Mapping[str, Any]) -> KafkaListenerSpec:
    """Return what ``spec.kafkaListener`` says."""
    external = given.get("external")
    return read(
        KafkaListenerSpec,
        given,
        mechanisms=tuple(SASL_MECHANISMS[each] for each in given.get("saslMechanisms") or ()),
        external=None if external is None else read(External, external),
    )


def listener_settings(listener: KafkaListenerSpec) -> dict[str, object]:
    """Return the settings that are the same in all pods."""
    found: dict[str, object] = {}
    if listener.mechanisms:
        found["kafka_listener_sasl_mechanisms"] = list(listener.mechanisms)
    if listener.max_reauth_s:
        found["kafka_listener_max_reauth_ms"] = listener.max_reauth_s * 1_000
    if listener.max_connections:
        found["kafka_listener_connections"] = listener.max_connections
    return found
