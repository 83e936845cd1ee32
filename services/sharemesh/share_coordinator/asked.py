"""One share partition of a request, on its way through the service."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.answers import Answer, Outcome
from sharemesh.domain.share_state.machine import ShareStateMachine


@dataclass(slots=True)
class Asked:
    """One share partition of a request: its key, its part of the message, and its answer."""

    key: SharePartitionKey
    item: Any
    answer: Answer = field(default_factory=Answer)


class Decide(Protocol):
    """A request on one share partition, against the machine of its shard."""

    def __call__(
        self, machine: ShareStateMachine, asked: Asked, *, in_metadata: bool, now_ms: int
    ) -> Outcome:
        """Return the outcome; it must not change the machine."""
        ...
