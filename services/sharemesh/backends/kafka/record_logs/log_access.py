"""What everything about the record logs of a process needs."""

from dataclasses import dataclass

from sharemesh.backends.kafka.record_logs.settings import TopicLogBounds
from sharemesh.ports.brokers import Brokers
from sharemesh.ports.clock import Clock
from sharemesh.tasks import OwnedTasks


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The cluster, time, the owner of background tasks, and the bounds."""

    brokers: Brokers
    clock: Clock
    tasks: OwnedTasks
    bounds: TopicLogBounds
