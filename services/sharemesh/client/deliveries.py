"""What passes between the application's side and the network's side of a consumer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import Acquired, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType


class Route(Protocol):
    """The share session that acquired records; their acknowledgements go there and nowhere else."""

    @property
    def address(self) -> str:
        """Where the leader is reached."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the session can still take acknowledgements."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """Records of one partition as a leader sent them, not yet decoded.

    ``expires_ms`` is when their acquisition locks end, by this client's clock. ``waited_ms`` is
    the time since records were asked for; None if an earlier delivery was the first since then.
    """

    source: TopicIdPartition
    route: Route
    records: bytes
    acquired: tuple[Acquired, ...]
    leader_epoch: int
    lock_timeout_ms: int
    expires_ms: int
    waited_ms: int | None = None

    @property
    def record_count(self) -> int:
        """Acquired offsets, gaps included."""
        return sum(run.last_offset - run.first_offset + 1 for run in self.acquired)

    def overlaps(self, first_offset: int, last_offset: int) -> bool:
        """Whether an offset of ``first_offset..last_offset``, both included, is acquired here."""
        return any(
            run.first_offset <= last_offset and first_offset <= run.last_offset
            for run in self.acquired
        )


@dataclass(frozen=True, slots=True)
class PartitionAcknowledgements:
    """Acknowledge types by offset of one partition, for the session that acquired them.

    ``ticket`` names the commit that waits for them (0: none); a refusal that may pass is tried
    again until ``deadline_ms`` of the client's clock (0: not tried again, spec CL-22).
    Of ``untold`` ones nobody is told the result: the application did not ask for them, as when
    records that it never saw are given back, or locks are renewed while its handlers run.
    """

    source: TopicIdPartition
    route: Route
    leader_epoch: int
    types: Mapping[int, AcknowledgeType]
    ticket: int = 0
    deadline_ms: int = 0
    untold: bool = False

    @property
    def is_renew(self) -> bool:
        """Whether a RENEW is among them."""
        return AcknowledgeType.RENEW in self.types.values()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of acknowledgements; ``error`` is None when the leader confirmed them."""

    acknowledgements: PartitionAcknowledgements
    error: SharemeshError | None
    lock_timeout_ms: int
