"""Topics that are those of a Kafka cluster (spec KTP)."""

from dataclasses import dataclass

from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.ports.brokers import Brokers

_DAY_MS = 24 * 60 * 60 * 1_000


@dataclass(frozen=True, slots=True)
class BrokerTopics:
    """A Kafka cluster, and what may be done with its topics.

    Attributes:
        brokers: The cluster.
        attachable: Which of its topics may be attached.
        managed: Whether topics may be created, altered and deleted there.
        grace_ms: For how long group coordinators keep what they know of a topic that has gone.
    """

    brokers: Brokers
    attachable: AttachableTopics
    managed: bool
    grace_ms: int

    @property
    def states_kept_ms(self) -> int:
        """How long share coordinators keep states of a topic that has gone; 0: not (KTP-10).

        A group coordinator forgets a topic after one to two graces of its process. It must not
        count on a state that is gone, also where one process after another began anew meanwhile.
        """
        return 3 * self.grace_ms + _DAY_MS if self.grace_ms else 0
