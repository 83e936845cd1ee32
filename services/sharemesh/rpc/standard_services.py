"""The services that every gRPC server is expected to have: health and reflection."""

from collections.abc import Iterable

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

_SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


def reflection_handlers(services: Iterable[str]) -> tuple[grpc.GenericRpcHandler, ...]:
    """Return handlers of both versions; their messages are equal on the wire."""
    names = [*services, "grpc.health.v1.Health", *_SERVICES]
    servicer = reflection.aio.ReflectionServicer(names)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return tuple(
        grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": handler})
        for name in _SERVICES
    )


READINESS = "readiness"
LIVENESS = "liveness"


class Health:
    """Status per service name; ``""`` is the process.

    ``liveness`` serves as long as the loop answers; ``readiness`` starts at NOT_SERVING and is
    for the composition root to switch.
    """

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()
        self._initial = {LIVENESS: True, READINESS: False}

    def add_to(self, server: grpc.aio.Server) -> None:
        """Let a server answer health checks."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set_serving(self, service: str, *, serving: bool) -> None:
        """Set one service; watchers hear of it. Ignored once shutdown has begun."""
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
