"""What can happen to a share partition: the only arguments of ``SharePartition.step``.

Offsets are inclusive at both ends. ``request_id`` is chosen by the runner, unique within one
machine, and comes back in the effect that answers. What comes once for each call of a member is a
named tuple, which costs half of a frozen dataclass to make.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig, IsolationLevel
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import MemberId
from sharemesh.domain.packed_batches import StateBatches
from sharemesh.domain.quota.counts import HeldRecords
from sharemesh.domain.state_batch import NO_COUNT


class Lifecycle(StrEnum):
    """EMPTY, INITIALIZING, then ACTIVE or FAILED; any to FENCED (spec IFB-6)."""

    EMPTY = "EMPTY"
    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    FENCED = "FENCED"


class AcquireMode(IntEnum):
    """``share.acquire.mode`` (spec ACQ-8..20)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class LogBatch(NamedTuple):
    """The header of one record batch that was read from the log, nothing of its records."""

    base_offset: int
    last_offset: int
    producer_id: int = -1
    is_transactional: bool = False
    is_control: bool = False
    is_abort_marker: bool = False


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """From the aborted index: this producer's records from ``first_offset`` on (spec ISO-2)."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Initialize:
    """Somebody needs the share partition: EMPTY goes to INITIALIZING (spec INI-3)."""


def uncounted(_: str) -> HeldRecords | None:
    """Count the records of nobody: no quota bounds them."""
    return None


@dataclass(frozen=True, slots=True)
class StateRead:
    """The share coordinator answered the read (spec INI-4..13).

    The not-before of a batch is monotonic time here, 0 if it has passed (RTY-8). ``handed_over``
    are the locks that the leader before handed over to this one, ascending (HND-7); ``tally_of``
    counts those of a principal, if a quota bounds its records (QUO-12). The delivery-complete count
    is the stored one; NO_COUNT also where the share coordinator does not tell it (ACK-23).
    """

    error: ErrorCode
    state_epoch: int = 0
    start_offset: int = -1
    batches: StateBatches = ()
    message: str = ""
    handed_over: tuple[HandedLock, ...] = ()
    tally_of: Callable[[str], HeldRecords | None] = uncounted
    delivery_complete_count: int = NO_COUNT


@dataclass(frozen=True, slots=True)
class StartOffsetResolved:
    """The log answered ``ResolveStartOffset`` (spec INI-4); an error fails the partition."""

    start_offset: int
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class Acquire(NamedTuple):
    """A member takes records out of what was read at ``fetch_offset`` (spec ACQ)."""

    request_id: int
    member_id: MemberId
    mode: AcquireMode
    batch_size: int
    max_fetch_records: int
    fetch_offset: int
    log_batches: tuple[LogBatch, ...]
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    aborted: tuple[AbortedTransaction, ...] = ()
    tally: HeldRecords | None = None  # counts what is held, for a quota (QUO-12)
    acquired_at_ms: int = 0  # wall time, for the audit trail; 0: not known (EXP-9)


class AcknowledgementBatch(NamedTuple):
    """One type for the whole range, or one type per offset (spec ACK-1).

    Types are plain ints: an unknown one is refused by the machine (spec ACK-3). ``uncounted``:
    released without having been handed out, so that the delivery does not count (HBK-1).
    ``delivery_count``: that of the delivery which is acknowledged; 0: whichever it is (HBK-7).
    ``delay_ms``: of a RELEASE; None: the group's back-off (RTY-1, RTY-4).
    """

    first_offset: int
    last_offset: int
    types: tuple[AcknowledgeType | int, ...]
    uncounted: bool = False
    delivery_count: int = 0
    delay_ms: int | None = None


class Acknowledge(NamedTuple):
    """A member says what became of records it holds; all or nothing (spec ACK).

    ``draw`` is chance, from -1 to 1, for the jitter of the group's back-off (RTY-4).
    ``acquired_in`` is the earlier leader epoch in which they were acquired; 0: this one. Only with
    an earlier one it matters which ``principal`` speaks (HND-10).
    """

    request_id: int
    member_id: MemberId
    batches: tuple[AcknowledgementBatch, ...]
    draw: float = 0.0
    acquired_in: int = 0
    principal: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseMember:
    """The session of a principal's member ended: all that it holds is released (spec REL)."""

    request_id: int
    member_id: MemberId
    principal: str = ""


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """The log now starts at ``log_start_offset`` (spec OFF-17..22)."""

    log_start_offset: int


@dataclass(frozen=True, slots=True)
class LogHole:
    """A read from ``first_offset`` on began behind ``last_offset``: nothing lies between (OFF-23).

    Comes before the ``Acquire`` of that read. It is true for ever, so it may come late.
    """

    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class NothingAcquired:
    """A read went by without a record for anybody: no write follows from it (OFF-24)."""


class StateWritten(NamedTuple):
    """The share coordinator answered a ``WriteState`` (spec ACK-18, ACK-19, LK-6)."""

    write_id: int
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    keeps_locks: bool = False  # the share coordinator keeps what ``HandOver`` sent (HND-5)


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; locks may have expired (spec LK).

    ``lock_limit`` bounds the work of one step: at most that many locks expire (a lock is that of
    a whole batch, or of one offset of a batch that is tracked per offset); if more are due, the
    next ``WakeAt`` lies in the past. None expires all that are due. It bounds the delayed runs
    that become available, too. ``draw`` is that of ``Acknowledge``, for what expires (RTY-6).
    """

    lock_limit: int | None = None
    draw: float = 0.0


@dataclass(frozen=True, slots=True)
class WriteAgain:
    """Some time has passed since the write of expired locks failed: it is tried again (LK-6)."""


@dataclass(frozen=True, slots=True)
class Configure:
    """The group's settings changed; they hold from now on (spec RS-8, LK-1, ISO-5)."""

    config: GroupConfig


@dataclass(frozen=True, slots=True)
class HandOver:
    """This leader decides nothing more; the locks of members that go on are sent away (HND-5).

    ``goes_on`` returns the principal of one that does, else "". If the next leader awaits the last
    write (``is_awaited``), there is one also where nobody holds a lock (HND-13).
    """

    goes_on: Callable[[MemberId], str]
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """Leadership is gone or the state moved on: nothing is granted any more (PER-9)."""


Event = (
    Initialize
    | StateRead
    | StartOffsetResolved
    | Acquire
    | Acknowledge
    | ReleaseMember
    | LogStartMoved
    | LogHole
    | NothingAcquired
    | StateWritten
    | Tick
    | WriteAgain
    | Configure
    | HandOver
    | Fence
)
