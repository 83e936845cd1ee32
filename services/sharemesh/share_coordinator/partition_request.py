"""One share partition of a request, on its way through the service."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.results import StateDecision, StateResult


@dataclass(slots=True)
class PartitionRequest:
    """One share partition of a request: its key, its part of the message, and its answer."""

    key: SharePartitionKey
    item: Any
    answer: StateResult = field(default_factory=StateResult)


class Decide(Protocol):
    """A request on one share partition, against the machine of its shard."""

    def __call__(
        self, machine: ShareStateMachine, asked: PartitionRequest, *, in_metadata: bool, now_ms: int
    ) -> StateDecision:
        """Return the outcome; it must not change the machine."""
        ...
