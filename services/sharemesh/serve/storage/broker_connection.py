"""The Kafka cluster of a process, by its settings."""

import logging
from random import Random

from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.kafka.security import (
    KafkaSecurity,
    KafkaSecurityError,
    SaslMechanism,
    SecurityProtocol,
)
from sharemesh.ports.clock import Clock
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import ServeSettings

_log = logging.getLogger(__name__)

_SENDS_ITS_SECRET = frozenset({SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER})


def connect_brokers(settings: ServeSettings, clock: Clock, rng: Random) -> KafkaBrokers:
    """Return a client of the cluster; nothing is sent yet.

    Raises:
        StartError: SETTINGS; a file cannot be used.
    """
    security = broker_security(settings)
    try:
        security.tls()
        security.check_secrets()
    except KafkaSecurityError as error:
        raise StartError(ExitCode.SETTINGS, str(error)) from error
    if not security.protocol.encrypts and security.mechanism in _SENDS_ITS_SECRET:
        _log.warning(
            "kafka_security=%s with kafka_sasl_mechanism=%s sends the secret of this login in "
            "clear text to the brokers, and whoever can read along can use it; set "
            "kafka_security=sasl_tls",
            security.protocol.value,
            security.mechanism.value,
        )
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
