"""The Kafka cluster of a process, by its settings."""

from random import Random

from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.kafka.security import (
    KafkaSecurity,
    KafkaSecurityError,
    SaslMechanism,
    SecurityProtocol,
)
from sharemesh.ports.brokers import Brokers
from sharemesh.ports.clock import Clock
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings


def connect_brokers(settings: ServeSettings, clock: Clock, rng: Random) -> Brokers:
    """Return a client of the cluster; nothing is sent yet.

    Raises:
        StartError: SETTINGS; a file cannot be used.
    """
    security = broker_security(settings)
    try:
        security.tls()
    except KafkaSecurityError as error:
        raise StartError(ExitCode.SETTINGS, str(error)) from error
    dialing = Dialing(clock, settings.kafka_client_id, security)
    return KafkaBrokers(settings.kafka_bootstrap_servers, dialing, rng)


def broker_security(settings: ServeSettings) -> KafkaSecurity:
    """Return how brokers are spoken to."""
    protocol = SecurityProtocol(settings.kafka_security)
    return KafkaSecurity(
        protocol=protocol,
        authority=settings.kafka_tls_authority,
        certificate=settings.kafka_tls_certificate,
        key=settings.kafka_tls_key,
        mechanism=SaslMechanism(settings.kafka_sasl_mechanism) if protocol.logs_in else None,
        username=settings.kafka_sasl_username,
        password_file=settings.kafka_sasl_password_file,
        token_file=settings.kafka_oauth_token_file,
        token_provider=settings.kafka_oauth_provider,
    )
