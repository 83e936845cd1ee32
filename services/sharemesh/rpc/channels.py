"""The asking side over gRPC: one channel per address, opened when first needed."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from sharemesh.methods import API_VERSIONS, Method, Request, Response
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.carried_calls import CARRIED_BYTES_MAX, CARRY, CallCarrier, Carriage
from sharemesh.rpc.forked import GRPC_USERS
from sharemesh.rpc.limits import MAX_MESSAGE_BYTES, channel_arguments
from sharemesh.rpc.shown_token import TOKEN_LOOK_MS, ShownToken
from sharemesh.rpc.status import ConnectionAdvice, StaleToken, failed, failure_of
from sharemesh.rpc.streams import GrpcClientStream
from sharemesh.rpc.tls import RENEWAL_LOOK_MS, RenewedCredentials, TlsFiles
from sharemesh.tasks import cancel_and_wait

_log = logging.getLogger(__name__)

MAX_CHANNELS = 512
"""Channels kept open; beyond that the one that was idle longest is closed."""


@dataclass(slots=True, eq=False)
class _Peer:
    """One address: its channel and the prepared methods."""

    channel: grpc.aio.Channel
    advice: ConnectionAdvice
    stale: StaleToken
    carriage: Carriage
    open_calls: int = 0
    retired: bool = False  # closed with its last call: its certificates were renewed
    methods: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def prepared(self, method: Method[Any, Any], prepare: Callable[..., Any]) -> Callable[..., Any]:
        """Return what calls a method; ``prepare`` is the channel's way to make it."""
        invoke = self.methods.get(method.name)
        if invoke is None:
            invoke = self.methods[method.name] = prepare(
                f"/sharemesh.v1.{method.name}",
                request_serializer=(
                    None if method.is_carried else method.request.SerializeToString
                ),
                response_deserializer=method.response.FromString,
            )
        return invoke


