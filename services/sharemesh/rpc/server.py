"""The answering side over gRPC."""

import asyncio
import dataclasses
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, CallFailedError, Failure, Stream
from sharemesh.rpc.limits import (
    HEALTH_BYTES_MAX,
    HEALTH_CONNECTIONS_MAX,
    STREAM_TAKEN,
    ServerLimits,
    refusal,
    server_arguments,
)
from sharemesh.rpc.message_parts import MessageParts
from sharemesh.rpc.principals import SECRET_HEADER, Principals
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.server_stream import GrpcServerStream
from sharemesh.rpc.standard_services import Health, reflection_handlers
from sharemesh.rpc.status import code_of

PACKAGE = "sharemesh.v1"

_log = logging.getLogger(__name__)


class ListenError(Exception):
    """A port cannot be listened on; the message says which and what to do."""


class GrpcServer:
    """Fills ``ports.network.Listener`` with grpc.aio; offer everything, then ``start``.

    Health (``grpc.health.v1``) starts with every offered service at SERVING, and ``readiness``
    as ``health`` is told. Reflection (v1 and v1alpha) is on unless switched off.
    """

    def __init__(
        self,
        *,
        limits: ServerLimits | None = None,
        tls: ServerCertificates | None = None,
        reflection: bool = True,
        principals: Principals | None = None,
    ) -> None:
        self._limits = limits or ServerLimits()
        self._tls = tls
        self._reflection = reflection
        self._principals = principals or Principals()
        self._handlers: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
        self._servers: list[grpc.aio.Server] = []
        self._renewing: asyncio.Task[None] | None = None
        self._request_bytes_max = HEALTH_BYTES_MAX
        self.health = Health()

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method (see the port)."""
        parts = MessageParts(method.request)

        async def answer(data: bytes, context: Any) -> Response | None:  # noqa: ANN401
            asked: Request | _Refusal = _parsed(method, parts, data)
            del data
            if not isinstance(asked, _Refusal):
                try:
                    return await handler(asked, call_context(context, self._principals))
                except Exception as error:
                    asked = _refusal_of(method.name, error)
            # Here neither the request nor the error is held any more: gRPC keeps the exception
            # of an abort in a cycle with these frames, until the next search for cycles.
            await context.abort(asked.code, asked.message)
            return None

        self._add(
            method,
            grpc.unary_unary_rpc_method_handler(
                answer, response_serializer=method.response.SerializeToString
            ),
        )

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method (see the port)."""
        parts = MessageParts(method.request)

        async def answer(_requests: object, context: Any) -> None:  # noqa: ANN401
            stream = GrpcServerStream[Response, Request](context, method, parts)
            await context.send_initial_metadata(((STREAM_TAKEN, "1"),))
            pump = asyncio.ensure_future(stream.read_ahead())
            failed: _Refusal | None = None
            try:
                await handler(stream, call_context(context, self._principals))
            except Exception as error:
                failed = _refusal_of(method.name, error)
            finally:
                pump.cancel()
                await asyncio.wait([pump])
            del stream, pump
            if failed is not None:
                await context.abort(failed.code, failed.message)

        self._add(
            method,
            grpc.stream_stream_rpc_method_handler(
                answer, response_serializer=method.response.SerializeToString
            ),
        )

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (port 0: any free one) and return the port.

        Raises:
            ListenError: The port is in use, or not ours to take.
            TlsError: A certificate file cannot be used.
        """
        server = grpc.aio.server(
            options=server_arguments(self._limits, self._request_bytes_max),
            maximum_concurrent_rpcs=self._limits.max_concurrent_calls,
        )
        for service, handlers in self._handlers.items():
            full_name = f"{PACKAGE}.{service}"
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(full_name, handlers),)
            )
            await self.health.set_serving(full_name, serving=True)
        self.health.add_to(server)
        if self._reflection:
            names = [f"{PACKAGE}.{service}" for service in self._handlers]
            server.add_generic_rpc_handlers(reflection_handlers(names))
        credentials = self._tls.credentials() if self._tls is not None else None
        bound = _bind(server, host, port, credentials)
        self._servers.append(server)  # first: a start that is interrupted is stopped too
        await server.start()
        if self._tls is not None:
            self._renewing = asyncio.create_task(self._tls.renew(host, bound))
        return bound

    async def start_health(self, host: str, port: int) -> int:
        """Listen with health only and without TLS, for Kubernetes' gRPC probes."""
        limits = dataclasses.replace(self._limits, max_connections=HEALTH_CONNECTIONS_MAX)
        server = grpc.aio.server(options=server_arguments(limits, HEALTH_BYTES_MAX))
        self.health.add_to(server)
        bound = _bind(server, host, port, None)
        self._servers.append(server)
        await server.start()
        return bound

    async def stop(self, grace_ms: int) -> None:
        """Refuse new calls, let open ones end for ``grace_ms``, then cancel them.

        A stop that was interrupted goes on with the next one, and its grace.
        """
        await self.health.enter_graceful_shutdown()
        await asyncio.gather(*(server.stop(grace_ms / 1_000) for server in self._servers))
        self._servers.clear()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None

    def _add(self, method: Method[Any, Any], handler: "grpc.RpcMethodHandler[Any, Any]") -> None:
        service, _, name = method.name.partition("/")
        methods = self._handlers.setdefault(service, {})
        if name in methods:
            raise ValueError(f"{method.name} is offered twice")
        methods[name] = handler
        self._request_bytes_max = max(self._request_bytes_max, method.request_bytes_max)


def call_context(context: Any, principals: Principals) -> CallContext:  # noqa: ANN401 - untyped
    """Return who calls, of a servicer context. ``peer`` is unique per connection."""
    metadata = tuple(
        (key, value)
        for key, value in context.invocation_metadata() or ()
        if isinstance(value, str) and not key.startswith(("grpc-", "user-agent"))
    )
    principal = principals.of(context.auth_context(), metadata)
    kept = tuple(pair for pair in metadata if pair[0] != SECRET_HEADER)
    return CallContext(context.peer(), principal, kept)


class _Refusal(NamedTuple):
    """How a call ends that has no answer."""

    code: grpc.StatusCode
    message: str


def _parsed(method: Method[Request, Any], parts: MessageParts, data: bytes) -> Request | _Refusal:
    why = refusal(method, parts, data)
    if why:
        return _Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
    try:
        return method.request.FromString(data)
    except DecodeError:
        full_name = method.request.DESCRIPTOR.full_name
        return _Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"the request is not a {full_name}")


def _refusal_of(method: str, error: Exception) -> _Refusal:
    if isinstance(error, CallFailedError):
        return _Refusal(code_of(error.failure), error.message)
    _log.error("handler of %s failed", method, exc_info=error)
    return _Refusal(code_of(Failure.INTERNAL), f"{type(error).__name__} in the server")


def _bind(
    server: grpc.aio.Server, host: str, port: int, credentials: grpc.ServerCredentials | None
) -> int:
    literal = f"[{host}]" if ":" in host and not host.startswith("[") else host
    address = f"{literal}:{port}"
    _check_free(host, port)
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {address}: {error}") from error


def _check_free(host: str, port: int) -> None:
    """Ask the kernel first: gRPC's own error does not say why."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            raise ListenError(
                f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}; "
                "stop what uses the port or choose another one"
            ) from error
