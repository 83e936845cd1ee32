"""The port for Kafka's clients: accepts, bounds, sweeps and closes its connections."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from sharemesh.kafka.served_messages import load_served
from sharemesh.kafka_listener.answers import KafkaAnswers
from sharemesh.kafka_listener.connection import ListenerConnection
from sharemesh.kafka_listener.frames import RefusedFrameError
from sharemesh.kafka_listener.held_bytes import HeldBytes
from sharemesh.kafka_listener.held_sessions import HeldSessions
from sharemesh.kafka_listener.limits import KafkaListenerLimits
from sharemesh.kafka_listener.login.logins import ConnectionLogin, Logins
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.served_requests import used_by_clients
from sharemesh.kafka_listener.tls import ListenerTls, why_failed
from sharemesh.kafka_listener.tls_door import Handshake, TlsDoor
from sharemesh.kafka_listener.traced_answers import TracedAnswers
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext
from sharemesh.tasks import OwnedTasks, cancel_and_wait, wait_until_set
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.throttling.call_turns import CallTurns

SWEEP_MS = 1_000
"""How often connections are looked at that wait for their clients."""

STOP_MS = 1_000
"""How long a stop waits until all connections have ended."""

SAID_EVERY_MS = 10_000
"""How often the log says for the same reason that a connection was closed; all are counted."""

_AUDITED = frozenset({"login_refused", "no_login", "tls_failed"})
"""Nobody was proved: why connections were closed that the audit log tells of (AUD-3)."""

LEAVING_MAX = 100
"""Connections that gave way and have not ended yet, at most."""

Stranger = ListenerConnection | Handshake
"""Who has proved nothing."""

_log = logging.getLogger(__name__)


class KafkaPortTakenError(Exception):
    """The port cannot be listened on; the message says which and what to do."""


class KafkaListener:
    """Listens for Kafka's clients and answers them by handlers that others offer.

    ``handlers`` is to be offered every method before ``start``.
    """

    def __init__(
        self,
        answers: KafkaAnswers | TracedAnswers,
        clock: Clock,
        limits: KafkaListenerLimits,
        registry: Registry,
        logins: Logins,
        tls: ListenerTls | None = None,
        on_refused: Callable[[str, str, str, str], None] | None = None,
    ) -> None:
        """``on_refused`` hears of logins that prove nothing, and of requests beyond a bound.

        It is told method, principal, peer and status (AUD-3).
        """
        self.clock = clock
        self._tls = tls
        self._logins = logins
        self._on_refused = on_refused
        self._of_principal: Counter[str] = Counter()
        self.limits = limits
        self.held = HeldBytes(limits.max_held_bytes, limits.max_principal_held_bytes)
        self.turns = CallTurns()
        self.tasks = OwnedTasks("the Kafka listener")
        self._answers = answers
        self._registry = registry
        self._open: dict[ListenerConnection, str | None] = {}  # and whose it is
        self._strangers: dict[Stranger, None] = {}  # the oldest first
        self._leaving: dict[Stranger, None] = {}  # who gave way, until they have ended
        self._all_ended = asyncio.Event()
        self._said_ms: dict[str, int] = {}
        self._beyond = False
        self._server: asyncio.Server | None = None
        self._accepting: TlsDoor | None = None
        self._shaking = 0
        self._sweeping: asyncio.Task[None] | None = None
        registry.observe(names.KAFKA_LISTENER_CONNECTIONS, lambda: [((), float(self.connections))])

    @property
    def handlers(self) -> OfferedHandlers:
        """What is asked for the answers."""
        return self._answers.handlers

    @property
    def connections(self) -> int:
        """How many are open, those that shake hands included."""
        return len(self._open) + self._shaking

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (port 0: any free one) and return the port.

        Raises:
            KafkaPortTakenError: It is in use, or not ours to take.
        """
        load_served(used_by_clients())
        try:
            if self._tls is not None:
                self._accepting = TlsDoor(self, self._tls, host.strip("[]"), port)
                bound = self._accepting.port
            else:
                bound = await self._serve_plain(host.strip("[]"), port)
        except OSError as error:
            raise KafkaPortTakenError(
                f"cannot listen on {host}:{port} for Kafka's clients: "
                f"{(error.strerror or str(error)).lower()}; stop what uses the port or choose "
                "another one"
            ) from error
        self._sweeping = asyncio.create_task(self._sweep(), name="connections of Kafka's clients")
        if self._accepting is not None:
            self._accepting.open()
        return bound

    async def _serve_plain(self, host: str, port: int) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: ListenerConnection(self), host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close the port and every connection; requests under way are cancelled."""
        if self._server is not None:
            self._server.close()
        if self._accepting is not None:
            await self._accepting.close()
        if self._sweeping is not None:
            await cancel_and_wait(self._sweeping)
        for connection in list(self._open):
            connection.close()
        if self._open:
            await wait_until_set(self._all_ended, STOP_MS)
        await self.tasks.close()
        self._logins.close()
        self._answers.close()

    # ---- what connections ask -------------------------------------------------------------------

    def shakes_hands(self, handshake: Handshake) -> bool:
        """Take a connection that is to speak TLS, unless there are too many."""
        if not self._has_room(handshake.peer):
            return False
        self._shaking += 1
        self._strangers[handshake] = None
        return True

    def shook_hands(self, handshake: Handshake, error: Exception | None) -> None:
        """Hear that a handshake ended, and why if it failed."""
        self._shaking -= 1
        refused = handshake.refused
        self._strangers.pop(handshake, None)
        self._leaving.pop(handshake, None)
        if refused is None and error is not None:
            refused = RefusedFrameError("tls_failed", why_failed(error))
        if refused is not None:
            self._closed_here(refused, handshake.peer)

    def began(self, connection: ListenerConnection, peer: str) -> bool:
        """Take a connection, unless there are too many; one that shook hands was taken before."""
        if self._tls is None and not self._has_room(peer):
            return False
        self._open[connection] = None
        if not connection.login.is_open:
            self._strangers[connection] = None
        self._all_ended.clear()
        return True

    def _has_room(self, peer: str) -> bool:
        """Return whether one more may be open; that it may not is said once."""
        if self.connections - len(self._leaving) < self.limits.max_connections:
            return True
        if self._strangers and len(self._leaving) < LEAVING_MAX:
            self._make_room()
            return True
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

    def _make_room(self) -> None:
        """Close the connection that has been open for longest of those that prove nothing."""
        oldest = next(iter(self._strangers))
        del self._strangers[oldest]
        self._leaving[oldest] = None
        oldest.give_way(
            RefusedFrameError(
                "gave_way",
                f"it had not logged in when another one came, and {self.limits.max_connections} "
                "are open, the most that this process takes: log in at once, or raise "
                "kafka_listener_connections",
            )
        )

    def login(self) -> ConnectionLogin:
        """Return what a connection logs in with."""
        return ConnectionLogin(self._logins)

    def named(self, connection: ListenerConnection) -> None:
        """Count a connection among those of its principal.

        Raises:
            RefusedFrameError: There are too many.
        """
        if connection not in self._open:
            return
        if connection.login.is_open:
            self._strangers.pop(connection, None)
        principal = connection.principal
        most = self.limits.max_principal_connections
        if self._of_principal[principal] >= most:
            raise RefusedFrameError(
                "too_many_of_principal",
                f"{principal[:100]} has {most} connections here, half of "
                "kafka_listener_connections: close some, or raise it",
            )
        self._of_principal[principal] += 1
        self._open[connection] = principal

    def sessions(self, context: CallContext) -> HeldSessions:
        """Return what binds share sessions to a connection."""
        most = self.limits.max_held_sessions
        return HeldSessions(self.handlers, context, self.tasks, self.clock, most)

    async def answer(
        self, frame: bytes, connection: ListenerConnection, placed: Callable[[], None]
    ) -> Sequence[bytes]:
        """Answer one frame."""
        context = replace(connection.context, placed=placed)
        return await self._answers.answer(frame, context, connection.sessions, connection.login)

    def ended(self, connection: ListenerConnection, refused: RefusedFrameError | None) -> None:
        """Forget a connection; say why if it was closed here."""
        principal = self._open.pop(connection, None)
        self._strangers.pop(connection, None)
        self._leaving.pop(connection, None)
        if principal is not None:
            self._of_principal[principal] -= 1
            if not self._of_principal[principal]:
                del self._of_principal[principal]
        if not self._open:
            self._all_ended.set()
        if self.connections <= self.limits.max_connections // 2:
            self._beyond = False
        if refused is not None:
            self._closed_here(refused, connection.context.peer, connection.principal)

    def _closed_here(self, refused: RefusedFrameError, peer: str, principal: str = "") -> None:
        self._count_closed(refused.reason)
        self._say(refused, peer)
        if self._on_refused is None:
            return
        if refused.reason in _AUDITED:
            self._on_refused("SaslAuthenticate", "", peer, "UNAUTHENTICATED")
        elif refused.beyond_bound:
            self._on_refused(refused.beyond_bound, principal, peer, "RESOURCE_EXHAUSTED")

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
                connection.drop(now_ms)
                overdue = connection.overdue(now_ms)
                if overdue is not None:
                    connection.close(overdue)
