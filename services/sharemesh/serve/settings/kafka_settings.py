"""Settings of a Kafka cluster that do not fit together, refused in one sentence each."""

import dataclasses
import re

from sharemesh.domain.attached_topics import pattern_problem
from sharemesh.domain.setting_values import is_written_whole
from sharemesh.kafka.security import SaslMechanism
from sharemesh.object_store.stored_objects import BadPlaceError, path_of
from sharemesh.ports.cluster import KAFKA_ROLES
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import (
    MAX_PORT,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    ServeSettings,
)

BOOTSTRAP_SERVERS_MAX = 100
PREFIX_CHARS_MAX = 240
PATTERNS_MAX = 1_000
_PREFIX = re.compile(r"[a-zA-Z0-9._-]+")
_PROVIDER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_OAUTH = "OAUTHBEARER"
_MECHANISMS = tuple(each.value for each in SaslMechanism)
_SHOWING_SECRETS = (SaslMechanism.PLAIN.value, _OAUTH)
LISTENER = "kafka_listener_"
"""What settings of the listener for clients of Kafka begin with: both engines have it."""


def check_kafka(settings: ServeSettings) -> None:
    """Check the settings of the storage against each other.

    Raises:
        StartError: SETTINGS, naming setting, value and what to do.
    """
    if not settings.on_kafka:
        _check_unused(settings)
        return
    _check_servers(settings)
    _check_tls(settings)
    _check_login(settings)
    _check_topics(settings)
    _check_replicas(settings)
    _check_generations(settings)


def check_kafka_listener(settings: ServeSettings) -> None:
    """Check the settings of the listener for clients of Kafka against the others.

    Raises:
        StartError: SETTINGS, naming setting, value and what to do.
    """
    if not settings.has_kafka_listener:
        return
    _check_logins(settings)
    if settings.principal_header and not settings.kafka_clients_have_names:
        raise _refused(
            "setting kafka_listener_port does not go with principal_header: clients of Kafka have "
            "no proxy that names them; set kafka_listener_sasl_mechanisms, or demand certificates"
        )
    host = settings.kafka_listener_host or settings.listen_host
    told = settings.kafka_listener_advertised_host or settings.advertised_host
    if host in {"0.0.0.0", "::"} and not told:  # noqa: S104
        raise _refused(
            f"kafka_listener_host {host} is no address to reach: set kafka_listener_advertised_host"
        )
    if settings.kafka_listener_advertised_port and settings.kafka_listener_advertised_port_base:
        raise _refused(
            "settings kafka_listener_advertised_port and kafka_listener_advertised_port_base: a "
            "process has one port; set one of them"
        )
    if settings.kafka_port_to_advertise > MAX_PORT:
        raise _refused(
            f"kafka_listener_advertised_port_base {settings.kafka_listener_advertised_port_base} "
            f"and the number of node {settings.node_id} are no port: choose a lower one"
        )


def check_kafka_listener_is_on(settings: ServeSettings) -> None:
    """Refuse settings of a listener that there is not; roles that never have one may be told them.

    Raises:
        StartError: SETTINGS, naming the setting and what to do.
    """
    if settings.has_kafka_listener or not set(KAFKA_ROLES) & set(settings.roles):
        return
    for each in dataclasses.fields(ServeSettings):
        if each.name.startswith(LISTENER) and getattr(settings, each.name) != each.default:
            raise _refused(
                f"setting {each.name} has a meaning with a listener for clients of Kafka only: set "
                "kafka_listener_port (`sharemesh up`: kafka_listener), or leave it out"
            )


def _check_logins(settings: ServeSettings) -> None:
    for given in settings.kafka_listener_sasl_mechanisms:
        if given not in _MECHANISMS:
            raise _refused(
                f"setting kafka_listener_sasl_mechanisms: {given!r} is none of "
                f"{', '.join(_MECHANISMS)}"
            )
        if given in _SHOWING_SECRETS and settings.tls_certificate is None:
            raise _refused(
                f"setting kafka_listener_sasl_mechanisms: {given} shows the secret itself, so it "
                "is taken over TLS only; set tls_certificate, or use SCRAM-SHA-512"
            )
        if given == _OAUTH and not settings.token_issuer:
            raise _refused(
                f"setting kafka_listener_sasl_mechanisms: {given} needs token_issuer, whose "
                "tokens are taken"
            )
    if settings.kafka_listener_max_reauth_ms and not settings.kafka_listener_sasl_mechanisms:
        raise _refused(
            "setting kafka_listener_max_reauth_ms has a meaning with "
            "kafka_listener_sasl_mechanisms only; set that, or leave it out"
        )


def _check_unused(settings: ServeSettings) -> None:
    for each in dataclasses.fields(ServeSettings):
        is_kafkas = each.name.startswith("kafka_") or each.name == "generations"
        is_kafkas = is_kafkas and not each.name.startswith(LISTENER)
        if is_kafkas and getattr(settings, each.name) != each.default:
            raise _refused(
                f"setting {each.name} has a meaning with storage kafka only; set storage to "
                "kafka, or leave it out"
            )


