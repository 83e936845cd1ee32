"""What a share partition asks its runner to do, to be carried out in the order returned.

What comes once for each call of a member is a named tuple, as in ``events``.
"""

from dataclasses import dataclass
from typing import NamedTuple

from sharemesh.domain.delivery_state import Cause
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import MemberId
from sharemesh.domain.state_batch import StateBatch


@dataclass(frozen=True, slots=True)
class ReadState:
    """Read the durable state with this leader epoch, then send ``StateRead`` (spec INI-2)."""

    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ResolveStartOffset:
    """Look up the offset that ``share.auto.offset.reset`` means, then send the answer (INI-4)."""

    auto_offset_reset: str


@dataclass(frozen=True, slots=True)
class Initialized:
    """Initialization ended; ``error`` is NONE or what the client sees (spec INI-13, PER-8)."""

    error: ErrorCode
    message: str = ""


class WriteState(NamedTuple):
    """Make these batches durable, then send ``StateWritten`` (spec PER-1, PER-2).

    If ``is_delayed``, some have a not-before, which is monotonic time here (RTY-7). ``hand_over``
    are locks for the next leader, with the last write of this one (``is_last``, HND-5). The
    count of one that ``is_recount`` replaces the stored one, also if it is lower (ACK-23).
    """

    write_id: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    cause: Cause
    member_id: MemberId
    is_delayed: bool = False
    hand_over: tuple[HandedLock, ...] = ()
    is_last: bool = False
    is_recount: bool = False


class AcquiredRun(NamedTuple):
    """Offsets that one member now holds, all delivered for the same time."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class RecordsAcquired:
    """Answer to ``Acquire``; no ranges means nothing could be acquired.

    ``count`` is offsets acquired, gaps included, aborted ones not (spec ACQ-21, as traced).
    ``throttled``: suspicious records ended it early (THR-3, THR-4); what follows is for a later
    delivery, not for the same one.
    """

    request_id: int
    ranges: tuple[AcquiredRun, ...]
    count: int
    throttled: bool = False


class Answered(NamedTuple):
    """Final answer to ``Acknowledge`` or ``ReleaseMember``."""

    request_id: int
    error: ErrorCode
    message: str = ""


class Lapse(NamedTuple):
    """A member let locks end that it had got or renewed at ``since_ms``, the last time (HBK-10)."""

    member_id: MemberId
    since_ms: int


@dataclass(frozen=True, slots=True)
class LocksExpired:
    """That many records lost their acquisition lock (spec LK-10); one lapse a member."""

    record_count: int
    lapses: tuple[Lapse, ...] = ()


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a ``Tick`` at this monotonic time; replaces the wake-up asked for before.

    Only the earliest deadline is asked for; ``None`` means that no lock is running and no record
    is delayed.
    """

    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class WakeWaiters:
    """Waiting fetches on this share partition should try again (spec DF-5)."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Forget this machine; the next fetch makes a new one from durable state (spec PER-9).

    It is FENCED or FAILED, or a write failed so that it must no longer be used: then send
    ``Fence``, which the machine leaves to its runner.
    """

    error: ErrorCode


Effect = (
    ReadState
    | ResolveStartOffset
    | Initialized
    | WriteState
    | RecordsAcquired
    | Answered
    | LocksExpired
    | WakeAt
    | WakeWaiters
    | Dropped
)
