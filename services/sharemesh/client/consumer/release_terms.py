"""The delay of a release, and whether its delivery counts, as applications say it."""

from datetime import timedelta

from sharemesh.client.argument_checks import shown
from sharemesh.client.consumer.deliveries import ReleaseTerms
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.group_config.retry_delays import RELEASE_DELAY_MAX_MS

_DAY_S = RELEASE_DELAY_MAX_MS // 1_000


def release_terms(
    record: ConsumerRecord,
    kind: AcknowledgeType,
    delay: float | timedelta | None,
    *,
    counted: bool,
) -> ReleaseTerms | None:
    """Return the terms of a release; None: it has none of its own.

    Raises:
        IllegalArgumentError: The delay is out of bounds, or the acknowledgement is no RELEASE.
    """
    if delay is None and counted:
        return None
    if kind is not AcknowledgeType.RELEASE:
        raise IllegalArgumentError(
            f"delay= and counted= are for RELEASE, not {kind.name}: leave them out"
        )
    return ReleaseTerms(delay_in_ms(delay), 0 if counted else record.delivery_count)


def delay_in_ms(delay: float | timedelta | None) -> int | None:
    """Return a delay in ms, rounded up; None for none of its own.

    Raises:
        IllegalArgumentError: It is negative or above a day.
    """
    if delay is None:
        return None
    if not isinstance(delay, int | float | timedelta):
        raise IllegalArgumentError(f"a delay is seconds or a timedelta, but is {delay!r}")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if not 0 <= seconds <= _DAY_S:  # nor is nan
        raise IllegalArgumentError(f"a delay of {shown(delay)}: give 0 to {_DAY_S} seconds")
    return min(-int(-seconds * 1_000 // 1), RELEASE_DELAY_MAX_MS)
