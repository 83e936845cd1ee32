"""docs/reference/kafka-requests.md: the requests of Kafka's protocol that the listener answers."""

from deploy.pages import REFERENCE
from sharemesh import methods
from sharemesh.kafka_listener.plain_requests import PLAIN_REQUESTS
from sharemesh.kafka_listener.served_requests import ServedRequest

PAGE = REFERENCE / "kafka-requests.md"

HEAD = """# Requests of Kafka's clients

This page is made from the code: `make docs` writes it, and a test fails when it does not fit.

What the [listener](../guides/kafka-clients.md) answers, in which versions; all others are not told
by ApiVersions, and a connection that asks one is closed. **Not there: consumer groups (JoinGroup
and what belongs to it, OffsetCommit, OffsetFetch, ConsumerGroupHeartbeat), transactions
(AddPartitionsToTxn, EndTxn, TxnOffsetCommit), the protocol between brokers, delegation tokens,
telemetry, reassignments by hand.** The method beside a request is the one of [gRPC](grpc.md) that
answers it, and whose [permission](permissions.md) it needs.

| key | request | versions | method |
|---|---|---|---|
"""

_METHODS = {
    ServedRequest.PRODUCE: (methods.PRODUCE,),
    ServedRequest.FETCH: (methods.FETCH,),
    ServedRequest.LIST_OFFSETS: (methods.LIST_OFFSETS,),
    ServedRequest.METADATA: (methods.METADATA,),
    ServedRequest.FIND_COORDINATOR: (methods.FIND_COORDINATOR,),
    ServedRequest.INIT_PRODUCER_ID: (methods.INIT_PRODUCER_ID,),
    ServedRequest.DESCRIBE_CONFIGS: (methods.DESCRIBE_CONFIGS, methods.DESCRIBE_GROUP_CONFIGS),
    ServedRequest.INCREMENTAL_ALTER_CONFIGS: (methods.ALTER_CONFIGS, methods.ALTER_GROUP_CONFIGS),
    ServedRequest.DESCRIBE_CLUSTER: (methods.METADATA,),
    ServedRequest.DESCRIBE_TOPIC_PARTITIONS: (methods.METADATA,),
    ServedRequest.SHARE_GROUP_HEARTBEAT: (methods.SHARE_GROUP_HEARTBEAT,),
    ServedRequest.SHARE_FETCH: (methods.SHARE_FETCH,),
    ServedRequest.SHARE_ACKNOWLEDGE: (methods.SHARE_ACKNOWLEDGE,),
    **{request: (plain.method,) for request, plain in PLAIN_REQUESTS.items()},
}


def page() -> str:
    """Return the page."""
    return HEAD + "".join(map(_row, ServedRequest))


def _row(request: ServedRequest) -> str:
    lowest, highest = request.lowest, request.highest
    versions = str(lowest) if lowest == highest else f"{lowest} to {highest}"
    names = ", ".join(f"`{each.name}`" for each in _METHODS.get(request, ()))
    return f"| {request.key} | {request.label} | {versions} | {names} |\n"
