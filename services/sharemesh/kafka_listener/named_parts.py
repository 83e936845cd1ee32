"""How many topics, partitions and keys a request names: its answer has an entry for each."""

from sharemesh.kafka.messages import KafkaMessage
from sharemesh.kafka_listener.frames import RefusedFrameError
from sharemesh.kafka_listener.limits import PARTS_MAX
from sharemesh.kafka_listener.served_requests import ServedRequest

_WITH_PARTITIONS = (
    ServedRequest.FETCH,
    ServedRequest.LIST_OFFSETS,
    ServedRequest.SHARE_FETCH,
    ServedRequest.SHARE_ACKNOWLEDGE,
)


def check_parts_named(request: ServedRequest, message: KafkaMessage) -> None:
    """Refuse a request whose answer, even a refusal, would take seconds to write (spec KLS-4).

    Raises:
        RefusedFrameError: It names more than ``PARTS_MAX``.
    """
    count = _count(request, message)
    if count > PARTS_MAX:
        raise RefusedFrameError(
            "too_many_parts",
            f"its request {request.label} names {count} topics, partitions or keys; at most "
            f"{PARTS_MAX} are answered",
        )


def _count(request: ServedRequest, message: KafkaMessage) -> int:
    if request is ServedRequest.PRODUCE:
        data = message.topic_data
        return len(data) + sum(len(topic.partition_data) for topic in data)
    if request in _WITH_PARTITIONS:
        return len(message.topics) + sum(len(topic.partitions) for topic in message.topics)
    if request is ServedRequest.METADATA:
        return len(message.topics or ())
    return len(getattr(message, "coordinator_keys", ()))
