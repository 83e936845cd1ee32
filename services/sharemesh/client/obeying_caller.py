"""Calls that obey quotas: a process that says how long to wait is not asked before (QUO-11)."""

import logging

from sharemesh.client.errors import ThrottlingQuotaExceededError
from sharemesh.client.throttle_times import ThrottleTimes
from sharemesh.domain.quota.sentences import Spells
from sharemesh.methods import Method, Request, Response
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import Caller, CallFailedError, Failure, Stream

_log = logging.getLogger(__name__)


class ObeyingCaller:
    """Unary calls of one client; each waits for the throttle time of its process first.

    A call that a quota refused was not begun, so it is made again after the throttle time. No wait
    goes beyond the time-out of its call: one that would is not begun, and the call fails.
    """

    def __init__(self, caller: Caller, clock: Clock) -> None:
        self._caller = caller
        self._clock = clock
        self._spells = Spells()
        self.throttled = ThrottleTimes(clock)

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        to: str,
        timeout_ms: int | None = None,
    ) -> Response:
        """Return the response of a unary method (see the port).

        Raises:
            CallFailedError: Also RESOURCE_EXHAUSTED, if the throttle time is longer than the
                time-out.
        """
        may_take_ms = method.deadline_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._clock.now_ms() + may_take_ms
        while True:
            too_long = await self._turn(to, deadline_ms)
            if too_long:
                words = f"{method.name} to {to}: {too_long}"
                raise CallFailedError(Failure.RESOURCE_EXHAUSTED, words)
            left_ms = max(deadline_ms - self._clock.now_ms(), 1)
            try:
                response = await self._caller.call(method, request, to=to, timeout_ms=left_ms)
            except CallFailedError as error:
                if not error.throttle_ms:
                    raise
                self._told(to, error.throttle_ms)
                continue
            self._told(to, getattr(response, "throttle_time_ms", 0))
            return response

    async def stream(
        self, method: Method[Request, Response], *, to: str
    ) -> Stream[Request, Response]:
        """Open a bidirectional stream (see the port); its messages say themselves when to wait."""
        return await self._caller.stream(method, to=to)

    async def until_free(self, to: str, deadline_ms: int) -> None:
        """Wait for the throttle time of a process.

        Raises:
            ThrottlingQuotaExceededError: It is not over at the deadline.
        """
        too_long = await self._turn(to, deadline_ms)
        if too_long:
            raise ThrottlingQuotaExceededError(too_long)

    async def close(self) -> None:
        """Close the connections."""
        await self._caller.close()

    async def _turn(self, to: str, deadline_ms: int) -> str:
        """Wait; return why that would be too long, in words."""
        while left_ms := self.throttled.left_ms(to):
            room_ms = deadline_ms - self._clock.now_ms()
            if left_ms >= room_ms:
                return (
                    f"a quota lets {to} answer in {left_ms} ms, and the call may take "
                    f"{max(room_ms, 0)} ms: ask less often, allow it more time, or see "
                    "`sharemesh quotas describe`"
                )
            await self._clock.sleep_ms(left_ms)
        return ""

    def _told(self, to: str, throttle_ms: int) -> None:
        self.throttled.told(to, throttle_ms)
        if throttle_ms > 0 and self._spells.begins(to, self._clock.now_ms()):
            _log.warning(
                "a quota slows down calls to %s: the next one waits for %d ms; ask less often, or "
                "see `sharemesh quotas describe`",
                to,
                throttle_ms,
            )
