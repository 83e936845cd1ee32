"""Partitions of a session whose locks live on at the next leader (spec HND-9 to HND-11)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sharemesh.client.consumer.deliveries import PartitionAcknowledgements
from sharemesh.client.records import TopicIdPartition

if TYPE_CHECKING:
    from sharemesh.client.consumer.consume_stream import LeaderSession

FOLLOW_MS = 10_000
"""So long a session looks for the next leader of a partition that was handed over (HND-11)."""


@dataclass(slots=True)
class _Followed:
    """Where the records of one partition are acknowledged; None: it is not known yet.

    It concerns what was held here up to ``leader_epoch``: the partition may come back. At ``to``
    it is held in ``to_epoch`` or later.
    """

    source: TopicIdPartition
    leader_epoch: int
    until_ms: int
    to: "LeaderSession | None" = None
    to_epoch: int = 0
    parked: list[PartitionAcknowledgements] = field(default_factory=list)

    def way(self) -> "LeaderSession | None":
        """Return the session with the next leader; one that never had the locks leads nowhere."""
        if self.to is not None and self.to.never_had(self.source):
            self.to = None
        return self.to


class HandedOver:
    """Of one session: which partitions were handed over, and to which session they lead.

    Locks are where the partition is led now, so of several hand-overs only the last one counts.
    Each step of the way leads to a higher leader epoch, also where it leads back.
    """

    def __init__(self) -> None:
        self._followed: dict[TopicIdPartition, _Followed] = {}

    def holds(self, source: TopicIdPartition, leader_epoch: int) -> bool:
        """Return whether what was held here in a leader epoch lives on elsewhere."""
        followed = self._followed.get(source)
        return followed is not None and leader_epoch <= followed.leader_epoch

    def leader_epoch(self, source: TopicIdPartition) -> int:
        """Return the last leader epoch here of what was handed over; 0: it was not."""
        followed = self._followed.get(source)
        return 0 if followed is None else followed.leader_epoch

    def looks_for_next(self, source: TopicIdPartition) -> bool:
        """Return whether a partition was handed over to a leader that is not known yet."""
        followed = self._followed.get(source)
        return followed is not None and followed.way() is None

    def begin(self, source: TopicIdPartition, leader_epoch: int, until_ms: int) -> None:
        """Keep what is said of a partition until its next leader is known, or until then."""
        before = self._followed.get(source)
        if before is None or before.leader_epoch < leader_epoch:
            followed = self._followed[source] = _Followed(source, leader_epoch, until_ms)
            if before is not None:
                followed.parked = before.parked

    def until_ms(self, source: TopicIdPartition) -> int:
        """Return until when acknowledgements that the next leader refuses are sent again."""
        followed = self._followed[source]
        to = followed.way()
        farther_ms = 0 if to is None else to.follows_until_ms(source, followed.to_epoch)
        return max(followed.until_ms, farther_ms)

    def is_open_for(self, source: TopicIdPartition) -> bool:
        """Return whether records of a partition that was handed over can be acknowledged."""
        followed = self._followed[source]
        to = followed.way()
        return to is None or to.is_open_for(source, followed.to_epoch)

    def take(
        self,
        acknowledgements: Sequence[PartitionAcknowledgements],
        *,
        may_wait: bool,
        held_in: int = 0,
    ) -> list[PartitionAcknowledgements]:
        """Pass on, or keep, what belongs elsewhere; return the others."""
        if not self._followed:
            return list(acknowledgements)
        own: list[PartitionAcknowledgements] = []
        for each in acknowledgements:
            followed = self._followed.get(each.source)
            if followed is None or (held_in or each.leader_epoch) > followed.leader_epoch:
                own.append(each)
            elif (to := followed.way()) is None:
                followed.parked.append(each)
            else:
                to.acknowledge([each], may_wait=may_wait, held_in=followed.to_epoch)
        return own

    def lead(self, source: TopicIdPartition, to: "LeaderSession", to_epoch: int) -> None:
        """Send what waits, and all that follows, to a session with the next leader."""
        followed = self._followed[source]
        followed.to, followed.to_epoch = to, to_epoch
        parked, followed.parked = followed.parked, []
        if parked:
            to.acknowledge(parked, held_in=to_epoch)

    def look_further(self, source: TopicIdPartition, leader_epoch: int, until_ms: int) -> bool:
        """Return whether another leader is looked for, as one leads in that epoch (HND-11).

        It is if the one that is known did not say that it handed locks over: it may have had none,
        as nobody asked it for the share partition. What is said meanwhile waits.
        """
        followed = self._followed.get(source)
        to = None if followed is None else followed.way()
        if followed is None or to is None or leader_epoch <= followed.to_epoch:
            return False
        if to.is_handed_over(source, followed.to_epoch):
            return False
        followed.to, followed.until_ms = None, max(followed.until_ms, until_ms)
        return True

    def give_up(self, source: TopicIdPartition) -> list[PartitionAcknowledgements]:
        """Forget a partition whose next leader was not found; return what waited for it."""
        return self._followed.pop(source).parked

    def sessions(self) -> Iterator["LeaderSession"]:
        """Yield the sessions with the next leaders: they hear that this member goes on."""
        for followed in self._followed.values():
            if followed.to is not None:
                yield followed.to
