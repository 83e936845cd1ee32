"""Topics that are those of a Kafka cluster (spec KTP)."""

from dataclasses import dataclass

from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.ports.brokers import Brokers


@dataclass(frozen=True, slots=True)
class BrokerTopics:
    """A Kafka cluster, and what may be done with its topics.

    Attributes:
        brokers: The cluster.
        attachable: Which of its topics may be attached.
        managed: Whether topics may be created, altered and deleted there.
        grace_ms: For how long delivery states of a topic that has gone are kept.
    """

    brokers: Brokers
    attachable: AttachableTopics
    managed: bool
    grace_ms: int
