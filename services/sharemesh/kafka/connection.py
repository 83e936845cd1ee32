"""One connection to one broker: frames, correlation, versions; each request is tried once.

The broker answers the requests of a connection one after the other, in order.
"""

import asyncio
import ssl
import struct
from collections import deque
from dataclasses import dataclass
from typing import cast

from sharemesh import __version__
from sharemesh.kafka.messages import (
    SIZE_BYTES,
    Content,
    KafkaMessage,
    MalformedMessageError,
    decode,
    encode,
    in_milliseconds,
    milliseconds,
    refuse,
)
from sharemesh.kafka.traffic import BrokerTraffic
from sharemesh.kafka.versions import KafkaRequest, OfferedVersions, settle
from sharemesh.ports.brokers import BrokerRefusedError, BrokerUnreachableError
from sharemesh.ports.clock import Clock

FRAME_BYTES_MAX = 64 << 20
"""Longest answer that is read, inclusive."""

IN_FLIGHT_MAX = 32
"""Requests of one connection that wait for their answers; further ones wait to be sent."""

_UNSUPPORTED_VERSION = 35
_THROTTLED = 89
_CODE = slice(4, 6)  # of an answer whose header is the correlation id alone
_TLS_ALERT = 0x15
_NO_TIME = milliseconds(0)
_CERTIFICATE_HINT = (
    "if it asks for client certificates, set kafka_tls_certificate and kafka_tls_key to one that "
    "it trusts"
)
_SECURITY_HINT = "check that kafka_security is what this listener expects"


@dataclass(frozen=True, slots=True)
class ListenerName:
    """What a connection leads to, in words; ``broker_id`` is what its requests are counted by."""

    broker_id: str
    broker: str
    address: str
    security: str
    principal: str = ""

    def __str__(self) -> str:
        """Return them in one phrase."""
        user = f" as {self.principal}" if self.principal else ""
        return f"{self.broker} at {self.address} ({self.security}{user})"


@dataclass(frozen=True, slots=True, eq=False)
class _InFlight:
    request: KafkaRequest
    version: int
    correlation: int
    answer: "asyncio.Future[KafkaMessage]"


