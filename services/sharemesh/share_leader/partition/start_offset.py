"""Where a share partition without stored state begins (spec INI-4)."""

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config.durations import reset_duration_ms
from sharemesh.ports.clock import Clock
from sharemesh.ports.record_log import PartitionLog


async def resolve_start_offset(policy: str, log: PartitionLog, clock: Clock) -> int:
    """Return the offset that ``share.auto.offset.reset`` means in this log now.

    ``latest`` is the high watermark, ``earliest`` the log start, ``by_duration:…`` the first
    record at most that old (the high watermark if there is none).

    Raises:
        RefusedError: INVALID_CONFIG for another policy, or the log's own error.
    """
    duration_ms = reset_duration_ms(policy)
    if duration_ms is not None:
        found = await log.offset_for_timestamp(clock.wall_ms() - duration_ms)
        return log.high_watermark if found is None else found[0]
    if policy.lower() == "earliest":
        return log.log_start_offset
    if policy.lower() == "latest":
        return log.high_watermark
    raise RefusedError(
        ErrorCode.INVALID_CONFIG,
        f"share.auto.offset.reset is {policy!r}; set latest, earliest or by_duration:PnDTnHnMnS",
    )
