"""Locks that are handed over, as messages (spec HND)."""

from collections.abc import Iterable

from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import MemberId
from sharemesh.v1.share_coordinator_pb2 import HandedOverLock


def encode_locks(locks: Iterable[HandedLock]) -> list[HandedOverLock]:
    """Return locks as messages."""
    return [HandedOverLock(**lock._asdict()) for lock in locks]


def decode_locks(messages: Iterable[HandedOverLock]) -> tuple[HandedLock, ...]:
    """Return what messages say, checked by nobody yet."""
    return tuple(
        HandedLock(
            MemberId(each.member_id),
            each.first_offset,
            each.last_offset,
            each.delivery_count,
            each.remaining_ms,
            each.leader_epoch,
            each.acquired_at_ms,
            each.hand_backs_left,
            each.principal,
        )
        for each in messages
    )
