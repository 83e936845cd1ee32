"""Spans and metrics of one share partition, derived from each event and its effects, here only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_partition.effects import (
    Answered,
    Effect,
    Initialized,
    LocksExpired,
    RecordsAcquired,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    Event,
    Initialize,
    ReleaseMember,
    StartOffsetResolved,
    StateRead,
    StateWritten,
    Tick,
    WriteAgain,
)
from sharemesh.domain.state_batch import StateBatch
from sharemesh.share_leader.telemetry.acquisition_index import AcquisitionIndex, IndexedAcquisition
from sharemesh.share_leader.telemetry.partition_signals import (
    PartitionLogger,
    PartitionSpans,
    Ranges,
    ShareSeries,
    called_by,
    contexts_of,
    range_attributes,
)
from sharemesh.telemetry import names
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.telemetry.trace_context import TraceContext

NO_TRACE = (b"", b"")


@dataclass(slots=True)
class _Answering:
    """An acknowledgement or release whose answer is awaited."""

    operation: str
    member_id: str
    start_ns: int
    batches: tuple[AcknowledgementBatch, ...] = ()
    context: TraceContext | None = None
    parent: TraceContext | None = None
    grants: list[IndexedAcquisition] = field(default_factory=list)
    released: int = 0
    ranges: Ranges = ()


@dataclass(frozen=True, slots=True)
class _Writing:
    """A state write under way, and what it is done for.

    ``in_force``: what it tells came into force before it (LK-6), and may have changed since.
    """

    effect: WriteState
    start_ns: int
    parent: TraceContext | None
    in_force: bool


class PartitionTelemetry:
    """Sees every step of one share partition.

    Everything that may be counted or traced follows from an event and its effects, so no branch
    of the machine or of its runner can forget it. It decides nothing; without an exporter it only
    counts.
    """

    def __init__(
        self, telemetry: Telemetry, key: SharePartitionKey, topic: str, leader_epoch: int
    ) -> None:
        self._telemetry = telemetry
        self._spans = telemetry.spans
        self._series = ShareSeries(telemetry, key, topic)
        self._traces = PartitionSpans(telemetry, key, topic, leader_epoch)
        self._log = PartitionLogger(key, topic)
        self._grants = AcquisitionIndex()
        self._outcomes = AcquisitionIndex()
        self._answering: dict[int, _Answering] = {}
        self._writing: dict[int, _Writing] = {}
        self._began_ns = 0
        self._locked_ns = 0
        self._released_ns = 0
        self._idle_ns = -1
        self._fetching_ns = 0
        self._links: Sequence[TraceContext] = ()
        self._doors: dict[type, Callable[[Any, tuple[Effect, ...], int], None]] = {
            Initialize: self._initialize,
            StateRead: self._initialized,
            StartOffsetResolved: self._initialized,
            Acquire: self._acquire,
            Acknowledge: self._acknowledge,
            ReleaseMember: self._release,
            Tick: self._tick,
            WriteAgain: self._write_again,
            StateWritten: self._state_written,
        }

    # ---- what the runner reports ----------------------------------------------------------------

    def saw(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """Count and trace one step of the machine, before its effects are carried out."""
        door = self._doors.get(type(event))
        if door is not None:
            door(event, effects, self._spans.now_ns())

    def fetch_locked(self) -> None:
        """A fetch took the lock of this share partition."""
        now_ns = self._spans.now_ns()
        self._fetching_ns = self._locked_ns = now_ns
        self._idle_ns = now_ns - self._released_ns if self._released_ns else -1

    def fetch_unlocked(self) -> None:
        """The fetch gave the lock back (MET-2)."""
        now_ns = self._spans.now_ns()
        held_ns = max(0, now_ns - self._locked_ns)
        self._series.lock_duration.record(held_ns / 1e9)
        if self._idle_ns >= 0:
            whole_ns = held_ns + self._idle_ns
            self._series.lock_busy.record(100 * held_ns / whole_ns if whole_ns else 100.0)
        self._released_ns = now_ns
        self._fetching_ns = 0

    def produced_by(self, links: Sequence[TraceContext]) -> None:
        """Say who produced what the next acquisition is made of: sampled contexts only."""
        self._links = links

    def trace_of(self, write_id: int) -> tuple[bytes, bytes]:
        """Return trace and span id of what a state write is done for; empty without spans."""
        writing = self._writing.get(write_id)
        if writing is None or writing.parent is None:
            return NO_TRACE
        context = writing.parent
        return context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")

    def acquisition_of(self, offset: int) -> IndexedAcquisition | None:
        """Return the latest acquisition of an offset, if it is remembered."""
        return next(self._grants.of([(offset, offset)]), None)

    def outcome_of(self, offset: int) -> IndexedAcquisition | None:
        """Return what was made durable last for an offset, if it is remembered."""
        return next(self._outcomes.of([(offset, offset)]), None)

    def ended(self, error: ErrorCode) -> None:
        """The share partition ended: pending requests get this error."""
        now_ns = self._spans.now_ns()
        for request_id in list(self._answering):
            self._answered(Answered(request_id, error), now_ns)
        self._grants = AcquisitionIndex()

    # ---- initialization -------------------------------------------------------------------------

    def _initialize(self, _: Initialize, __: tuple[Effect, ...], now_ns: int) -> None:
        self._began_ns = now_ns

    def _initialized(
        self, event: StateRead | StartOffsetResolved, effects: tuple[Effect, ...], now_ns: int
    ) -> None:
        for effect in effects:
            if isinstance(effect, WriteState):
                self._write(effect, None, now_ns, in_force=True)
            elif isinstance(effect, Initialized):
                start_ns, self._began_ns = self._began_ns, 0
                self._series.load_duration.record((now_ns - start_ns) / 1e9)
                if self._spans.enabled:
                    context = self._spans.context()
                    times = (start_ns, now_ns)
                    self._traces.end(names.INITIALIZE, context, times, {}, error=effect.error)
        if isinstance(event, StateRead):
            for batch in event.batches:
                first, last = batch.first_offset, batch.last_offset
                self._series.batch_records.record(last - first + 1)
                if batch.cause is not Cause.UNSPECIFIED:
                    self._outcomes.add(IndexedAcquisition(first, last, now_ns, None, batch.cause))

    # ---- acquisition ----------------------------------------------------------------------------

    def _acquire(self, event: Acquire, effects: tuple[Effect, ...], now_ns: int) -> None:
        links, self._links = self._links, ()
        for effect in effects:
            if isinstance(effect, RecordsAcquired) and effect.ranges:
                start_ns = self._fetching_ns or now_ns
                self._count_acquired(effect, (now_ns - start_ns) / 1e9)
                context = self._spans.context(called_by()) if self._spans.enabled else None
                for one in effect.ranges:
                    self._grants.add(
                        IndexedAcquisition(one.first_offset, one.last_offset, now_ns, context)
                    )
                if context is not None:
                    times = (start_ns, now_ns)
                    self._traces.acquired(effect, event.member_id, context, times, links)

    def _count_acquired(self, effect: RecordsAcquired, seconds: float) -> None:
        series = self._series
        series.acquired.add(effect.count)
        series.acquire_duration.record(seconds)
        for one in effect.ranges:
            count = one.last_offset - one.first_offset + 1
            series.attempts.record(one.delivery_count, count)
            if one.delivery_count > 1:
                series.redelivered.add(count)
            else:
                series.batch_records.record(count)

    # ---- acknowledgement, release, expiry -------------------------------------------------------

    def _acknowledge(self, event: Acknowledge, effects: tuple[Effect, ...], now_ns: int) -> None:
        ranges = [(batch.first_offset, batch.last_offset) for batch in event.batches]
        answering = _Answering(names.SETTLE, event.member_id, now_ns, event.batches, ranges=ranges)
        answering.grants = list(self._grants.of(ranges))
        self._begin(event.request_id, answering, effects, now_ns)

    def _release(self, event: ReleaseMember, effects: tuple[Effect, ...], now_ns: int) -> None:
        written = [each for each in effects if isinstance(each, WriteState)]
        if not written:
            return  # it held nothing
        ranges = [(b.first_offset, b.last_offset) for each in written for b in each.batches]
        answering = _Answering(names.RELEASE, event.member_id, now_ns, ranges=ranges)
        answering.released = _offsets(ranges)
        answering.grants = list(self._grants.of(ranges))
        self._begin(event.request_id, answering, effects, now_ns)

    def _begin(
        self, request_id: int, answering: _Answering, effects: tuple[Effect, ...], now_ns: int
    ) -> None:
        if self._spans.enabled:
            settles = answering.operation is names.SETTLE
            call = called_by() if settles else None
            first = answering.grants[0].context if answering.grants else None
            answering.parent = call or first
            answering.context = self._spans.context(answering.parent)
        self._answering[request_id] = answering
        for effect in effects:
            if isinstance(effect, WriteState):
                self._write(effect, answering.context, now_ns)
            elif isinstance(effect, Answered):
                self._answered(effect, now_ns)

    def _tick(self, _: Tick, effects: tuple[Effect, ...], now_ns: int) -> None:
        writes = [each for each in effects if isinstance(each, WriteState)]
        expired = sum(each.record_count for each in effects if isinstance(each, LocksExpired))
        if not expired:
            return
        self._series.expired.add(expired)
        batches = [batch for write in writes for batch in write.batches]
        ranges = [(batch.first_offset, batch.last_offset) for batch in batches]
        context = None
        if self._spans.enabled:
            grants = list(self._grants.of(ranges))
            context = self._spans.context(grants[0].context if grants else None)
            attributes = range_attributes(ranges)
            attributes[names.EXPIRED_COUNT] = expired
            attributes[names.ARCHIVED_COUNT] = _archived(batches)
            self._traces.end(
                names.LOCK_TIMEOUT, context, (now_ns, now_ns), attributes, links=contexts_of(grants)
            )
        for write in writes:
            self._write(write, context, now_ns, in_force=True)

    def _write_again(self, _: WriteAgain, effects: tuple[Effect, ...], now_ns: int) -> None:
        for effect in effects:
            if isinstance(effect, WriteState):
                self._write(effect, None, now_ns, in_force=True)

    def _answered(self, answer: Answered, now_ns: int) -> None:
        answering = self._answering.pop(answer.request_id, None)
        if answering is None:
            return
        counts: dict[int, int] = {}
        self._series.acknowledge_duration.record((now_ns - answering.start_ns) / 1e9)
        if answer.error:
            self._series.failed.add()
        elif answering.operation is names.RELEASE:
            self._series.released.add(answering.released)
        else:
            counts = counted(answering.batches)
            self._series.returned.add(_returned(answering.batches))
            for kind, count in counts.items():
                self._series.acknowledged[kind].add(count)
            self._log.renewed(answering.member_id, counts, answering.context)
            for grant in answering.grants:
                self._series.ack_latency.record((now_ns - grant.granted_ns) / 1e9)
        if answering.context is not None:
            self._trace_answered(answering, answer, counts, now_ns)

    def _trace_answered(
        self, answering: _Answering, answer: Answered, counts: dict[int, int], now_ns: int
    ) -> None:
        attributes = range_attributes(answering.ranges)
        attributes[names.CLIENT_ID] = answering.member_id
        for kind, count in counts.items():
            attributes[names.ACK_COUNTS[kind]] = count
        returned = _returned(answering.batches)
        if returned:
            attributes[names.RETURNED_COUNT] = 0 if answer.error else returned
        if answering.operation is names.RELEASE:
            attributes[names.RELEASED_COUNT] = 0 if answer.error else answering.released
        self._traces.add_records(answering.ranges, attributes)
        context = answering.context
        assert context is not None
        self._traces.end(
            answering.operation,
            context,
            (answering.start_ns, now_ns),
            attributes,
            links=contexts_of(answering.grants),
            parent=answering.parent,
            error=answer.error,
        )

    # ---- state writes ---------------------------------------------------------------------------

    def _write(
        self,
        effect: WriteState,
        parent: TraceContext | None,
        now_ns: int,
        *,
        in_force: bool = False,
    ) -> None:
        self._writing[effect.write_id] = _Writing(effect, now_ns, parent, in_force)
        self._series.write_batches.record(len(effect.batches))
        if in_force:
            self._note_outcomes(effect, parent, now_ns)

    def _note_outcomes(self, effect: WriteState, parent: TraceContext | None, now_ns: int) -> None:
        for batch in effect.batches:
            cause = batch.cause or effect.cause
            self._outcomes.add(
                IndexedAcquisition(batch.first_offset, batch.last_offset, now_ns, parent, cause)
            )

    def _state_written(self, event: StateWritten, effects: tuple[Effect, ...], now_ns: int) -> None:
        writing = self._writing.pop(event.write_id, None)
        for effect in effects:
            if isinstance(effect, WriteState):  # OFF-26, ACK-23
                self._write(effect, None, now_ns, in_force=True)
        if writing is None:
            return
        self._series.write_duration.record((now_ns - writing.start_ns) / 1e9)
        if event.error:
            failures = self._telemetry.registry.counter(
                names.STATE_WRITE_FAILURES, event.error.name.lower()
            )
            failures.add()
            self._log.not_written(event.error, event.message, writing.parent)
        else:
            self._count_archived(writing)
            if not writing.in_force:
                self._note_outcomes(writing.effect, writing.parent, now_ns)
        if writing.parent is not None:
            times = (writing.start_ns, now_ns)
            self._traces.written(writing.effect, writing.parent, times, event.error)
        for effect in effects:
            if isinstance(effect, Answered):
                self._answered(effect, now_ns)
        self._grants.forget_below(writing.effect.start_offset)
        self._outcomes.forget_below(writing.effect.start_offset)

    def _count_archived(self, writing: _Writing) -> None:
        given_up: list[StateBatch] = []
        for batch in writing.effect.batches:
            if batch.delivery_state is DeliveryState.ARCHIVED:
                why = batch.cause or writing.effect.cause
                counter = self._series.archived.get(why)
                if counter is not None:
                    counter.add(batch.last_offset - batch.first_offset + 1)
                if why is Cause.DELIVERY_LIMIT:
                    given_up.append(batch)
        if given_up:
            self._log.given_up(_archived(given_up), given_up[0].first_offset, writing.parent)


def counted(batches: Sequence[AcknowledgementBatch]) -> dict[int, int]:
    """Return offsets by acknowledge type; gaps are no acknowledgement of a record (MET-1).

    Nor is an uncounted release.
    """
    counts: dict[int, int] = {}
    for batch in batches:
        types = batch.types
        if batch.uncounted:
            continue
        if len(types) == 1:
            offsets = batch.last_offset - batch.first_offset + 1
            counts[int(types[0])] = counts.get(int(types[0]), 0) + offsets
        else:
            for kind in AcknowledgeType:
                found = types.count(kind)
                if found:
                    counts[int(kind)] = counts.get(int(kind), 0) + found
    counts.pop(AcknowledgeType.GAP, None)
    return counts


def _returned(batches: Sequence[AcknowledgementBatch]) -> int:
    return sum(each.last_offset - each.first_offset + 1 for each in batches if each.uncounted)


def _offsets(ranges: Ranges) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _archived(batches: Sequence[StateBatch]) -> int:
    return sum(
        batch.last_offset - batch.first_offset + 1
        for batch in batches
        if batch.delivery_state is DeliveryState.ARCHIVED
    )
