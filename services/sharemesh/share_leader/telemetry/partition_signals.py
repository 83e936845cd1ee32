"""Spans, metrics and log lines of one share partition: how what happened is written down."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sharemesh.domain.delivery_state import AcknowledgeType, Cause
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_partition.effects import RecordsAcquired, WriteState
from sharemesh.share_leader.telemetry.acquisition_index import IndexedAcquisition
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Counter
from sharemesh.telemetry.spans import Span, SpanKind, Spans
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.telemetry.trace_context import LINKS_MAX, TraceContext, current_request

ARCHIVED_BY = (Cause.REJECT, Cause.DELIVERY_LIMIT, Cause.LOG_START, Cause.GAP)
FENCING = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
OPERATIONS = (names.ACQUIRE, names.SETTLE, names.RELEASE, names.LOCK_TIMEOUT, names.INITIALIZE)
Ranges = Sequence[tuple[int, int]]
_log = logging.getLogger(__name__)


class PartitionSpans:
    """Writes spans with the attributes that all spans of the share partition have."""

    def __init__(
        self, telemetry: Telemetry, key: SharePartitionKey, topic: str, leader_epoch: int
    ) -> None:
        self.spans: Spans = telemetry.spans
        self._stride = telemetry.detail_stride
        common: dict[str, Any] = {
            names.MESSAGING_SYSTEM: names.SYSTEM,
            names.DESTINATION: topic,
            names.PARTITION_ID: str(key.partition),
            names.GROUP_NAME: key.group_id,
            names.LEADER_EPOCH: leader_epoch,
        }
        self._writing = dict(common)
        # One dict for each operation, never changed: exporters write it out once.
        self._operations = {
            operation: (f"{operation} {topic}", {**common, names.OPERATION_NAME: operation})
            for operation in OPERATIONS
        }
        self._operations[names.SETTLE][1][names.OPERATION_TYPE] = names.SETTLE

    def acquired(
        self,
        effect: RecordsAcquired,
        member_id: str,
        context: TraceContext,
        times: tuple[int, int],
        links: Sequence[TraceContext],
    ) -> None:
        """Write the span of one acquisition, with the names of its sampled records.

        Its parent is the call it is made for; a stream, which lives for hours, is only linked to.
        """
        request = current_request()
        parent = None
        if request is not None and request.is_stream:
            links = [request.context, *links]
        else:
            parent = called_by()
        ranges = [(one.first_offset, one.last_offset) for one in effect.ranges]
        attributes = range_attributes(ranges)
        attributes[names.CLIENT_ID] = member_id
        attributes[names.ACQUIRED_COUNT] = effect.count
        attributes[names.RANGES_DELIVERY_COUNT] = [
            one.delivery_count for one in effect.ranges[: names.RANGES_MAX]
        ]
        self.add_records(ranges, attributes)
        self.end(names.ACQUIRE, context, times, attributes, parent=parent, links=links)

    def written(
        self,
        effect: WriteState,
        parent: TraceContext,
        times: tuple[int, int],
        error: ErrorCode,
    ) -> None:
        """Write the span of one state write."""
        attributes = {
            names.STATE_EPOCH: effect.state_epoch,
            names.STATE_BATCHES: len(effect.batches),
        }
        self.spans.end(
            Span(
                names.WRITE_STATE,
                self.spans.context(parent),
                parent,
                *times,
                attributes,
                kind=SpanKind.CLIENT,
                error=error.name if error else "",
                shared=self._writing,
            )
        )

    def end(
        self,
        operation: str,
        context: TraceContext,
        times: tuple[int, int],
        attributes: dict[str, Any],
        *,
        parent: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Write the span of an operation; ``times`` are its start and end in nanoseconds."""
        name, shared = self._operations[operation]
        self.spans.end(
            Span(
                name,
                context,
                parent,
                *times,
                attributes,
                links=links,
                error=error.name if error else "",
                shared=shared,
            )
        )

    def add_records(self, ranges: Ranges, attributes: dict[str, Any]) -> None:
        """Name the sampled records of a span: the same ones at every step of their life.

        As an array: an event or a span of its own costs ten to forty times as much to send.
        """
        stride = self._stride
        if stride:
            attributes[names.RECORDS_SAMPLED] = [
                offset
                for first, last in ranges
                for offset in range(first + -first % stride, last + 1, stride)
            ][: names.SAMPLED_MAX]


