"""What the records of one run have in common."""

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cache.locks import Lock

NO_MEMBER = MemberId("")  # spec RS-15

HAND_BACKS_MAX = 1_000
"""Uncounted releases of a record in a row; the next one counts (HBK-5)."""

_AVAILABLE = DeliveryState.AVAILABLE
_ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
_ARCHIVED = DeliveryState.ARCHIVED


class RecordStatus:
    """State, delivery count, owner, lock and transition; never changed once made, and shared.

    Runs compare statuses by identity, so one object stands for as many records as possible.

    Attributes:
        write_id: The write that a transition waits for, or None (spec RS-9).
        saved: What the record returns to if that write fails (RS-10); None with a ``write_id``
            means that it was archived meanwhile and stays so (RS-14).
        acquirable: AVAILABLE and not in transition (OFF-5).
        done: Terminal and not in transition, so that the start offset may pass (OFF-7).
        terminal: ACKNOWLEDGED or ARCHIVED, in transition or not (VOC-13).
        hand_backs_left: How often it may still be released uncounted: 0 also if nobody knows
            whether its count is stored (HBK-4).
    """

    __slots__ = (
        "acquirable",
        "delivery_count",
        "done",
        "hand_backs_left",
        "lock",
        "member_id",
        "saved",
        "state",
        "terminal",
        "write_id",
    )

    def __init__(
        self,
        state: DeliveryState,
        delivery_count: int,
        member_id: MemberId = NO_MEMBER,
        lock: Lock | None = None,
        write_id: int | None = None,
        saved: "RecordStatus | None" = None,
        hand_backs_left: int = HAND_BACKS_MAX,
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        self.write_id = write_id
        self.saved = saved
        self.hand_backs_left = hand_backs_left
        self.terminal = terminal = state is _ACKNOWLEDGED or state is _ARCHIVED
        self.done = terminal and write_id is None
        self.acquirable = state is _AVAILABLE and write_id is None

    def __repr__(self) -> str:
        transition = "" if self.write_id is None else f" in write {self.write_id}"
        return f"<{self.state.name}({self.delivery_count}) {self.member_id}{transition}>"


class SettledStatuses:
    """One shared status for all records alike that have no owner, lock and transition."""

    __slots__ = ("_statuses",)

    def __init__(self) -> None:
        self._statuses: dict[tuple[DeliveryState, int, int], RecordStatus] = {}

    def get(
        self, state: DeliveryState, delivery_count: int, hand_backs_left: int = HAND_BACKS_MAX
    ) -> RecordStatus:
        """Return the shared status."""
        key = (state, delivery_count, hand_backs_left)
        status = self._statuses.get(key)
        if status is None:
            status = self._statuses[key] = RecordStatus(
                state, delivery_count, hand_backs_left=hand_backs_left
            )
        return status
