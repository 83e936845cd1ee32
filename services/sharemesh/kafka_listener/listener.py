"""The port for Kafka's clients: accepts, bounds, sweeps and closes its connections."""

import asyncio
import logging
from collections.abc import Sequence

from sharemesh.kafka.served_messages import load_served
from sharemesh.kafka_listener.answers import KafkaAnswers
from sharemesh.kafka_listener.connection import ListenerConnection
from sharemesh.kafka_listener.frames import RefusedFrameError
from sharemesh.kafka_listener.held_bytes import HeldBytes
from sharemesh.kafka_listener.held_sessions import HeldSessions
from sharemesh.kafka_listener.limits import KafkaListenerLimits
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.served_requests import used_by_clients
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext
from sharemesh.tasks import OwnedTasks, cancel_and_wait, wait_until_set
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry

SWEEP_MS = 1_000
"""How often connections are looked at that wait for their clients."""

STOP_MS = 1_000
"""How long a stop waits until all connections have ended."""

SAID_EVERY_MS = 10_000
"""How often the log says for the same reason that a connection was closed; all are counted."""

_log = logging.getLogger(__name__)


class KafkaPortTakenError(Exception):
    """The port cannot be listened on; the message says which and what to do."""


class KafkaListener:
    """Listens for Kafka's clients and answers them by handlers that others offer.

    ``handlers`` is to be offered every method before ``start``.
    """

    def __init__(
        self,
        answers: KafkaAnswers,
        clock: Clock,
        limits: KafkaListenerLimits,
        registry: Registry,
    ) -> None:
        self.clock = clock
        self.limits = limits
        self.held = HeldBytes(limits.max_held_bytes)
        self.tasks = OwnedTasks("the Kafka listener")
        self._answers = answers
        self._registry = registry
        self._open: dict[ListenerConnection, None] = {}
        self._all_ended = asyncio.Event()
        self._said_ms: dict[str, int] = {}
        self._beyond = False
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None
        registry.observe(names.KAFKA_LISTENER_CONNECTIONS, lambda: [((), float(len(self._open)))])

    @property
    def handlers(self) -> OfferedHandlers:
        """What is asked for the answers."""
        return self._answers.handlers

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (port 0: any free one) and return the port.

        Raises:
            KafkaPortTakenError: It is in use, or not ours to take.
        """
        load_served(used_by_clients())
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: ListenerConnection(self), host.strip("[]"), port
            )
        except OSError as error:
            raise KafkaPortTakenError(
                f"cannot listen on {host}:{port} for Kafka's clients: "
                f"{(error.strerror or str(error)).lower()}; stop what uses the port or choose "
                "another one"
            ) from error
        self._sweeping = asyncio.create_task(self._sweep(), name="connections of Kafka's clients")
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close the port and every connection; requests under way are cancelled."""
        if self._server is not None:
            self._server.close()
        if self._sweeping is not None:
            await cancel_and_wait(self._sweeping)
        for connection in list(self._open):
            connection.close()
        if self._open:
            await wait_until_set(self._all_ended, STOP_MS)
        await self.tasks.close()

    # ---- what connections ask -------------------------------------------------------------------

    def began(self, connection: ListenerConnection, peer: str) -> bool:
        """Take a connection, unless there are too many; that is said once."""
        if len(self._open) >= self.limits.max_connections:
            if not self._beyond:
                _log.warning(
                    "connections of Kafka's clients are closed: %d are open, the most that this "
                    "process takes; raise kafka_listener_connections, or start more processes",
                    len(self._open),
                    extra={"peer": peer},
                )
            self._beyond = True
            self._count_closed("too_many")
            return False
        self._open[connection] = None
        self._all_ended.clear()
        return True

    def sessions(self, context: CallContext) -> HeldSessions:
        """Return what binds share sessions to a connection."""
        return HeldSessions(self.handlers, context, self.tasks, self.limits.max_held_sessions)

    async def answer(self, frame: bytes, connection: ListenerConnection) -> Sequence[bytes]:
        """Answer one frame."""
        return await self._answers.answer(frame, connection.context, connection.sessions)

    def ended(self, connection: ListenerConnection, refused: RefusedFrameError | None) -> None:
        """Forget a connection; say why if it was closed here."""
        self._open.pop(connection, None)
        if not self._open:
            self._all_ended.set()
        if len(self._open) <= self.limits.max_connections // 2:
            self._beyond = False
        if refused is not None:
            self._count_closed(refused.reason)
            self._say(refused, connection.context.peer)

    def _say(self, refused: RefusedFrameError, peer: str) -> None:
        """Log why a connection was closed here; the same reason now and then only."""
        now_ms = self.clock.now_ms()
        if refused.reason == "idle" or self._said_ms.get(refused.reason, 0) > now_ms:
            return
        self._said_ms[refused.reason] = now_ms + SAID_EVERY_MS
        _log.warning("connection of a Kafka client closed: %s", refused, extra={"peer": peer})

    def _count_closed(self, reason: str) -> None:
        self._registry.counter(names.KAFKA_LISTENER_CLOSED, reason).add()

    async def _sweep(self) -> None:
        """Close connections that keep this process waiting."""
        while True:
            await self.clock.sleep_ms(SWEEP_MS)
            now_ms = self.clock.now_ms()
            for connection in list(self._open):
                overdue = connection.overdue(now_ms)
                if overdue is not None:
                    connection.close(overdue)