def _check_servers(settings: ServeSettings) -> None:
    servers = settings.kafka_bootstrap_servers
    if not servers:
        raise _refused("storage kafka needs kafka_bootstrap_servers: set it to host:port")
    if len(servers) > BOOTSTRAP_SERVERS_MAX:
        raise _refused(
            f"setting kafka_bootstrap_servers names {len(servers)} brokers; name at most "
            f"{BOOTSTRAP_SERVERS_MAX}"
        )
    for server in servers:
        scheme, mark, address = server.partition("://")
        if mark:
            address = address.rpartition("@")[2]  # a password may stand before it
            raise _refused(
                f"setting kafka_bootstrap_servers: leave {scheme}:// out before {address!r}, which "
                "must be host:port, and say how brokers are spoken to with kafka_security"
            )
        host, _, port = server.rpartition(":")
        if not host or "/" in host or not is_written_whole(port) or not 0 < int(port) <= MAX_PORT:
            raise _refused(
                f"setting kafka_bootstrap_servers: {server!r} is not host:port, for example "
                "kafka-1.example:9092"
            )
    if settings.durability != "fsync":
        raise _refused(
            "setting durability has no meaning with storage kafka, where brokers write; leave it "
            "out"
        )


def _check_tls(settings: ServeSettings) -> None:
    given = [
        name
        for name in ("kafka_tls_authority", "kafka_tls_certificate", "kafka_tls_key")
        if getattr(settings, name) is not None
    ]
    if given and settings.kafka_security not in {"tls", "sasl_tls"}:
        raise _refused(
            f"setting {given[0]} needs kafka_security tls or sasl_tls, not "
            f"{settings.kafka_security}"
        )
    if (settings.kafka_tls_certificate is None) != (settings.kafka_tls_key is None):
        raise _refused("settings kafka_tls_certificate and kafka_tls_key go together; set both")


def _check_login(settings: ServeSettings) -> None:
    names = (
        "kafka_sasl_username",
        "kafka_sasl_password_file",
        "kafka_oauth_token_file",
        "kafka_oauth_provider",
    )
    given = [name for name in names if getattr(settings, name)]
    if settings.kafka_security not in {"sasl_plaintext", "sasl_tls"}:
        if given:
            raise _refused(
                f"setting {given[0]} needs kafka_security sasl_tls or sasl_plaintext, not "
                f"{settings.kafka_security}"
            )
        return
    is_oauth = settings.kafka_sasl_mechanism == _OAUTH
    wanted, others = (names[2:], names[:2]) if is_oauth else (names[:2], names[2:])
    strange = [name for name in given if name in others]
    if strange:
        raise _refused(
            f"setting {strange[0]} does not go with kafka_sasl_mechanism "
            f"{settings.kafka_sasl_mechanism}; leave it out"
        )
    if is_oauth and len(given) != 1:
        raise _refused(
            f"kafka_sasl_mechanism {_OAUTH} needs one of kafka_oauth_token_file and "
            "kafka_oauth_provider"
        )
    missing = [name for name in wanted if name not in given]
    if missing and not is_oauth:
        raise _refused(
            f"kafka_sasl_mechanism {settings.kafka_sasl_mechanism} needs {missing[0]}; set it"
        )
    provider = settings.kafka_oauth_provider
    if provider and _PROVIDER.fullmatch(provider) is None:
        raise _refused(f"setting kafka_oauth_provider: {provider!r} is not module:function")


def _check_topics(settings: ServeSettings) -> None:
    prefix = settings.own_topic_prefix
    if _PREFIX.fullmatch(prefix) is None or len(prefix) > PREFIX_CHARS_MAX:
        raise _refused(
            f"the names of the cluster's own topics would begin with {prefix[:300]!r}; set "
            "kafka_topic_prefix to letters, digits, dots, underscores and dashes, at most "
            f"{PREFIX_CHARS_MAX}"
        )
    if len(settings.kafka_topics) > PATTERNS_MAX:
        raise _refused(
            f"setting kafka_topics has {len(settings.kafka_topics)} patterns; give at most "
            f"{PATTERNS_MAX}"
        )
    for pattern in settings.kafka_topics:
        problem = pattern_problem(pattern)
        if problem:
            raise _refused(f"setting kafka_topics: {problem}")


def _check_replicas(settings: ServeSettings) -> None:
    replicas, in_sync = settings.kafka_replication_factor, settings.kafka_min_insync_replicas
    if settings.kafka_single_replica:
        if replicas not in {1, REPLICATION_FACTOR} or in_sync not in {1, MIN_INSYNC_REPLICAS}:
            raise _refused(
                "setting kafka_single_replica means one copy; leave kafka_replication_factor and "
                "kafka_min_insync_replicas out"
            )
        return
    if in_sync > replicas:
        raise _refused(
            f"setting kafka_min_insync_replicas: {in_sync} copies cannot have a write of which "
            f"kafka_replication_factor makes {replicas}"
        )
    if in_sync < MIN_INSYNC_REPLICAS:
        raise _refused(
            "with one copy confirmed (kafka_replication_factor or kafka_min_insync_replicas 1) "
            "the loss of one broker loses groups and delivery states; set kafka_single_replica to "
            "true if that is meant"
        )


def _check_generations(settings: ServeSettings) -> None:
    try:
        path_of(settings.generations)
    except BadPlaceError as error:
        raise _refused(f"setting generations: {error}") from error


def _refused(message: str) -> StartError:
    return StartError(ExitCode.SETTINGS, message)
