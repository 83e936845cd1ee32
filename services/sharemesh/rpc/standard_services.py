"""What gRPC's own tools ask every server: health and reflection, within our bounds."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from sharemesh.methods import Method, StreamingKind
from sharemesh.ports.network import CallContext, Stream
from sharemesh.rpc.answering import Answering
from sharemesh.rpc.call_refusal import StatusError
from sharemesh.rpc.limits import HEALTH_BYTES_MAX

READINESS = "readiness"
LIVENESS = "liveness"

_HEALTH = "grpc.health.v1.Health"
_REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_CHECK = Method(
    f"{_HEALTH}/Check",
    health_pb2.HealthCheckRequest,
    health_pb2.HealthCheckResponse,
    deadline_ms=10_000,
    idempotent=True,
    request_bytes_max=HEALTH_BYTES_MAX,
)
_WATCH = replace(_CHECK, name=f"{_HEALTH}/Watch", deadline_ms=0, kind=StreamingKind.STREAM)

_HealthStream = Stream[health_pb2.HealthCheckResponse, health_pb2.HealthCheckRequest]
_ReflectionStream = Stream[
    reflection_pb2.ServerReflectionResponse, reflection_pb2.ServerReflectionRequest
]


def reflection_handlers(
    services: Iterable[str], answering: Answering
) -> tuple[grpc.GenericRpcHandler, ...]:
    """Return handlers of both versions; their messages are equal on the wire."""
    names = [*services, _HEALTH, *_REFLECTIONS]
    servicer = reflection.aio.ReflectionServicer(names)

    async def answer(stream: _ReflectionStream, _context: CallContext) -> None:
        async for response in servicer.ServerReflectionInfo(stream, None):
            await stream.send(response)

    handlers = []
    for name in _REFLECTIONS:
        method = Method(
            f"{name}/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest,
            reflection_pb2.ServerReflectionResponse,
            deadline_ms=0,
            idempotent=True,
            kind=StreamingKind.STREAM,
            request_bytes_max=HEALTH_BYTES_MAX,
        )
        answered = {"ServerReflectionInfo": answering.stream_for_all(method, answer, lasts=False)}
        handlers.append(grpc.method_handlers_generic_handler(name, answered))
    return tuple(handlers)


class _HealthContext:
    """What the health servicer uses of gRPC's context."""

    def __init__(self, stream: _HealthStream | None = None) -> None:
        self._stream = stream

    async def write(self, message: health_pb2.HealthCheckResponse) -> None:
        if self._stream is not None:
            await self._stream.send(message)

    async def abort(self, code: grpc.StatusCode) -> NoReturn:
        raise StatusError(code, "no service of that name is offered here")


class Health:
    """Status per service name; ``""`` is the process.

    ``liveness`` serves as long as the loop answers; ``readiness`` starts at NOT_SERVING and is
    for the composition root to switch.
    """

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()
        self._initial = {LIVENESS: True, READINESS: False}

    def handlers(self, answering: Answering) -> grpc.GenericRpcHandler:
        """Return what answers health checks."""
        answered: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Check": answering.unary(_CHECK, self._check),
            "Watch": answering.stream_for_all(_WATCH, self._watch, lasts=True),
        }
        return grpc.method_handlers_generic_handler(_HEALTH, answered)

    async def set_serving(self, service: str, *, serving: bool) -> None:
        """Set one service; watchers are notified. Ignored once shutdown has begun."""
        for name, value in self._initial.items():
            await self._set(name, serving=value)
        self._initial = {}
        await self._set(service, serving=serving)

    async def enter_graceful_shutdown(self) -> None:
        """Set everything to NOT_SERVING for good."""
        await self._servicer.enter_graceful_shutdown()

    async def _set(self, service: str, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse
        await self._servicer.set(service, status.SERVING if serving else status.NOT_SERVING)

    async def _check(
        self, request: health_pb2.HealthCheckRequest, _context: CallContext
    ) -> health_pb2.HealthCheckResponse:
        return await self._servicer.Check(request, _HealthContext())

    async def _watch(self, stream: _HealthStream, _context: CallContext) -> None:
        """Send changes until the watcher leaves; its messages after the request are ignored."""
        request = await anext(aiter(stream), None)
        if request is not None:
            await self._servicer.Watch(request, _HealthContext(stream))
