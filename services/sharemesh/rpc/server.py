"""The answering side over gRPC."""

import asyncio
import dataclasses
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from sharemesh.methods import Method, Request, Response
from sharemesh.ports.network import CallContext, Stream
from sharemesh.rpc.accepting import grpc_server
from sharemesh.rpc.answering import Answering, RefusedCall
from sharemesh.rpc.carried_calls import CARRY
from sharemesh.rpc.limits import (
    HEALTH_BYTES_MAX,
    HEALTH_CALLS_MAX,
    HEALTH_CONNECTIONS_MAX,
    ServerLimits,
    server_arguments,
)
from sharemesh.rpc.open_calls import OpenCalls
from sharemesh.rpc.receiving_memory import ReceivingMemory
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.standard_services import Health, reflection_handlers
from sharemesh.rpc.tls import Principals

PACKAGE = "sharemesh.v1"


class ListenError(Exception):
    """A port cannot be listened on; the message says which and what to do."""


class GrpcServer:
    """Fills ``ports.network.Listener`` with grpc.aio; offer everything, then ``start``.

    Health (``grpc.health.v1``) starts with every offered service at SERVING, and ``readiness``
    as ``health`` is set. Reflection (v1 and v1alpha) is on unless switched off.
    """

    def __init__(
        self,
        *,
        limits: ServerLimits | None = None,
        tls: ServerCertificates | None = None,
        reflection: bool = True,
        principals: Principals | None = None,
        on_refused: RefusedCall | None = None,
        memory: ReceivingMemory | None = None,
    ) -> None:
        self._limits = limits or ServerLimits()
        self._tls = tls
        self._reflection = reflection
        principals = principals or Principals()
        open_calls = OpenCalls(self._limits, principals.own)
        self._answering = Answering(principals, open_calls, on_refused, memory, self._limits)
        self._handlers: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
        self._servers: list[grpc.aio.Server] = []
        self._renewing: asyncio.Task[None] | None = None
        self._request_bytes_max = max(HEALTH_BYTES_MAX, CARRY.request_bytes_max)
        self.health = Health()

    def offer(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, CallContext], Awaitable[Response]],
    ) -> None:
        """Answer a unary method (see the port)."""
        self._add(method, self._answering.unary(method, handler))

    def offer_stream(
        self,
        method: Method[Request, Response],
        handler: Callable[[Stream[Response, Request], CallContext], Awaitable[None]],
    ) -> None:
        """Answer a stream method (see the port)."""
        self._add(method, self._answering.stream(method, handler))

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (port 0: any free one) and return the port.

        Raises:
            ListenError: The port is in use, or not ours to take.
            TlsError: A certificate file cannot be used.
        """
        server = grpc_server(
            options=server_arguments(self._limits, self._request_bytes_max),
            maximum_concurrent_rpcs=self._limits.max_concurrent_calls + self._limits.reserved_calls,
        )
        for service, handlers in self._handlers.items():
            full_name = f"{PACKAGE}.{service}"
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(full_name, handlers),)
            )
            await self.health.set_serving(full_name, serving=True)
        service, _, name = CARRY.name.partition("/")
        carrier = {name: self._answering.carrier()}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(f"{PACKAGE}.{service}", carrier),)
        )
        server.add_generic_rpc_handlers((self.health.handlers(self._answering),))
        if self._reflection:
            names = [f"{PACKAGE}.{service}" for service in self._handlers]
            server.add_generic_rpc_handlers(reflection_handlers(names, self._answering))
        credentials = self._tls.credentials() if self._tls is not None else None
        bound = _bind(server, host, port, credentials)
        self._servers.append(server)  # first: a start that is interrupted is stopped too
        await server.start()
        if self._tls is not None:
            self._renewing = asyncio.create_task(self._tls.renew(host, bound))
        return bound

    async def start_health(self, host: str, port: int) -> int:
        """Listen with health only and without TLS, for Kubernetes' gRPC probes."""
        limits = dataclasses.replace(
            self._limits,
            max_connections=HEALTH_CONNECTIONS_MAX,
            max_concurrent_calls=HEALTH_CALLS_MAX,
            max_principal_calls=HEALTH_CALLS_MAX,
        )
        server = grpc_server(
            options=server_arguments(limits, HEALTH_BYTES_MAX),
            maximum_concurrent_rpcs=limits.max_concurrent_calls,
        )
        answering = Answering(Principals(), OpenCalls(limits))
        server.add_generic_rpc_handlers((self.health.handlers(answering),))
        bound = _bind(server, host, port, None)
        self._servers.append(server)
        await server.start()
        return bound

    async def stop(self, grace_ms: int) -> None:
        """Refuse new calls, let open ones end for ``grace_ms``, then cancel them.

        A stop that was interrupted resumes with the next one, and its grace.
        """
        await self.health.enter_graceful_shutdown()
        self._answering.stop_carrying()
        await asyncio.gather(*(server.stop(grace_ms / 1_000) for server in self._servers))
        self._servers.clear()
        self._answering.close()
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
