"""Lines about one share partition that somebody may have to act on; renewals only at debug."""

import logging
from collections.abc import Mapping

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.telemetry.trace_context import TraceContext

_log = logging.getLogger(__name__)


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
