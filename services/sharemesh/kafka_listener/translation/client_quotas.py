"""DescribeClientQuotas and AlterClientQuotas: Kafka's user ``alice`` is ``User:alice`` here."""

from collections.abc import Iterable

from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import admin_pb2 as pb

_USER = "user"
_PREFIX = "User:"
_WITHOUT_QUOTAS = ("client-id", "ip")
"""Kafka's entities that no quota binds here."""


def describe_request(seen: SeenRequest) -> pb.DescribeClientQuotasRequest:
    """Return our request; a filter for what has no quotas finds nothing."""
    components = seen.message.components
    if any(each.entity_type in _WITHOUT_QUOTAS for each in components):
        return pb.DescribeClientQuotasRequest(strict=True)
    return pb.DescribeClientQuotasRequest(
        components=[
            pb.QuotaFilterComponent(
                entity_type=each.entity_type,
                match=each.match_type,
                match_text=_our_name(each.entity_type, each.match),
            )
            for each in components
        ],
        strict=seen.message.strict,
    )


def describe_answer(_: SeenRequest, response: pb.DescribeClientQuotasResponse) -> Content:
    """Return Kafka's answer."""
    entries = [
        {
            "entity": _told(each.entity),
            "values": [{"key": value.key, "value": value.value} for value in each.values],
        }
        for each in response.entries
    ]
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "error_code": error_code(response.error_code),
        "error_message": response.error_message or None,
        "entries": None if response.error_code else entries,
    }


def describe_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused."""
    refused = pb.DescribeClientQuotasResponse(error_code=code, error_message=message)
    return describe_answer(seen, refused)


def alter_request(seen: SeenRequest) -> pb.AlterClientQuotasRequest:
    """Return our request."""
    return pb.AlterClientQuotasRequest(
        entries=[
            pb.QuotaAlteration(
                entity=_ours(entry.entity),
                ops=[
                    pb.QuotaOperation(key=each.key, value=each.value, remove=each.remove)
                    for each in entry.ops
                ],
            )
            for entry in seen.message.entries
        ],
        validate_only=seen.message.validate_only,
    )


def alter_answer(_: SeenRequest, response: pb.AlterClientQuotasResponse) -> Content:
    """Return Kafka's answer: one result an entity."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "entries": [
            {
                "error_code": error_code(each.error_code),
                "error_message": each.error_message or None,
                "entity": _told(each.entity),
            }
            for each in response.results
        ],
    }


def alter_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    refusals = [
        pb.AlteredQuotas(error_code=code, error_message=message, entity=_ours(each.entity))
        for each in seen.message.entries
    ]
    return alter_answer(seen, pb.AlterClientQuotasResponse(results=refusals))


def _ours(entity: Iterable[KafkaMessage]) -> list[pb.QuotaEntity]:
    return [
        pb.QuotaEntity(
            entity_type=each.entity_type, entity_name=_our_name(each.entity_type, each.entity_name)
        )
        for each in entity
    ]


def _our_name(entity_type: str, name: str | None) -> str | None:
    return f"{_PREFIX}{name}" if entity_type == _USER and name is not None else name


def _told(entity: Iterable[pb.QuotaEntity]) -> list[dict[str, str | None]]:
    return [
        {
            "entity_type": each.entity_type,
            "entity_name": _their_name(each) if each.HasField("entity_name") else None,
        }
        for each in entity
    ]


def _their_name(entity: pb.QuotaEntity) -> str:
    name = entity.entity_name
    return name.removeprefix(_PREFIX) if entity.entity_type == _USER else name
