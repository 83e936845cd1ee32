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
    ServedRequest.DELETE_RECORDS,
    ServedRequest.ALTER_SHARE_GROUP_OFFSETS,
)
_LISTS = (
    "topics",
    "topic_names",
    "coordinator_keys",
    "group_ids",
    "groups_names",
    "resources",
    "resource_types",
    "creations",
    "filters",
    "components",
    "users",
    "deletions",
    "upsertions",
)


def parts_named(request: ServedRequest, message: KafkaMessage) -> int:
    """Return how many parts a request names (spec KLS-4).

    One whose answer, even a refusal, would take seconds to write is refused.

    Raises:
        RefusedFrameError: It names more than ``PARTS_MAX``.
    """
    count = _count(request, message)
    if count > PARTS_MAX:
        raise RefusedFrameError(
            "too_many_parts",
            f"its request {request.label} names {count} topics, partitions or keys; at most "
            f"{PARTS_MAX} are answered",
            beyond_bound=request.label,
        )
    return count


def _count(request: ServedRequest, message: KafkaMessage) -> int:
    if request is ServedRequest.PRODUCE:
        data = message.topic_data
        return len(data) + sum(len(topic.partition_data) for topic in data)
    if request in _WITH_PARTITIONS:
        return len(message.topics) + sum(len(topic.partitions) for topic in message.topics)
    if request is ServedRequest.DESCRIBE_SHARE_GROUP_OFFSETS:
        topics = [topic for group in message.groups for topic in group.topics or ()]
        return len(message.groups) + len(topics) + sum(len(each.partitions) for each in topics)
    if request is ServedRequest.ALTER_CLIENT_QUOTAS:
        return sum(1 + len(each.entity) + len(each.ops) for each in message.entries)
    return sum(len(getattr(message, each, None) or ()) for each in _LISTS)