class BrokerConnection(asyncio.BufferedProtocol):
    """Answers are read into one buffer of exactly their size; records are cut out of it once."""

    def __init__(
        self, listener: ListenerName, client_id: str, clock: Clock, traffic: BrokerTraffic
    ) -> None:
        self.listener = listener
        self.renew_at_ms: int | None = None
        """When a new connection with a new login should take its place; None: never."""
        self.used_at_ms = clock.now_ms()
        """When something was asked or answered last."""
        self.reads = 0
        """How often bytes came."""
        self.closed = False
        self._client_id = client_id
        self._clock = clock
        self._traffic = traffic
        self._offered: OfferedVersions = {}
        self._transport: asyncio.Transport | None = None
        self._asked: deque[_InFlight] = deque()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._correlation = 0
        self._answers = 0
        self._serves = False
        """Whether it answered anything but ApiVersions, which listeners answer before a login."""
        self._throttled_until_ms = 0
        self._why = "it was closed"
        self._retired = False
        self._size = bytearray(SIZE_BYTES)
        self._into = memoryview(self._size)
        self._filled = 0
        self._in_body = False

    @property
    def waiting(self) -> int:
        """How many requests wait for their answers."""
        return len(self._asked)

    async def greet(self, timeout_ms: int) -> None:
        """Ask for the versions that the broker speaks.

        Raises:
            BrokerRefusedError: It does not tell.
            BrokerUnreachableError: It does not answer.
        """
        content = {"client_software_name": "sharemesh", "client_software_version": __version__}
        request = KafkaRequest.API_VERSIONS
        self._offered = {request.key: (request.lowest, request.highest)}
        answer = await self.call(request, content, timeout_ms=timeout_ms)
        if int(answer.error_code) == _UNSUPPORTED_VERSION:
            answer = await self.call(request, content, timeout_ms=timeout_ms, at_most=0)
        refuse(answer.error_code, f"{self.listener} does not say what it speaks")
        self._offered = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }

    def version_of(self, request: KafkaRequest, at_most: int | None = None) -> int:
        """Return the version in which a request is spoken here.

        Raises:
            UnsupportedRequestError: There is none.
        """
        return settle(request, self._offered, str(self.listener), at_most)

    async def call(
        self,
        request: KafkaRequest,
        content: Content,
        *,
        timeout_ms: int,
        at_most: int | None = None,
    ) -> KafkaMessage:
        """Send one request and return its answer; without one in time the connection is closed.

        If the caller is cancelled, the answer is dropped when it comes.

        Raises:
            BrokerRefusedError: THROTTLING_QUOTA_EXCEEDED; not sent, the broker wants a longer pause
                than the time-out.
            BrokerUnreachableError: There was no answer.
            UnsupportedRequestError: The broker does not speak it; nothing was sent.
        """
        version = self.version_of(request, at_most)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._pause(timeout_ms)
                await self._slots.acquire()
                message = await self._send(request, version, content)
        except TimeoutError:
            self._end(f"it did not answer {request.label} within {timeout_ms} ms")
            raise self._unreachable() from None
        throttle_ms = in_milliseconds(getattr(message, "throttle_time", _NO_TIME))
        if throttle_ms > 0:
            self._throttled_until_ms = self._clock.now_ms() + throttle_ms
            self._traffic.throttled(self.listener.broker_id, throttle_ms)
        return message

    def retire(self) -> None:
        """Close it once what was asked is answered; nothing more is to be asked."""
        self._retired = True
        if not self._asked:
            self.close()

    def give_up(self, reads_before: int) -> None:
        """Close it if nothing came since then, and nobody waits for an answer here (KBR-16)."""
        if self.reads == reads_before and all(asked.answer.done() for asked in self._asked):
            self._end("it did not answer, and was given up")

    def close(self) -> None:
        """Close it; requests under way end with BrokerUnreachableError."""
        self._end("this process closed the connection")

    async def _pause(self, timeout_ms: int) -> None:
        """Obey the broker's throttle (KIP-219)."""
        pause_ms = self._throttled_until_ms - self._clock.now_ms()
        if pause_ms >= timeout_ms:
            raise BrokerRefusedError(
                _THROTTLED,
                "THROTTLING_QUOTA_EXCEEDED",
                f"{self.listener} asks for a pause of {pause_ms} ms; raise the principal's quota",
            )
        if pause_ms > 0:
            await self._clock.sleep_ms(pause_ms)

    def _send(
        self, request: KafkaRequest, version: int, content: Content
    ) -> "asyncio.Future[KafkaMessage]":
        if self.closed or self._transport is None:
            self._slots.release()
            raise self._unreachable()
        self._correlation = (self._correlation + 1) & 0x7FFF_FFFF
        try:
            frame = encode(request, version, self._correlation, self._client_id, content)
        except BaseException:
            self._slots.release()
            raise
        answer: asyncio.Future[KafkaMessage] = asyncio.get_running_loop().create_future()
        self._asked.append(_InFlight(request, version, self._correlation, answer))
        self._transport.write(frame)
        self.used_at_ms = self._clock.now_ms()
        self._traffic.sent(request.label, self.listener.broker_id)
        return answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to (asyncio)."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's TLS is none by its class

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio asks
        """Return where the next bytes go: into the size of an answer, then into the answer."""
        return self._into[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Go on once the size, or the answer, is whole."""
        self.reads += 1
        self._filled += nbytes
        if self._filled < len(self._into):
            return
        self._filled = 0
        if self._in_body:
            frame, self._into, self._in_body = self._into, memoryview(self._size), False
            self._heard(frame.toreadonly())
            return
        (size,) = struct.unpack(">i", self._size)
        if not SIZE_BYTES <= size <= FRAME_BYTES_MAX:
            self._end(self._why_no_answer(size))
            return
        self._into, self._in_body = memoryview(bytearray(size)), True

    def connection_lost(self, exc: Exception | None) -> None:
        """End what waits (asyncio)."""
        said = "it closed the connection" if exc is None else str(exc)
        if self._serves:
            self._end(said)
        elif self._answers:
            self._end(
                f"{said} after it had answered ApiVersions alone, as listeners do that want a "
                f"login first: {_SECURITY_HINT}"
            )
        elif isinstance(exc, ssl.SSLError):
            self._end(f"it refused TLS ({exc.reason}): {_CERTIFICATE_HINT}")
        else:
            self._end(f"{said} before its first answer: {_SECURITY_HINT}")

    def _why_no_answer(self, size: int) -> str:
        if not self._answers:
            kind = "TLS" if self._size[0] == _TLS_ALERT else "something"
            return f"it sent {kind} instead of an answer of Kafka's protocol: {_SECURITY_HINT}"
        return f"it announced an answer of {size} bytes; at most {FRAME_BYTES_MAX} are read"

    def _heard(self, frame: memoryview) -> None:
        if not self._asked:
            self._end("it sent an answer that nobody asked for")
            return
        asked = self._asked.popleft()
        self._slots.release()
        version = asked.version
        if asked.request is KafkaRequest.API_VERSIONS and _code_in(frame) == _UNSUPPORTED_VERSION:
            version = 0  # the answer to a version that it does not know
        try:
            correlation, message = decode(asked.request, version, frame)
        except MalformedMessageError as error:
            self._end(f"its answer cannot be used: {error}", asked)
            return
        if correlation != asked.correlation:
            self._end(f"it answered {correlation} where {asked.correlation} was asked", asked)
            return
        self._answers += 1
        self._serves = self._serves or asked.request is not KafkaRequest.API_VERSIONS
        self.used_at_ms = self._clock.now_ms()
        if not asked.answer.done():
            asked.answer.set_result(message)
        if self._retired and not self._asked:
            self.close()

    def _end(self, why: str, *further: _InFlight) -> None:
        if self.closed:
            return
        self.closed = True
        self._why = why
        if self._transport is not None:
            self._transport.abort()
        waiting, self._asked = [*further, *self._asked], deque()
        for asked in waiting:
            if not asked.answer.done():
                asked.answer.set_exception(self._unreachable())
        for _ in range(IN_FLIGHT_MAX):
            self._slots.release()  # whoever waits to send hears of it

    def _unreachable(self) -> BrokerUnreachableError:
        return BrokerUnreachableError(f"{self.listener}: {self._why}")


def _code_in(frame: memoryview) -> int:
    code: int = struct.unpack(">h", frame[_CODE])[0] if len(frame) >= _CODE.stop else 0
    return code
