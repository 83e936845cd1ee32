"""Requests that may be repeated: asked again until there is an answer, or time is up."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharemesh.backends.kafka.record_logs.cluster_words import (
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
)
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.backoff import Backoff
from sharemesh.ports.brokers import BrokerRefusedError, BrokerUnreachableError

Answer = TypeVar("Answer")

_FINAL = frozenset({OFFSET_OUT_OF_RANGE, POLICY_VIOLATION})


async def until_answered(
    access: LogAccess, ask: Callable[[], Awaitable[Answer]], wait_ms: int
) -> Answer:
    """Return the answer; a leader that moved, or does not answer, is asked again (KRL-4).

    Raises:
        BrokerRefusedError, BrokerUnreachableError: The last one, when time is up.
        UnsupportedRequestError: At once.
    """
    deadline_ms = access.clock.now_ms() + wait_ms
    backoff = Backoff(access.bounds.retry_first_ms, access.bounds.retry_most_ms)
    while True:
        try:
            return await ask()
        except (BrokerRefusedError, BrokerUnreachableError) as error:
            is_final = isinstance(error, BrokerRefusedError) and error.code in _FINAL
            pause_ms = backoff.next_ms()
            if is_final or access.clock.now_ms() + pause_ms >= deadline_ms:
                raise
            await access.clock.sleep_ms(pause_ms)