class ShareSeries:
    """Counters and histograms of one share partition; shared by those with the same labels."""

    def __init__(self, telemetry: Telemetry, key: SharePartitionKey, topic: str) -> None:
        registry = telemetry.registry
        group = key.group_id
        labels = (group, topic, telemetry.partition_label(key.partition))
        self.acquired = registry.counter(names.RECORDS_ACQUIRED, *labels)
        self.redelivered = registry.counter(names.RECORDS_REDELIVERED, *labels)
        self.failed = registry.counter(names.ACKNOWLEDGEMENTS_FAILED, *labels)
        self.expired = registry.counter(names.LOCKS_EXPIRED, *labels)
        self.released = registry.counter(names.RECORDS_RELEASED, *labels)
        self.returned = registry.counter(names.RECORDS_RETURNED, *labels)
        self.acknowledged: dict[int, Counter] = {
            int(kind): registry.counter(names.RECORDS_ACKNOWLEDGED, *labels, kind.name.lower())
            for kind in AcknowledgeType
            if kind is not AcknowledgeType.GAP
        }
        self.archived = {
            cause: registry.counter(names.RECORDS_ARCHIVED, *labels, cause.name.lower())
            for cause in ARCHIVED_BY
        }
        self.attempts = registry.histogram(names.DELIVERY_ATTEMPTS, group, topic)
        self.batch_records = registry.histogram(names.INFLIGHT_BATCH_RECORDS, group, topic)
        self.lock_duration = registry.histogram(names.FETCH_LOCK_DURATION, group, topic)
        self.lock_busy = registry.histogram(names.FETCH_LOCK_BUSY, group, topic)
        self.ack_latency = registry.histogram(names.ACK_LATENCY, group, topic)
        self.acquire_duration = registry.histogram(names.ACQUIRE_DURATION, group)
        self.acknowledge_duration = registry.histogram(names.ACKNOWLEDGE_DURATION, group)
        self.load_duration = registry.histogram(names.PARTITION_LOAD_DURATION)
        self.write_duration = registry.histogram(names.STATE_WRITE_DURATION)
        for error in FENCING:  # so that their rates exist before the first one happens
            registry.counter(names.STATE_WRITE_FAILURES, error.name.lower())
        self.write_batches = registry.histogram(names.STATE_WRITE_BATCHES)


class PartitionLogger:
    """Writes lines with group, topic, partition and the ids of the span that they belong to."""

    def __init__(self, key: SharePartitionKey, topic: str) -> None:
        self._fields: dict[str, object] = {
            "group": str(key.group_id),
            "topic": topic,
            "partition": key.partition,
        }

    def renewed(self, member_id: str, counts: dict[int, int], context: TraceContext | None) -> None:
        """Say that locks were renewed: at debug (KIP-1222), for it happens all the time."""
        records = counts.get(AcknowledgeType.RENEW)
        if records and _log.isEnabledFor(logging.DEBUG):
            more = {"member": member_id, "records": records}
            _log.debug("acquisition locks renewed", extra=self._extra(context, more))

    def given_up(self, records: int, first_offset: int, context: TraceContext | None) -> None:
        """Say that records reached the delivery count limit and were archived."""
        more = {"records": records, "first_offset": first_offset}
        _log.warning("records reached the delivery limit", extra=self._extra(context, more))

    def not_written(self, error: ErrorCode, message: str, context: TraceContext | None) -> None:
        """Say that a state write failed for good."""
        more = {"error": error.name, "reason": message}
        _log.warning("a state write failed", extra=self._extra(context, more))

    def _extra(self, context: TraceContext | None, more: Mapping[str, object]) -> dict[str, object]:
        ids = context.ids() if context is not None else {}
        return {**self._fields, **more, **ids}


def range_attributes(ranges: Ranges) -> dict[str, Any]:
    """Return the attributes of ranges: at most ``RANGES_MAX`` are listed."""
    if len(ranges) == 1:
        ((first, last),) = ranges
        return {names.RANGES_FIRST: [first], names.RANGES_LAST: [last]}
    listed = ranges[: names.RANGES_MAX]
    attributes: dict[str, Any] = {
        names.RANGES_FIRST: [first for first, _ in listed],
        names.RANGES_LAST: [last for _, last in listed],
    }
    if len(ranges) > names.RANGES_MAX:
        attributes[names.RANGES_TRUNCATED] = True
    return attributes


def contexts_of(grants: Sequence[IndexedAcquisition]) -> list[TraceContext]:
    """Return the spans of the acquisitions, each once; one more than may be linked says so."""
    if len(grants) == 1:
        context = grants[0].context
        return [] if context is None else [context]
    found = dict.fromkeys(grant.context for grant in grants if grant.context is not None)
    return list(found)[: LINKS_MAX + 1]


def called_by() -> TraceContext | None:
    """Return the span of the unary call that is being answered here, None outside of one."""
    request = current_request()
    return None if request is None or request.is_stream else request.context
