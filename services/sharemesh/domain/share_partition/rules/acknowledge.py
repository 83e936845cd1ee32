"""A member says what became of the records that it holds (spec ACK)."""

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.group_config.retry_delays import RELEASE_DELAY_MAX_MS
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch, Run
from sharemesh.domain.share_partition.cache.in_flight import InFlight, Move
from sharemesh.domain.share_partition.cache.record_status import Lock, RecordStatus
from sharemesh.domain.share_partition.events import Acknowledge, AcknowledgementBatch
from sharemesh.domain.share_partition.rules.pending_transitions import PendingTransitions
from sharemesh.domain.share_partition.rules.retry import released_until
from sharemesh.domain.share_partition.rules.transitions import CAUSES, TARGETS

RENEW_SETTING = "share.renew.acknowledge.enable"
_ACQUIRED = DeliveryState.ACQUIRED
_RELEASE = AcknowledgeType.RELEASE
_RENEW = AcknowledgeType.RENEW
_TYPES = {int(each): each for each in AcknowledgeType}
_Begun = tuple[RecordStatus, Cause | None, DeliveryState, int, int]  # and what it has to write
_NO_BATCH = AcknowledgementBatch(0, 0, ())


def acknowledge(
    flight: InFlight, request: Acknowledge, changes: PendingTransitions, now_ms: int
) -> None:
    """Start all transitions that the request asks for.

    Batches are processed in order, each seeing the effect of earlier ones (ACK-13); one may span
    several cached batches (ACK-12). No order of delivery is asked for (ACK-22), nor a session that
    lists the partition (ACK-20).

    Raises:
        RefusedError: INVALID_REQUEST or INVALID_RECORD_STATE; the caller rolls ``changes`` back,
            so that it is all or nothing (ACK-2). QUIRK: renewals already done stay (ACK-15).
    """
    acknowledger = _Acknowledger(flight, request, changes, now_ms)
    for batch in request.batches:
        types = _types(batch)
        first, last = batch.first_offset, batch.last_offset
        if first < flight.start_offset and request.acquired_in:  # HND-10
            message = f"offsets {first}-{last} begin below the start offset {flight.start_offset}"
            raise RefusedError(ErrorCode.INVALID_RECORD_STATE, message)
        if last < flight.start_offset:  # ACK-4
            continue
        reached = first if first > flight.start_offset else flight.start_offset
        for entry in _entries(flight, first, last):
            if entry.last_offset >= reached:  # ACK-8
                acknowledger.process(entry, batch, types)


def _types(batch: AcknowledgementBatch) -> list[AcknowledgeType]:
    first, last, given = batch.first_offset, batch.last_offset, batch.types
    if not 0 <= first <= last:
        message = f"acknowledgement of offsets {first}-{last}: the first must be 0 to the last"
        raise invalid_request(message)
    if len(given) != 1 and len(given) != last - first + 1:
        raise invalid_request(
            f"acknowledgement of offsets {first}-{last} has {len(given)} types: send one"
            " for the range or one for each offset"
        )
    if batch.uncounted and given != (_RELEASE,):  # HBK-1
        message = f"uncounted release of offsets {first}-{last}: send the one type RELEASE with it"
        raise invalid_request(message)
    if batch.delay_ms is not None:  # RTY-1
        if given != (_RELEASE,):
            message = f"delay of offsets {first}-{last}: send the one type RELEASE with it"
            raise invalid_request(message)
        if not 0 <= batch.delay_ms <= RELEASE_DELAY_MAX_MS:
            raise invalid_request(
                f"delay of offsets {first}-{last}: {batch.delay_ms} ms is not within "
                f"0..{RELEASE_DELAY_MAX_MS}"
            )
    try:
        if len(given) == 1:
            return [_TYPES[given[0]]]
        return [_TYPES[each] for each in given]
    except KeyError as unknown:  # ACK-3
        message = f"acknowledge type {unknown.args[0]} of offsets {first}-{last}: send 0 to 4"
        raise invalid_request(message) from None


def _entries(flight: InFlight, first: int, last: int) -> list[CachedBatch]:
    """Return the cached batches that the acknowledgement reaches (ACK-5, ACK-6, ACK-7)."""
    batches = flight.batches
    entry = batches.at_or_below(first)
    if entry is None and first < flight.start_offset:
        entry = batches.at_or_below(flight.start_offset)
    if entry is None:
        message = f"offsets {first}-{last} are not in flight: fetch them before acknowledging"
        raise RefusedError(ErrorCode.INVALID_RECORD_STATE, message)
    if entry.last_offset >= last:
        return [entry]
    entries = batches.starting_in(entry.first_offset, last)
    end = entries[-1].last_offset
    if end < last:
        message = f"offsets {first}-{last} reach past offset {end}, the last one acquired there"
        raise invalid_request(message)
    return entries


