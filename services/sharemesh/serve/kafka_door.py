"""The listener for Kafka's clients of one process, as its settings want it (spec KLS)."""

from sharemesh.cluster.store.kafka_nodes import kafka_node_number
from sharemesh.kafka_listener.answers import KafkaAnswers
from sharemesh.kafka_listener.limits import KafkaListenerLimits
from sharemesh.kafka_listener.listener import KafkaListener
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.ports.cluster import KafkaEndpoint
from sharemesh.serve.process_context import ProcessContext
from sharemesh.serve.settings.settings import ServeSettings


class KafkaDoor:
    """Built before roles offer, opened after; what is not set costs nothing."""

    def __init__(self, around: ProcessContext) -> None:
        settings = around.settings
        self._around = around
        self._settings = settings
        self.handlers = OfferedHandlers()
        registry = around.telemetry.registry
        answers = KafkaAnswers(self.handlers, around.view, around.node_id, around.caller, registry)
        self._listener = KafkaListener(answers, around.clock, _limits(settings), registry)

    async def open(self) -> KafkaEndpoint:
        """Listen, and return where clients reach this process.

        Raises:
            CoordinationError: There is no number for this process.
            KafkaPortTakenError: The port cannot be listened on.
        """
        around, settings = self._around, self._settings
        number = await kafka_node_number(around.coordination, settings.cluster_id, around.node_id)
        host = settings.kafka_listener_host or settings.listen_host
        port = await self._listener.start(host, settings.kafka_listener_port)
        return KafkaEndpoint(
            number,
            settings.kafka_listener_advertised_host or settings.advertised_host or host,
            settings.kafka_listener_advertised_port or port,
        )

    async def close(self) -> None:
        """Close the port and all connections."""
        await self._listener.stop()


def _limits(settings: ServeSettings) -> KafkaListenerLimits:
    return KafkaListenerLimits(
        max_connections=settings.kafka_listener_connections,
        max_held_bytes=settings.kafka_listener_held_bytes,
        idle_ms=settings.kafka_listener_idle_ms,
    )
