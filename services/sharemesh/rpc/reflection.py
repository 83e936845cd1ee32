"""Server reflection, so that grpcurl and its kin need no proto files."""

from collections.abc import Iterable

import grpc
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