class _Acknowledger:
    """One request at work."""

    __slots__ = (
        "_acquired_in",
        "_batch",
        "_changes",
        "_draw",
        "_flight",
        "_member_id",
        "_now_ms",
        "_principal",
        "_renewals",
    )

    def __init__(
        self, flight: InFlight, request: Acknowledge, changes: PendingTransitions, now_ms: int
    ) -> None:
        self._flight = flight
        self._member_id = request.member_id
        self._changes = changes
        self._now_ms = now_ms
        self._draw = request.draw
        self._acquired_in = request.acquired_in
        self._principal = request.principal
        self._renewals: dict[RecordStatus, RecordStatus] | None = None  # of one entry
        self._batch = _NO_BATCH

    def process(
        self, entry: CachedBatch, batch: AcknowledgementBatch, types: list[AcknowledgeType]
    ) -> None:
        """Check and move what both have in common, at or above the start offset (ACK-9)."""
        begin, end = entry.first_offset, entry.last_offset
        start = self._flight.start_offset
        first = batch.first_offset if batch.first_offset > begin else begin
        first = first if first > start else start
        last = batch.last_offset if batch.last_offset < end else end
        self._batch = batch
        if not entry.per_offset:
            self._check(entry.status, begin, end)
            if first != begin or last != end or len(types) > 1:
                self._flight.track_per_offset(entry)
        self._renewals = None
        only = entry.status_of(first, last) if len(types) == 1 else None
        if only is not None:  # what most acknowledgements are
            self._check(only, first, last)
            new, cause = self._begun(entry, only, types[0])
            if cause is not None:
                lock = only.lock
                at_ms = 0 if lock is None else lock.acquired_at_ms
                self._changes.note(first, last, new, cause, at_ms)
            self._changes.apply_run(entry, first, last, only, new)
            return
        moves: list[Move] = []
        try:
            self._move(entry, entry.runs_between(first, last), types, batch.first_offset, moves)
        finally:
            if moves:
                self._changes.apply(entry, moves)

    def _move(
        self,
        entry: CachedBatch,
        runs: list[Run],
        types: list[AcknowledgeType],
        shift: int,
        moves: list[Move],
    ) -> None:
        """Move runs, cut where the type changes; ``shift`` is the offset of the first type.

        Types differ in cause: what follows in the same run is no equal neighbour (ACK-17).
        """
        each = types if len(types) > 1 else None
        kind = types[0]
        note, write = self._changes.note, self._changes.written.append
        for first, last, old in runs:
            self._check(old, first, last)
            at_ms = 0 if old.lock is None else old.lock.acquired_at_ms
            begun: dict[AcknowledgeType, _Begun] = {}
            begin = first
            while begin <= last:
                end = last
                if each is not None:
                    kind = each[begin - shift]
                    end = begin
                    while end < last and each[end + 1 - shift] is kind:
                        end += 1
                found = begun.get(kind)
                if found is None:
                    new, cause = self._begun(entry, old, kind)
                    written = (new.state, new.delivery_count, new.not_before_ms)
                    found = begun[kind] = (new, cause, *written)
                new, cause, state, count, later = found
                if cause is not None:
                    if begin == first:
                        note(begin, end, new, cause, at_ms)
                    else:
                        write((begin, end, state, count, cause, later, at_ms))
                moves.append((begin, end, old, new))
                begin = end + 1

    def _begun(
        self, entry: CachedBatch, old: RecordStatus, kind: AcknowledgeType
    ) -> tuple[RecordStatus, Cause | None]:
        """Return the status that records go to, and why; no cause: nothing is written."""
        if kind is _RENEW:
            return self._renewed(entry, old), None
        if kind is not _RELEASE:
            return self._changes.begun(old, TARGETS[kind], CAUSES[kind])
        batch = self._batch
        if batch.uncounted and old.hand_backs_left:  # HBK-4, HBK-5
            if not batch.delay_ms:
                return self._changes.handed_back(old), None
            until_ms = self._now_ms + batch.delay_ms  # HND-1
            return self._changes.handed_back(old, until_ms), CAUSES[kind]
        retry = self._flight.config.retry
        until_ms = released_until(retry, batch, old.delivery_count, self._now_ms, self._draw)
        return self._changes.begun(old, TARGETS[kind], CAUSES[kind], until_ms)

    def _check(self, status: RecordStatus, first: int, last: int) -> None:
        """Only the owner may acknowledge, only what it holds, only once.

        ACK-10, ACK-11, HBK-7. A record in transition (RS-13) or with an ended lock (LK-8) is not
        held.
        """
        if status.state is not _ACQUIRED:
            reason = "is in transition" if status.write_id is not None else "is not acquired"
        elif status.member_id != self._member_id:
            reason = "is held by another member"
        elif self._batch.delivery_count and self._batch.delivery_count != status.delivery_count:
            # HBK-7
            reason = "was delivered again since"
        elif status.lock is not None and status.lock.acquired_in != self._acquired_in:  # HND-10
            reason = "was acquired in another leader epoch"
        elif self._acquired_in and status.lock and status.lock.principal != self._principal:
            reason = "is held by another member"
        else:
            return
        message = f"record {first} of {first}-{last} {reason}: {status.state.name.lower()}"
        raise RefusedError(ErrorCode.INVALID_RECORD_STATE, message)

    def _renewed(self, entry: CachedBatch, old: RecordStatus) -> RecordStatus:
        """Restart the lock with the duration in force now; nothing is written (ACK-14, T8)."""
        config = self._flight.config
        if not config.renew_acknowledge_enable:
            message = f"renewing is off for this group: set {RENEW_SETTING}"
            raise RefusedError(ErrorCode.INVALID_RECORD_STATE, message)
        if self._renewals is None:
            self._renewals = {}
        renewed = self._renewals.get(old)
        if renewed is None:
            deadline_ms = self._now_ms + config.record_lock_duration_ms
            terms = (self._now_ms, deadline_ms, entry.first_offset, entry.last_offset)
            lock = Lock(*terms) if old.lock is None else old.lock.again(*terms)
            renewed = self._renewals[old] = RecordStatus(
                old.state,
                old.delivery_count,
                old.member_id,
                lock,
                hand_backs_left=old.hand_backs_left,
            )
        return renewed
