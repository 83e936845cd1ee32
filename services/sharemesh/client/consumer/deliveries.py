"""What passes between the application's side and the network's side of a consumer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from sharemesh.client.consumer.payload import Payload
from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import AcquiredRange, TopicIdPartition
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
    """Records of one partition as a leader sent them, or a part of them; not decoded here.

    ``expires_ms`` is when their acquisition locks end, by this client's clock. ``waited_ms`` is
    the time since records were asked for; None if an earlier delivery was the first since then.
    """

    source: TopicIdPartition
    route: Route
    payload: Payload
    acquired: tuple[AcquiredRange, ...]
    leader_epoch: int
    lock_timeout_ms: int
    expires_ms: int
    waited_ms: int | None = None

    @property
    def record_count(self) -> int:
        """AcquiredRange offsets, gaps included."""
        return sum(run.last_offset - run.first_offset + 1 for run in self.acquired)

    def offsets(self) -> Iterator[int]:
        """Yield each acquired offset, gaps included."""
        for run in self.acquired:
            yield from range(run.first_offset, run.last_offset + 1)

    def split(self, count: int) -> "tuple[Delivery, Delivery]":
        """Return the first ``count`` acquired offsets, from 1 to all but one, and the rest."""
        head: list[AcquiredRange] = []
        tail: list[AcquiredRange] = []
        for run in self.acquired:
            size = run.last_offset - run.first_offset + 1
            if count >= size:
                head.append(run)
            elif count <= 0:
                tail.append(run)
            else:
                border = run.first_offset + count
                head.append(replace(run, last_offset=border - 1))
                tail.append(replace(run, first_offset=border))
            count -= size
        rest = replace(self, acquired=tuple(tail), waited_ms=None)
        return replace(self, acquired=tuple(head)), rest

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
    ``uncounted`` ones are all RELEASE of records that nobody saw (spec HBK-1).
    """

    source: TopicIdPartition
    route: Route
    leader_epoch: int
    types: Mapping[int, AcknowledgeType]
    ticket: int = 0
    deadline_ms: int = 0
    untold: bool = False
    uncounted: bool = False

    @property
    def is_renew(self) -> bool:
        """Whether a RENEW is among them."""
        return AcknowledgeType.RENEW in self.types.values()


@dataclass(frozen=True, slots=True)
class AcknowledgementResult:
    """What became of acknowledgements; ``error`` is None when the leader confirmed them."""

    acknowledgements: PartitionAcknowledgements
    error: SharemeshError | None
    lock_timeout_ms: int
