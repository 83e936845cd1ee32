"""Channels to the members of one etcd cluster: TLS, authentication, retries, one live endpoint.

One channel an endpoint rather than one balanced channel: names with certificates of their own
stay possible, and a member that is cut off is left at once for the next one.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
import grpc.aio
from aetcd import rpc

from sharemesh.backoff import Backoff
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import CoordinationError

CALL_TIMEOUT_MS = 2_000
CALL_ATTEMPTS = 3
BACKOFF_MIN_MS = 50
BACKOFF_MAX_MS = 1_000
BACKOFF_JITTER = (0.5, 1.5)
MESSAGE_MAX_BYTES = 64 << 20  # a watch may bring thousands of changes in one message

EtcdMessage: TypeAlias = Any  # the wire stubs carry no types
Method: TypeAlias = Callable[..., EtcdMessage]

_RETRIABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
    }
)
_ACCESS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),  # etcd refuses less than 5 s
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # for one attempt to connect, TLS included
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
)


class EtcdRefusedError(CoordinationError):
    """The server answered with an error that a retry will not change."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """PEM bytes; ``certificate`` and ``key`` together are mutual TLS.

    ``server_name`` replaces the host name that the server's certificate is checked for.
    """

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class EtcdLogin:
    """A user of etcd's own authentication; prefer mutual TLS."""

    user: str
    password: str


class Endpoint:
    """One member of the etcd cluster."""

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address = address
        self.channel = channel
        self.kv = rpc.KVStub(channel)
        self.lease = rpc.LeaseStub(channel)
        self.watch = rpc.WatchStub(channel)
        self.auth = rpc.AuthStub(channel)
        self.left = asyncio.Event()


class EtcdConnection:
    """Calls to whichever endpoint works."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        clock: Clock,
        rng: random.Random,
        tls: EtcdTls | None = None,
        login: EtcdLogin | None = None,
    ) -> None:
        if not endpoints:
            raise ValueError("no etcd endpoint given; name at least one as host:port")
        self._addresses = tuple(endpoints)
        self.clock = clock
        self._rng = rng
        self._tls = tls
        self._login = login
        self._endpoints: list[Endpoint] = []
        self._current = 0
        self._token: str | None = None
        self._login_lock = asyncio.Lock()

    @property
    def names(self) -> str:
        """All endpoints, for messages."""
        return ", ".join(self._addresses)

    def endpoint(self) -> Endpoint:
        """Return the endpoint in use; channels are made at the first call, inside the loop."""
        if not self._endpoints:
            self._endpoints = [self._open(address) for address in self._addresses]
        return self._endpoints[self._current]

    def leave(self, endpoint: Endpoint) -> None:
        """Turn to the next endpoint if this one is still in use; its watches follow.

        A watch alone would notice only after the HTTP/2 keep-alive that its server is cut off.
        """
        if self._endpoints and self._endpoints[self._current] is endpoint:
            if len(self._endpoints) == 1:
                return
            self._current = (self._current + 1) % len(self._endpoints)
            self._endpoints[self._current].left.clear()
            endpoint.left.set()

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what every call and stream carries.

        ``hasleader`` makes a member that is cut off from its majority fail instead of serving
        old data.
        """
        if self._login is None:
            return (("hasleader", "true"),)
        async with self._login_lock:
            if self._token is None:
                request = rpc.AuthenticateRequest(
                    name=self._login.user, password=self._login.password
                )
                answer = await self.endpoint().auth.Authenticate(
                    request, timeout=CALL_TIMEOUT_MS / 1_000
                )
                self._token = answer.token
            return (("token", self._token), ("hasleader", "true"))

    def forget_token(self, error: grpc.aio.AioRpcError) -> bool:
        """Return whether the error means that another login may help, and prepare for it.

        Simple tokens live in the server's memory: they are gone after a restart and in 300 s.
        """
        details = error.details() or ""
        stale = self._login is not None and (
            "invalid auth token" in details or "revision of auth store is old" in details
        )
        if stale:
            self.log_in_anew()
        return stale

    def log_in_anew(self) -> None:
        """Ask for another token before the next call."""
        self._token = None

    async def call(
        self,
        pick: Callable[[Endpoint], Method],
        request: object,
        *,
        attempts: int = CALL_ATTEMPTS,
        timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> EtcdMessage:
        """Make one unary call, again on another endpoint if that may help.

        Raises:
            EtcdRefusedError: The server said no.
            CoordinationError: No endpoint answered.
        """
        logins = 0
        backoff = self.backoff()
        while True:
            endpoint = self.endpoint()
            try:
                metadata = await self.metadata()
                return await pick(endpoint)(request, timeout=timeout_ms / 1_000, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if self.forget_token(error) and logins == 0:
                    logins += 1
                    continue
                if error.code() not in _RETRIABLE:
                    raise self._refused(error) from error
                self.leave(endpoint)
                attempts -= 1
                if attempts <= 0:
                    raise self.unreachable(error) from error
            await self.clock.sleep_ms(backoff.next_ms())

    def backoff(self) -> Backoff:
        """Return the waits between attempts to reach etcd."""
        return Backoff(BACKOFF_MIN_MS, BACKOFF_MAX_MS, self._rng, BACKOFF_JITTER)

    def random_bits(self, bits: int) -> int:
        """Return chance for lease ids."""
        return self._rng.getrandbits(bits)

    def unreachable(self, error: grpc.aio.AioRpcError) -> CoordinationError:
        """Return the error that says what to do when etcd does not answer."""
        return CoordinationError(
            f"etcd at {self.names} does not answer ({error.code().name}: {error.details()}); "
            "check that it runs, that the endpoints are right and that the network lets us through"
        )

    def stream_failed(self, endpoint: Endpoint, error: grpc.aio.AioRpcError) -> None:
        """Take note of a broken stream.

        Raises:
            EtcdRefusedError: Opening another one would fail as well.
        """
        if self.forget_token(error):
            return
        if error.code() not in _RETRIABLE:
            raise self._refused(error) from error
        self.leave(endpoint)

    async def close(self) -> None:
        """Close all channels."""
        endpoints, self._endpoints = self._endpoints, []
        for endpoint in endpoints:
            await endpoint.channel.close()

    def _refused(self, error: grpc.aio.AioRpcError) -> EtcdRefusedError:
        details = error.details() or ""
        hint = ""
        if "database space exceeded" in details:
            hint = "; compact and defragment etcd, then disarm its alarm"
        elif "authentication failed" in details or error.code() in _ACCESS:
            hint = "; check user, password and the role's key prefix"
        return EtcdRefusedError(
            f"etcd at {self.names} refused: {error.code().name}: {details}{hint}", details
        )

    def _open(self, address: str) -> Endpoint:
        scheme, _, rest = address.rpartition("://")
        if self._tls is None and scheme != "https":
            channel = grpc.aio.insecure_channel(rest, options=_OPTIONS)
            return Endpoint(address, channel)
        tls = self._tls or EtcdTls()
        credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
        options: list[tuple[str, str | int]] = list(_OPTIONS)
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        return Endpoint(address, grpc.aio.secure_channel(rest, credentials, options=options))
