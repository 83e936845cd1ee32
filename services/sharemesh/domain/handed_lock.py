"""An acquisition lock on its way from a leader that drains to the next one (spec HND)."""

from typing import NamedTuple

from sharemesh.domain.ids import MemberId

HANDED_LOCKS_MAX = 10_000
"""Locks of one share partition that a leader hands over; those beyond lapse (HND-8)."""

HANDED_BYTES_MAX = 3 * 512 * 1024
"""Their size, so that they fit into one request; those beyond lapse, too (HND-8)."""

_NUMBERS_BYTES = 64  # of one lock: what is not a name, and the lengths of the names


class HandedLock(NamedTuple):
    """Neighbouring records that one member holds, all delivered and acquired alike.

    Attributes:
        member_id: Who holds them.
        first_offset: The first of them.
        last_offset: The last of them.
        delivery_count: Of the delivery that it holds.
        remaining_ms: How long the lock still runs, whoever's clock it is.
        leader_epoch: In which it was acquired; it stays so over further hand-overs.
        acquired_at_ms: Wall time of the acquisition; 0: not known (EXP-9).
        hand_backs_left: How often the records may still be released uncounted (HBK-4, HBK-5).
        principal: Whose member it was: nobody else may speak for it (HND-10).
    """

    member_id: MemberId
    first_offset: int
    last_offset: int
    delivery_count: int
    remaining_ms: int
    leader_epoch: int
    acquired_at_ms: int = 0
    hand_backs_left: int = 0
    principal: str = ""

    @property
    def size_bytes(self) -> int:
        """About how much it takes on its way, no less."""
        names = len(self.member_id.encode()) + len(self.principal.encode())
        return _NUMBERS_BYTES + names
