"""A member says what became of the records that it holds (spec section 7)."""

from collections.abc import Iterator

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.cached_batch import CachedBatch
from sharemesh.domain.share_partition.changes import Changes, Move
from sharemesh.domain.share_partition.events import Acknowledge, AcknowledgementBatch
from sharemesh.domain.share_partition.in_flight import InFlight
from sharemesh.domain.share_partition.locks import Lock
from sharemesh.domain.share_partition.record_status import RecordStatus
from sharemesh.domain.share_partition.transitions import ACKNOWLEDGED_AS, CAUSES

_RENEW = AcknowledgeType.RENEW
_TYPES = {int(each): each for each in AcknowledgeType}


def acknowledge(flight: InFlight, request: Acknowledge, changes: Changes, now_ms: int) -> None:
    """Start all transitions that the request asks for.

    Batches are processed in order, each seeing the effect of earlier ones (ACK-13).

    Raises:
        RefusedError: INVALID_REQUEST or INVALID_RECORD_STATE; the caller rolls ``changes`` back,
            so that it is all or nothing (ACK-2). QUIRK: renewals already done stay (ACK-15).
    """
    for batch in request.batches:
        types = _types(batch)
        if batch.last_offset < flight.start_offset:  # ACK-4
            continue
        for entry in _entries(flight, batch):
            if entry.last_offset >= max(flight.start_offset, batch.first_offset):  # ACK-8
                _Piece(flight, request.member_id, changes, now_ms).process(entry, batch, types)


def _types(batch: AcknowledgementBatch) -> list[AcknowledgeType]:
    first, last = batch.first_offset, batch.last_offset
    if not 0 <= first <= last:
        message = f"acknowledgement of offsets {first}-{last}: the first must be 0 to the last"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    if len(batch.types) not in {1, last - first + 1}:
        message = (
            f"acknowledgement of offsets {first}-{last} has {len(batch.types)} types: send one"
            " for the range or one for each offset"
        )
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    try:
        return [_TYPES[each] for each in batch.types]
    except KeyError as unknown:  # ACK-3
        message = f"acknowledge type {unknown.args[0]} of offsets {first}-{last}: send 0 to 4"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message) from None


def _entries(flight: InFlight, batch: AcknowledgementBatch) -> list[CachedBatch]:
    """Return the cached batches that the acknowledgement reaches (ACK-5..7)."""
    first, last = batch.first_offset, batch.last_offset
    low = flight.floor(first)
    if low < 0 and first < flight.start_offset:
        low = flight.floor(flight.start_offset)
    if low < 0:
        message = f"offsets {first}-{last} are not in flight: fetch them before acknowledging"
        raise RefusedError(ErrorCode.INVALID_RECORD_STATE, message)
    entries = flight.batches[low : flight.floor(last) + 1]
    end = entries[-1].last_offset
    if end < last:
        message = f"offsets {first}-{last} reach past offset {end}, the last one acquired there"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    return entries


class _Piece:
    """What one acknowledgement batch does to one cached batch."""

    __slots__ = ("_changes", "_flight", "_member_id", "_now_ms", "_renewed")

    def __init__(
        self, flight: InFlight, member_id: MemberId, changes: Changes, now_ms: int
    ) -> None:
        self._flight = flight
        self._member_id = member_id
        self._changes = changes
        self._now_ms = now_ms
        self._renewed: dict[RecordStatus, RecordStatus] = {}

    def process(
        self, entry: CachedBatch, batch: AcknowledgementBatch, types: list[AcknowledgeType]
    ) -> None:
        """Check and move what both have in common, at or above the start offset (ACK-9)."""
        start = self._flight.start_offset
        first = max(batch.first_offset, entry.first_offset, start)
        last = min(batch.last_offset, entry.last_offset)
        if not entry.per_offset:
            self._check(entry.status, entry.first_offset, entry.last_offset)
            whole = first == entry.first_offset and last == entry.last_offset
            if not whole or len(types) > 1:
                self._flight.track_per_offset(entry)
        moves: list[Move] = []
        try:
            for begin, end, old, kind in _typed_runs(entry, first, last, batch, types):
                self._check(old, begin, end)
                moves.append((begin, end, old, self._moved(entry, begin, end, old, kind)))
        finally:
            if moves:
                self._changes.apply(entry, moves)

    def _check(self, status: RecordStatus, first: int, last: int) -> None:
        """Only the owner may acknowledge, only what it holds, only once (ACK-10, ACK-11)."""
        if status.state is not DeliveryState.ACQUIRED:
            reason = "is in transition" if status.write_id is not None else "is not acquired"
        elif status.member_id != self._member_id:
            reason = "is held by another member"
        else:
            return
        message = f"record {first} of {first}-{last} {reason}: {status.state.name.lower()}"
        raise RefusedError(ErrorCode.INVALID_RECORD_STATE, message)

    def _moved(
        self, entry: CachedBatch, first: int, last: int, old: RecordStatus, kind: AcknowledgeType
    ) -> RecordStatus:
        if kind is _RENEW:
            return self._renew(entry, first, last, old)
        return self._changes.start(first, last, old, ACKNOWLEDGED_AS[kind], CAUSES[kind])

    def _renew(self, entry: CachedBatch, first: int, last: int, old: RecordStatus) -> RecordStatus:
        """Restart the lock with the duration in force now; nothing is written (ACK-14, T8)."""
        config = self._flight.config
        if not config.renew_acknowledge_enable:
            message = f"records {first}-{last}: renewing is off for this group; set {_RENEW_KEY}"
            raise RefusedError(ErrorCode.INVALID_RECORD_STATE, message)
        renewed = self._renewed.get(old)
        if renewed is None:
            deadline_ms = self._now_ms + config.record_lock_duration_ms
            lock = Lock(deadline_ms, entry.first_offset, entry.last_offset)
            self._flight.locks.add(lock)
            renewed = RecordStatus(old.state, old.delivery_count, old.member_id, lock)
            self._renewed[old] = renewed
        return renewed


_RENEW_KEY = "share.renew.acknowledge.enable"


def _typed_runs(
    entry: CachedBatch,
    first: int,
    last: int,
    batch: AcknowledgementBatch,
    types: list[AcknowledgeType],
) -> Iterator[tuple[int, int, RecordStatus, AcknowledgeType]]:
    """Yield the runs of ``first..last``, cut where the acknowledge type changes."""
    if len(types) == 1:
        for begin, end, status in entry.runs_between(first, last):
            yield begin, end, status, types[0]
        return
    shift = batch.first_offset
    for begin, end, status in entry.runs_between(first, last):
        position = begin
        kind = types[begin - shift]
        for offset in range(begin + 1, end + 1):
            following = types[offset - shift]
            if following is not kind:
                yield position, offset - 1, status, kind
                position, kind = offset, following
        yield position, end, status, kind
