"""The listener for Kafka's clients of one process, as its settings want it (spec KLS)."""

from collections.abc import Callable

from sharemesh.audit.listener import AuditedListener
from sharemesh.authorization.access import Access
from sharemesh.cluster.store.kafka_nodes import kafka_node_number
from sharemesh.cluster.store.login_secret import login_secret
from sharemesh.cluster.user_table import UserTable
from sharemesh.kafka.security import SaslMechanism
from sharemesh.kafka_listener.answers import KafkaAnswers
from sharemesh.kafka_listener.cluster_answers import ClusterAnswers
from sharemesh.kafka_listener.config_answers import ConfigAnswers
from sharemesh.kafka_listener.group_config_calls import GroupConfigCalls
from sharemesh.kafka_listener.limits import KafkaListenerLimits
from sharemesh.kafka_listener.listener import KafkaListener
from sharemesh.kafka_listener.login.logins import Logins
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.traced_answers import TracedAnswers
from sharemesh.ports.bearer_tokens import BearerTokens
from sharemesh.ports.cluster import KafkaEndpoint
from sharemesh.serve.process.listener_tls import ListenerCertificates
from sharemesh.serve.process_context import ProcessContext
from sharemesh.serve.settings.room_settings import tls_files
from sharemesh.serve.settings.settings import ServeSettings


class KafkaDoor:
    """Built before roles offer, opened after; what is not set costs nothing."""

    def __init__(
        self,
        around: ProcessContext,
        tokens: BearerTokens | None,
        on_refused: Callable[[str, str, str, str], None] | None,
    ) -> None:
        """Read the certificates.

        Args:
            around: The ports of the process.
            tokens: Who judges bearer tokens, if any are taken.
            on_refused: Hears of logins that prove nothing, and of requests beyond a bound.

        Raises:
            TlsError: The certificates cannot be used.
        """
        settings = around.settings
        self._around = around
        self._settings = settings
        self.handlers = OfferedHandlers()
        registry = around.telemetry.registry
        access = Access(around.authorizer)
        answers = KafkaAnswers(
            self.handlers,
            around.view,
            around.node_id,
            registry,
            self._configs(access),
            ClusterAnswers(self.handlers, around.view, access, around.clock),
        )
        self._logins = Logins(
            [SaslMechanism(each) for each in settings.kafka_listener_sasl_mechanisms],
            UserTable(around.view),
            tokens,
            around.clock,
            around.rng,
            registry,
            session_ms=settings.kafka_listener_max_reauth_ms,
        )
        spans = around.telemetry.spans
        self._listener = KafkaListener(
            TracedAnswers(answers, spans) if spans.enabled else answers,
            around.clock,
            _limits(settings),
            registry,
            self._logins,
            tls=_certificates(around),
            on_refused=on_refused,
        )

    def _configs(self, access: Access) -> ConfigAnswers:
        around = self._around
        elsewhere = OfferedHandlers()
        groups = GroupConfigCalls(
            self.handlers, elsewhere, around.view, around.node_id, around.caller, access
        )
        audit = around.audit
        groups.offer(elsewhere if audit is None else AuditedListener(elsewhere, audit, bytes.hex))
        return ConfigAnswers(self.handlers, around.view, groups)

    async def open(self) -> KafkaEndpoint:
        """Listen, and return where clients reach this process.

        Raises:
            CoordinationError: There is no number for this process, or no secret of the cluster.
            KafkaPortTakenError: The port cannot be listened on.
        """
        around, settings = self._around, self._settings
        number = await kafka_node_number(around.coordination, settings.cluster_id, around.node_id)
        if settings.kafka_listener_sasl_mechanisms:
            cluster_id, store = settings.cluster_id, around.coordination
            self._logins.open(await login_secret(store, cluster_id, around.rng))
        host = settings.kafka_listener_host or settings.listen_host
        port = await self._listener.start(host, settings.kafka_listener_port)
        return KafkaEndpoint(
            number,
            settings.kafka_listener_advertised_host or settings.advertised_host or host,
            settings.kafka_port_to_advertise or port,
        )

    async def close(self) -> None:
        """Close the port and all connections."""
        await self._listener.stop()


def _certificates(around: ProcessContext) -> ListenerCertificates | None:
    """Return what the listener shows; who logs in has to show no certificate (KLS-19)."""
    settings = around.settings
    files = tls_files(settings)
    if files is None:
        return None
    demands = settings.mutual_tls and not settings.kafka_listener_sasl_mechanisms
    return ListenerCertificates(files, around.clock, demand_certificates=demands)


def _limits(settings: ServeSettings) -> KafkaListenerLimits:
    held_bytes = settings.kafka_listener_held_bytes
    return KafkaListenerLimits(
        max_connections=settings.kafka_listener_connections,
        max_principal_connections=settings.kafka_listener_connections // 2,
        max_held_bytes=held_bytes,
        max_principal_held_bytes=(
            held_bytes // 2 if settings.kafka_clients_have_names else held_bytes
        ),
        idle_ms=settings.kafka_listener_idle_ms,
    )
