"""What a translator is given: a request, and how this process names what it is about."""

from collections.abc import Callable
from dataclasses import dataclass

from sharemesh.domain.ids import TopicId
from sharemesh.kafka.messages import KafkaMessage
from sharemesh.kafka_listener.nodes import KafkaNodes


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request of a version, with the nodes and topics as they were known when it came."""

    version: int
    message: KafkaMessage
    nodes: KafkaNodes
    name_of: Callable[[TopicId], str | None]
