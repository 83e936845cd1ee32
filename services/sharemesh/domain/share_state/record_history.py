"""What became of one record for one group, from the records of its share partition (spec EXP)."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_state.records import (
    NO_START_OFFSET,
    Origin,
    StateSnapshot,
    StateUpdate,
    Tombstone,
)
from sharemesh.domain.state_batch import TERMINAL, StateBatch

EVENTS_MAX = 100
_BEGINNINGS = frozenset({Cause.INITIALIZE, Cause.IMPORT})


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One change; without ``state`` the share partition began, ended, or its start passed by."""

    log_offset: int
    timestamp_ms: int
    cause: Cause
    origin: Origin
    start_offset: int = NO_START_OFFSET
    state: DeliveryState | None = None
    delivery_count: int = 0
    not_before_ms: int = 0
    acquired_at_ms: int = 0

    @property
    def member_id(self) -> MemberId:
        """The member that made the change; empty if no member did."""
        return self.origin.member_id


class RecordHistory:
    """The newest changes of one offset, from the records of its share partition in log order.

    A write that changes nothing, as a repeated one, is no change (CMB-2).
    """

    def __init__(self, offset: int, events_max: int = EVENTS_MAX) -> None:
        self._offset = offset
        self._events: deque[RecordChange] = deque(maxlen=events_max)
        self._began = False
        self._dropped = False
        self._last: StateBatch | None = None
        self._start_offset: int | None = None
        self._is_known = False  # what stood there before the next record: a snapshot has said it

    @property
    def events(self) -> tuple[RecordChange, ...]:
        """The changes, oldest first."""
        return tuple(self._events)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing since the share partition began."""
        return self._began and not self._dropped

    def take(self, record: StateSnapshot | StateUpdate | Tombstone, log_offset: int) -> None:
        """Take note of the next record; what a snapshot only holds is no change (EXP-3)."""
        match record:
            case Tombstone():
                self._begin_again()
                self._began = self._is_known = False
                self._add(record, log_offset, record.origin.cause, NO_START_OFFSET)
            case StateSnapshot() if record.origin.cause in _BEGINNINGS:
                self._begin_again()
                self._began = True
                self._add(record, log_offset, record.origin.cause, record.start_offset)
                self._change(record, record.changed, log_offset)
                self._is_known = True
            case StateSnapshot():
                self._change(record, record.changed, log_offset)
                self._hold(record.batches)
            case StateUpdate():
                self._change(record, record.batches, log_offset)

    def _begin_again(self) -> None:
        self._last = None
        self._start_offset = None

    def _change(
        self, record: StateSnapshot | StateUpdate, batches: Iterable[StateBatch], log_offset: int
    ) -> None:
        start_before, start = self._start_offset, record.start_offset
        if start != NO_START_OFFSET:
            self._start_offset = start
        found = self._found(batches)
        if found is not None and _wins(found, self._last):
            self._last = found
            cause = found.cause or record.origin.cause
            self._add(record, log_offset, cause, start, found)
        elif start_before is not None and start_before <= self._offset < start:
            self._passed(record, log_offset)

    def _passed(self, record: StateSnapshot | StateUpdate, log_offset: int) -> None:
        """Note that the start offset passed it, unless it was finished, or may have been."""
        last = self._last
        if self._is_known if last is None else last.delivery_state not in TERMINAL:
            self._add(record, log_offset, record.origin.cause, record.start_offset)

    def _hold(self, batches: Iterable[StateBatch]) -> None:
        """Note what stands there; its change may be in a record that is gone."""
        self._is_known = True
        found = self._found(batches)
        if found is not None and _wins(found, self._last):
            self._last = found

    def _found(self, batches: Iterable[StateBatch]) -> StateBatch | None:
        return next((each for each in batches if _covers(each, self._offset)), None)

    def _add(
        self,
        record: StateSnapshot | StateUpdate | Tombstone,
        log_offset: int,
        cause: Cause,
        start_offset: int,
        batch: StateBatch | None = None,
    ) -> None:
        self._dropped = self._dropped or len(self._events) == self._events.maxlen
        self._events.append(
            RecordChange(
                log_offset,
                record.write_timestamp_ms,
                cause,
                record.origin,
                start_offset,
                None if batch is None else batch.delivery_state,
                0 if batch is None else batch.delivery_count,
                0 if batch is None else batch.not_before_ms,
                0 if batch is None else batch.acquired_at_ms,
            )
        )


def _covers(batch: StateBatch, offset: int) -> bool:
    return batch.first_offset <= offset <= batch.last_offset


def _wins(new: StateBatch, old: StateBatch | None) -> bool:
    """Whether the state is another one after this write (spec CMB-2, RTY-7)."""
    return old is None or _rank(new) > _rank(old)


def _rank(batch: StateBatch) -> tuple[int, int, int]:
    return batch.delivery_count, batch.delivery_state, batch.not_before_ms
