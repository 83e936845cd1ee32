"""Opens connections: every address of a name is tried, then TLS, versions and login."""

import asyncio
import socket
import ssl
from dataclasses import dataclass, field

from sharemesh.kafka.connection import BrokerConnection, ListenerName
from sharemesh.kafka.login import log_in
from sharemesh.kafka.security import PLAINTEXT, KafkaSecurity, KafkaSecurityError
from sharemesh.kafka.traffic import BrokerTraffic
from sharemesh.ports.brokers import BrokerAddress, BrokerUnreachableError
from sharemesh.ports.clock import Clock

CONNECT_TIMEOUT_MS = 5_000
OPEN_TIMEOUT_MS = 10_000
"""Until a connection is ready, with its login: no provider of tokens is waited for longer."""

REQUEST_TIMEOUT_MS = 10_000
PORT_MAX = 65_535
_SPEAKS_TLS = "check that this listener speaks what kafka_security says"


@dataclass(frozen=True, slots=True)
class Dialing:
    """How this process connects to any broker."""

    clock: Clock
    client_id: str = "sharemesh"
    security: KafkaSecurity = PLAINTEXT
    traffic: BrokerTraffic = field(default_factory=BrokerTraffic)

    async def open(self, broker: BrokerAddress) -> BrokerConnection:
        """Return a connection that is ready for requests.

        Raises:
            BrokerRefusedError: The login was refused.
            BrokerUnreachableError: It cannot be reached, or shows a certificate of nobody known;
                or a file of ours cannot be used.
        """
        listener = ListenerName(
            broker_id="bootstrap" if broker.broker_id < 0 else str(broker.broker_id),
            broker="a bootstrap server" if broker.broker_id < 0 else f"broker {broker.broker_id}",
            address=f"{broker.host}:{broker.port}",
            security=self.security.protocol.value,
            principal=self.security.principal,
        )
        connection = BrokerConnection(listener, self.client_id, self.clock, self.traffic)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_MS / 1_000):
                await self._make_ready(connection, broker)
        except TimeoutError:
            late = self._what_is_late(connection)
            connection.close()
            raise BrokerUnreachableError(
                f"{listener}: {late} within {OPEN_TIMEOUT_MS} ms after it was dialled"
            ) from None
        except KafkaSecurityError as error:
            connection.close()
            raise BrokerUnreachableError(f"{listener}: {error}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def _make_ready(self, connection: BrokerConnection, broker: BrokerAddress) -> None:
        await self._connect(connection, broker)
        await connection.greet(REQUEST_TIMEOUT_MS)
        if self.security.protocol.logs_in:
            began_ms = self.clock.now_ms()
            renew_ms = await log_in(connection, self.security, REQUEST_TIMEOUT_MS)
            connection.renew_at_ms = None if renew_ms is None else began_ms + renew_ms

    def _what_is_late(self, connection: BrokerConnection) -> str:
        if self.security.token_provider and not connection.waiting:
            return f"kafka_oauth_provider {self.security.token_provider} returned no token"
        return "it did not answer the login"

    async def _connect(self, connection: BrokerConnection, broker: BrokerAddress) -> None:
        context = self.security.tls()
        tried: list[str] = []
        connected = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1_000):
                places = await _addresses(broker)
                for number, address in enumerate(places):
                    patience_s = CONNECT_TIMEOUT_MS / 1_000 / (len(places) - number)
                    try:
                        async with asyncio.timeout(patience_s):
                            await _connect_to(address, connection, broker, context)
                    except OSError as error:  # TimeoutError is one
                        connected = connected or _was_reached(error, context)
                        tried.append(f"{address}: {_why(error, self.security)}")
                    else:
                        return
        except TimeoutError:
            tried.append(f"no connection within {CONNECT_TIMEOUT_MS} ms")
        except OSError as error:
            tried.append(str(error))
        advice = "" if connected else f"; {_advice(broker)}"
        raise BrokerUnreachableError(f"{connection.listener}: {'; '.join(tried)}{advice}")


async def _addresses(broker: BrokerAddress) -> list[str]:
    if not 0 < broker.port <= PORT_MAX:
        raise OSError(f"{broker.port} is no port; ports are 1 to {PORT_MAX}")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            broker.host, broker.port, type=socket.SOCK_STREAM
        )
    except ValueError as error:  # labels that are empty or longer than 63, bytes of zero
        raise OSError(f"{broker.host!r} is no name of a host: {error}") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def _connect_to(
    address: str,
    connection: BrokerConnection,
    broker: BrokerAddress,
    context: ssl.SSLContext | None,
) -> None:
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: connection,
        address,
        broker.port,
        ssl=context,
        server_hostname=None if context is None else broker.host,
    )
    opened: socket.socket | None = transport.get_extra_info("socket")
    if opened is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _why(error: OSError, security: KafkaSecurity) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        authority = security.authority or "an authority of this system"
        return (
            f"its certificate was not accepted ({error.verify_message}): set kafka_tls_authority "
            f"to the PEM file of the authority that signed it (now {authority}), and use the name "
            "that it is made out to"
        )
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason}): {_SPEAKS_TLS}"
    if isinstance(error, ConnectionResetError):
        return f"it closed the connection: {_SPEAKS_TLS}"
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return error.strerror or str(error)


def _was_reached(error: OSError, context: ssl.SSLContext | None) -> bool:
    """Return whether somebody was there, who did not agree about TLS."""
    return context is not None and isinstance(error, ssl.SSLError | ConnectionResetError)


def _advice(broker: BrokerAddress) -> str:
    if broker.broker_id < 0:
        return "check kafka_bootstrap_servers and the way there"
    return (
        "the cluster advertises this address: it must lead to the broker from here, so change "
        "advertised.listeners of the broker, or bootstrap from another listener"
    )
