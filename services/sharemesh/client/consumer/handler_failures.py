"""What ``run`` says of records that failed: to the application's callback, else to the log."""

import logging
from collections import OrderedDict

from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.client.run_options import Failed
from sharemesh.domain.delivery_state import AcknowledgeType

REMEMBERED_MAX = 1_000
"""Failures whose traceback was logged; the oldest are forgotten."""

_REASON_CHARACTERS_MAX = 200

_log = logging.getLogger(__name__)

_Known = tuple[TopicIdPartition, int, str]


class HandlerFailures:
    """Logs each failure, with its traceback the first time that a record fails so."""

    def __init__(self, on_failure: Failed | None) -> None:
        """``on_failure`` is called instead of logging."""
        self._on_failure = on_failure
        self._known: OrderedDict[_Known, None] = OrderedDict()

    def handler_failed(
        self, record: ConsumerRecord, error: Exception, kind: AcknowledgeType, retry_ms: int
    ) -> None:
        """Tell that a handler raised, and what becomes of the record."""
        if self._is_told(record, error):
            return
        place = f"{record.topic_id_partition}@{record.offset}"
        _log.error(
            "the handler failed on %s, delivery %d: %r; %s",
            place,
            record.delivery_count,
            error,
            _what_becomes(kind, retry_ms),
            exc_info=error if self._is_new(record, error) else None,
        )

    def works_long(self, record: ConsumerRecord, long_ms: int) -> None:
        """Tell of a handler that may hang."""
        _log.warning(
            "the handler has had %s@%d for %.0f s: its lock is renewed, so nobody else gets the "
            "record, until the handler ends; RunOptions(renew_max_ms=…) bounds that",
            record.topic_id_partition,
            record.offset,
            long_ms / 1_000,
        )

    def unreadable(self, error: SharemeshError) -> None:
        """Tell that a record or batch could not be read."""
        if not self._is_told(None, error):
            _log.error("%s", error)

    def partition_failed(self, error: SharemeshError) -> None:
        """Tell that a partition cannot be read for the time being."""
        _log.warning("%s; run goes on", error)
        self._is_told(None, error)

    def _is_told(self, record: ConsumerRecord | None, error: Exception) -> bool:
        """Tell the application; False if it did not ask for that."""
        if self._on_failure is None:
            return False
        try:
            self._on_failure(record, error)
        except Exception:
            _log.exception("on_failure of run failed itself, on %r", error)
        return True

    def _is_new(self, record: ConsumerRecord, error: Exception) -> bool:
        reason = repr(error)[:_REASON_CHARACTERS_MAX]
        known = (record.topic_id_partition, record.offset, reason)
        new = known not in self._known
        self._known[known] = None
        self._known.move_to_end(known)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return new


def _what_becomes(kind: AcknowledgeType, retry_ms: int) -> str:
    if kind is not AcknowledgeType.RELEASE:
        return f"on_error of run says {kind.name}"
    when = f"in {retry_ms} ms" if retry_ms else "at once"
    return (
        f"it is released for another try {when}, unless this delivery was the group's last one "
        "(share.delivery.count.limit): then it is archived"
    )
