"""What the answers of unary calls may take until they have left (spec BND-33).

gRPC holds an answer until its caller reads it, and cannot take it back: of a hundred questions
about 10,000 names each, whose answers nobody read, a process held 170 MiB (measured).
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable

from sharemesh.methods import FETCH, PRODUCE, SHARE_FETCH
from sharemesh.ports.network import LEAST_READ_BYTES
from sharemesh.rpc.limits import ServerLimits

ANSWER_FACTOR = 32
"""An answer without records says up to so many times what was asked: a sentence for each name."""

_FACTORS = {FETCH.name: 8, SHARE_FETCH.name: 8, PRODUCE.name: 1}
"""Fetches name everything each time, and wait long; a Produce is its records, most of it."""

SMALL_REQUEST_BYTES = 1024
"""A request up to this size counts for nothing until it is answered."""

SMALL_ANSWER_BYTES = 4 * 1024
"""An answer up to this size is not counted."""

_Waiting = deque[tuple[int, "asyncio.Future[None]"]]


class UnsentAnswers:
    """Bytes of answers that are made or wait to be sent, and whose they are.

    The cluster's own principals are not counted. Whoever has nothing under way is never kept
    waiting by others.
    """

    def __init__(self, limits: ServerLimits, own: Iterable[str] = ()) -> None:
        self._own = frozenset(own)
        self._of_all = limits.answer_bytes
        self._of_principal = limits.principal_answer_bytes
        self._of: Counter[str] = Counter()
        self._waiting: dict[str, _Waiting] = {}
        self._small: dict[str, _Waiting] = {}
        self.total = 0

    def of(self, principal: str) -> int:
        """Return what the calls of a principal have."""
        return self._of[principal]

    async def begin(self, principal: str, method: str, request_bytes: int) -> "UnsentAnswer":
        """Return once a call may begin, with what is set aside for its answer."""
        answer = UnsentAnswer(self, principal)
        if principal in self._own:
            return answer
        is_small = request_bytes <= SMALL_REQUEST_BYTES
        factor = _FACTORS.get(method, ANSWER_FACTOR)
        size = 0 if is_small else min(request_bytes * factor, self._of_principal)
        queues = self._small if is_small else self._waiting
        if principal in queues or not self._fits(principal, size):
            await self._turn(queues, principal, size)
        elif size:
            self.change(principal, size)
        answer.has(size)
        return answer

    def is_own(self, principal: str) -> bool:
        """Return whether nothing of a principal is counted."""
        return principal in self._own

    def room(self, principal: str) -> int:
        """Return how many bytes more a principal may have."""
        return min(self._of_principal - self._of[principal], self._of_all - self.total)

    def change(self, principal: str, difference: int) -> None:
        """Count bytes more, or fewer: then calls that wait begin."""
        self.total += difference
        self._of[principal] += difference
        if not self._of[principal]:
            del self._of[principal]
        if difference < 0 and (self._waiting or self._small):
            self._call()

    async def until_room(self, principal: str) -> None:
        """Return once a read of a principal has room, in the order of asking; it takes none."""
        if principal in self._waiting or not self._fits(principal, LEAST_READ_BYTES):
            await self._turn(self._waiting, principal, LEAST_READ_BYTES)
            self.change(principal, -LEAST_READ_BYTES)

    async def _turn(self, queues: dict[str, _Waiting], principal: str, size: int) -> None:
        """Wait, and have ``size`` bytes afterwards."""
        called = asyncio.get_running_loop().create_future()
        queues.setdefault(principal, deque()).append((size, called))
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self.change(principal, -size)
            else:
                self._call()  # those behind it may fit
            raise

    def _fits(self, principal: str, size: int) -> bool:
        """What is small has twice the room, so that it never waits behind what is read slowly."""
        has = self._of[principal]
        if not size:
            return has < 2 * self._of_principal
        return not has or (has + size <= self._of_principal and self.total + size <= self._of_all)

    def _call(self) -> None:
        for queues in (self._small, self._waiting):
            for principal in list(queues):
                waiting = queues[principal]
                while waiting and (waiting[0][1].done() or self._fits(principal, waiting[0][0])):
                    size, called = waiting.popleft()
                    if not called.done():
                        self.change(principal, size)
                        called.set_result(None)
                if not waiting:
                    del queues[principal]


class UnsentAnswer:
    """What one call has until its answer has left; fills ``ports.network.AnswerRoom``."""

    __slots__ = ("_answers", "_principal", "size")

    def __init__(self, answers: UnsentAnswers, principal: str) -> None:
        self._answers = answers
        self._principal = principal
        self.size = 0

    def has(self, size: int) -> None:
        """It has so much, which is counted already."""
        self.size = size

    def made(self, size: int) -> None:
        """The answer is made; what was set aside for it is over."""
        self._hold(size if size > SMALL_ANSWER_BYTES else 0)

    def ended(self) -> None:
        """The answer has left, or there is none."""
        self._hold(0)

    async def until_room(self, timeout_ms: int) -> None:
        """Return once something may be read, or when the time is over."""
        if self._answers.is_own(self._principal):
            return
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._answers.until_room(self._principal)
        except TimeoutError:
            return

    def take(self, most: int) -> int:
        """Set bytes aside for what is read now, and return how many; 0: there is no room."""
        if self._answers.is_own(self._principal):
            return most
        room = self._answers.room(self._principal)
        if room < LEAST_READ_BYTES:
            others = self._answers.of(self._principal) - self.size
            room = 0 if others else LEAST_READ_BYTES
        taken = min(most, room)
        self._hold(self.size + taken)
        return taken

    def give_back(self, size: int) -> None:
        """Of what was set aside so much was not read."""
        self._hold(max(0, self.size - size))

    def _hold(self, size: int) -> None:
        if size != self.size and not self._answers.is_own(self._principal):
            difference, self.size = size - self.size, size
            self._answers.change(self._principal, difference)
