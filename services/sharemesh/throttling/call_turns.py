"""How many calls of one principal begin in one turn of the loop (spec BND-28)."""

import asyncio
from collections import deque
from collections.abc import Iterable

from sharemesh.arriving_calls import Pause, arriving_calls

UNITS_OF_A_TURN = 4
"""Small calls of one principal that begin in a turn; one large call may exceed it."""

BYTES_OF_A_UNIT = 16 * 1024
"""A request counts as one call, and as one more for each part of this size."""

MANY_CALLS = 64
"""Calls of one principal that wait, beyond which it is looked at whether more come than begin."""

GROWN_CALLS = 32
"""More come than begin if so many more wait than the fewest since calls of it were held last."""


class CallTurns:
    """Lets calls begin at once while their principal begins few; more wait for the next turns.

    A call passes the loop several times until it is answered. If hundreds of one caller all did
    their first piece of work in one turn, each of these passes would last as long for everybody.
    After a large one, calls that arrive begin before the next large one that waits; so do they
    before those of a principal of which more come than begin. The cluster's own principals never
    wait.
    """

    def __init__(self, own: Iterable[str] = ()) -> None:
        self._own = frozenset(own)
        self._begun: dict[str, int] = {}  # units of this turn, by principal
        self._waiting: dict[str, deque[tuple[asyncio.Future[None], int]]] = {}
        self._turn_ends = False
        self._pause: Pause | None = None
        self._holds_large = self._holds_many = False  # what waits for the end of the pause
        self._fewest = 0  # of the principal with most that wait, since the last pause

    async def turn(self, principal: str, request_bytes: int) -> None:
        """Return when a call of the principal may begin; its calls keep their order."""
        if principal in self._own:
            return
        units = 1 + request_bytes // BYTES_OF_A_UNIT
        begun = self._begun.get(principal, 0)
        if begun < UNITS_OF_A_TURN and principal not in self._waiting:
            self._begun[principal] = begun + units
            self._end_turn_soon()
            return
        called = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(principal, deque()).append((called, units))
        self._end_turn_soon()
        await called

    def _end_turn_soon(self) -> None:
        if not self._turn_ends:
            self._turn_ends = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_ends = False
        longest = max(map(len, self._waiting.values()), default=0)
        self._pause_if_due(longest)
        many = max(MANY_CALLS, longest // 2)
        self._begun.clear()
        for principal in list(self._waiting):
            waiting, begun = self._waiting[principal], 0
            while waiting and begun < UNITS_OF_A_TURN:
                if self._holds_many and len(waiting) > many:
                    break
                if self._holds_large and waiting[0][1] > UNITS_OF_A_TURN:
                    break
                called, units = waiting.popleft()
                if not called.done():  # its caller still waits
                    called.set_result(None)
                    begun += units
            if not waiting:
                del self._waiting[principal]
            if begun:
                self._begun[principal] = begun
        if self._begun or self._waiting:
            self._end_turn_soon()

    def _pause_if_due(self, longest: int) -> None:
        """Decide once a turn what waits for calls that arrive; ``longest`` is of one principal."""
        if self._pause is None:
            self._fewest = min(self._fewest, longest)
        if self._waiting:
            self._holds_large |= max(self._begun.values(), default=0) > UNITS_OF_A_TURN
            self._holds_many |= longest > max(MANY_CALLS, self._fewest + GROWN_CALLS)
        if self._pause is None and (self._holds_large or self._holds_many):
            self._pause = arriving_calls().pause()
        if self._pause is not None and self._pause.is_over():
            self._pause, self._fewest = None, longest
            self._holds_large = self._holds_many = False