class GrpcCaller:
    """Fills ``ports.network.Caller`` with grpc.aio.

    Calls are never retried here. A channel that lost its connection connects again after 100 ms
    to 1 s; until then calls to it fail at once. Renewed files of ``tls`` are used a second later,
    as is a renewed token file. Only a call that was refused for its token, before any handler
    began, is made again here, once, with the token that has taken its place (IDN-9).

    Raises:
        TlsError: From the constructor, if a file of ``tls`` cannot be used.
        TokenFileError: From the constructor, if the token file cannot be used.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        tls: TlsFiles | None = None,
        headers: Sequence[tuple[str, str]] = (),
        token_file: Path | None = None,
    ) -> None:
        """``headers``, and the token in the file, go with every call."""
        self._clock = clock
        self._headers = tuple(headers)
        self._token = ShownToken(token_file) if token_file is not None else None
        self._showing: asyncio.Task[None] | None = None
        if self._token is not None:
            self._headers = (*headers, self._token.header)
        self._fixed_headers = tuple(headers)
        self._arguments = channel_arguments(max_message_bytes)
        self._credentials = RenewedCredentials(tls) if tls is not None else None
        self._next_look_ms = 0
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._streams: dict[GrpcClientStream[Any, Any], _Peer] = {}
        self._closing: dict[asyncio.Task[None], None] = {}
        self._closed = False
        GRPC_USERS.add(self)

    @property
    def is_connected(self) -> bool:
        """Whether channels are open."""
        return bool(self._peers)

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        to: str,
        timeout_ms: int | None = None,
    ) -> Response:
        """Return the response of a unary method (see the port)."""
        sent = self._headers
        try:
            return await self._call(method, request, to, timeout_ms)
        except CallFailedError as error:
            if not error.stale:
                raise
            self._look_at_token()
            if self._headers is sent:
                raise
        return await self._call(method, request, to, timeout_ms)

    async def _call(
        self, method: Method[Request, Response], request: Request, to: str, timeout_ms: int | None
    ) -> Response:
        peer = self._peer(method.name, to)
        deadline_ms = method.deadline_ms if timeout_ms is None else timeout_ms
        timeout_s = deadline_ms / 1_000
        peer.open_calls += 1
        try:
            if method.is_carried:
                response = await self._call_or_carry(peer, method, request, timeout_s)
            else:
                invoke = peer.prepared(method, peer.channel.unary_unary)
                response = await invoke(request, timeout=timeout_s, metadata=self._headers)
        except grpc.aio.AioRpcError as error:
            raise failure_of(error, method.name, to, peer.advice, peer.stale) from error
        except asyncio.CancelledError as error:
            raise _unless_own(error, method.name, to) from error
        except grpc.aio.UsageError as error:
            raise failed(Failure.UNAVAILABLE, method.name, to, "the channel is closed") from error
        finally:
            self._call_ended(peer)
        peer.advice.connected()
        peer.stale.let_in()
        return response

    async def _call_or_carry(
        self, peer: _Peer, method: Method[Request, Response], request: Request, timeout_s: float
    ) -> Response:
        """Make a call by the stream of the connection if it is small and there is one (CAR-1)."""
        data = request.SerializeToString()
        if len(data) <= CARRIED_BYTES_MAX:
            carrier = peer.carriage.carrier(self._headers)
            if carrier is not None:
                return method.response.FromString(await carrier.call(method.name, data, timeout_s))
        invoke = peer.prepared(method, peer.channel.unary_unary)
        response: Response = await invoke(data, timeout=timeout_s, metadata=self._headers)
        return response

    async def stream(
        self, method: Method[Request, Response], *, to: str
    ) -> GrpcClientStream[Request, Response]:
        """Open a bidirectional stream; returns when the server has taken it (see the port)."""
        peer = self._peer(method.name, to)
        invoke = peer.prepared(method, peer.channel.stream_stream)

        def ended(stream: GrpcClientStream[Any, Any]) -> None:
            self._call_ended(peer)
            self._streams.pop(stream, None)

        peer.open_calls += 1
        if self._token is not None and self._showing is None:
            self._showing = asyncio.create_task(self._show_tokens(self._token))
        stream = GrpcClientStream[Request, Response](
            invoke(metadata=self._headers),
            method.name,
            to,
            ended,
            self._clock,
            peer.advice,
            peer.stale,
        )
        self._streams[stream] = peer
        try:
            await stream.connected()
        except asyncio.CancelledError as error:
            await stream.abandon()
            raise _unless_own(error, method.name, to) from error
        except CallFailedError as error:
            await stream.abandon()
            if error.stale:
                self._look_at_token()  # for the next attempt
            raise
        peer.stale.let_in()
        return stream

    async def close(self) -> None:
        """Close all connections; open calls fail with CANCELLED. Repeating it is fine."""
        self._closed = True
        if self._showing is not None:
            await cancel_and_wait(self._showing)
        peers = list(self._peers.values())
        self._peers.clear()
        for stream in list(self._streams):
            await stream.abandon()
        await asyncio.gather(*map(_closed, peers), *self._closing)

    def _peer(self, method: str, to: str) -> _Peer:
        if self._closed:
            raise failed(Failure.CANCELLED, method, to, "this caller is closed")
        self._renew()
        peer = self._peers.get(to)
        if peer is not None:
            self._peers.move_to_end(to)
            return peer
        if ":" not in to:
            raise failed(Failure.INVALID_ARGUMENT, method, to, "an address is host:port")
        self._make_room()
        if self._credentials is None:
            channel = grpc.aio.insecure_channel(to, options=self._arguments)
        else:
            channel = grpc.aio.secure_channel(to, self._credentials.now, options=self._arguments)
        advice = ConnectionAdvice(tls=self._credentials is not None)
        carry = channel.stream_stream(
            f"/sharemesh.v1.{CARRY.name}",
            request_serializer=CARRY.request.SerializeToString,
            response_deserializer=CARRY.response.FromString,
        )
        carriage = Carriage(self._clock, lambda: CallCarrier(carry(metadata=self._headers)))
        peer = self._peers[to] = _Peer(channel, advice, StaleToken(self._clock), carriage)
        return peer

    def _make_room(self) -> None:
        if len(self._peers) < MAX_CHANNELS:
            return
        idle = next((to for to, peer in self._peers.items() if peer.open_calls == 0), None)
        if idle is None:
            raise CallFailedError(
                Failure.RESOURCE_EXHAUSTED,
                f"{MAX_CHANNELS} connections are open and busy; close some or use another caller",
            )
        self._close_soon(self._peers.pop(idle))

    def _renew(self) -> None:
        """Open new connections with renewed certificates; calls end on the old ones."""
        nothing = self._credentials is None and self._token is None
        if nothing or self._clock.now_ms() < self._next_look_ms:
            return
        self._next_look_ms = self._clock.now_ms() + RENEWAL_LOOK_MS
        self._look_at_token()
        if self._credentials is None or not self._credentials.changed():
            return
        retired = list(self._peers.values())
        self._peers.clear()
        for peer in retired:
            peer.retired = True
            if peer.open_calls == 0:
                self._close_soon(peer)

    def _look_at_token(self) -> None:
        """Show a renewed token from now on."""
        if self._token is not None and self._token.look():
            self._headers = (*self._fixed_headers, self._token.header)

    async def _show_tokens(self, token: ShownToken) -> None:
        """Show a renewed token on each connection with open streams, so that they go on (IDN-7)."""
        shown = token.header
        while True:
            await self._clock.sleep_ms(TOKEN_LOOK_MS)
            self._look_at_token()
            if token.header == shown:
                continue
            shown = token.header
            await asyncio.gather(*map(self._show, dict.fromkeys(self._streams.values())))

    async def _show(self, peer: _Peer) -> None:
        invoke = peer.prepared(API_VERSIONS, peer.channel.unary_unary)
        peer.open_calls += 1
        try:
            await invoke(
                API_VERSIONS.request(),
                timeout=API_VERSIONS.deadline_ms / 1_000,
                metadata=self._headers,
            )
        except (grpc.aio.AioRpcError, grpc.aio.UsageError) as error:
            _log.debug("a new token was not shown: %s", type(error).__name__)  # streams end then
        finally:
            self._call_ended(peer)

    def _call_ended(self, peer: _Peer) -> None:
        peer.open_calls -= 1
        if peer.retired and peer.open_calls == 0:
            self._close_soon(peer)

    def _close_soon(self, peer: _Peer) -> None:
        closing = asyncio.ensure_future(_closed(peer))
        self._closing[closing] = None
        closing.add_done_callback(lambda task: self._closing.pop(task, None))


async def _closed(peer: _Peer) -> None:
    await peer.carriage.close()
    await peer.channel.close()


def _unless_own(error: asyncio.CancelledError, method: str, to: str) -> BaseException:
    """Tell our own cancellation from that of a channel which was closed under the call."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return error
    return failed(Failure.CANCELLED, method, to, "the connection was closed here")
