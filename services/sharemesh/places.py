"""Places for dear work: so many at once in a process, given in turn over the principals."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_Waiting = OrderedDict["asyncio.Future[None]", None]


class SharedPlaces:
    """Places that principals share; who waits for one bounds the wait.

    A place that is free goes to the principal that waits for its turn longest, and whose place it
    was is the last in turn: however much work one has waiting, another waits for the piece that is
    under way, and not for all of it.
    """

    def __init__(
        self, of_all: int, of_principal: int | None = None, *, newest_first: bool = False
    ) -> None:
        """Make ``of_all`` places, of which one principal may have ``of_principal``: else all.

        ``newest_first``: what a principal asks for last comes first. Where more is asked for than
        can be done, the oldest first would serve those that are about to give up.
        """
        self._of_all = of_all
        self._of_principal = of_all if of_principal is None else of_principal
        self._newest_first = newest_first
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self._taken.total()

    @asynccontextmanager
    async def place(self, principal: str) -> AsyncIterator[None]:
        """Hold a place of the principal; wait until there is one."""
        await self.take(principal)
        try:
            yield
        finally:
            self.give_back(principal)

    async def take(self, principal: str) -> None:
        """Return once the principal has one place more."""
        if principal not in self._waiting and self._is_free(principal):
            self._taken[principal] += 1
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(principal, OrderedDict())[given] = None
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                self.give_back(principal)
            else:
                self._left(principal, given)
            raise

    def give_back(self, principal: str) -> None:
        """One place less: those that wait get it in turn."""
        self._taken[principal] -= 1
        if not self._taken[principal]:
            del self._taken[principal]
        if principal in self._waiting:
            self._waiting.move_to_end(principal)
        for each in list(self._waiting):
            if self.taken >= self._of_all:
                return
            if self._is_free(each):
                self._give(each)

    def _is_free(self, principal: str) -> bool:
        return self.taken < self._of_all and self._taken[principal] < self._of_principal

    def _give(self, principal: str) -> None:
        """Give a place to who is first of a principal, whose next one is the last in turn."""
        waiting = self._waiting[principal]
        self._waiting.move_to_end(principal)
        given, _ = waiting.popitem(last=self._newest_first)
        while given.done() and waiting:  # it was given up in this turn of the loop
            given, _ = waiting.popitem(last=self._newest_first)
        if not waiting:
            del self._waiting[principal]
        if not given.done():
            self._taken[principal] += 1
            given.set_result(None)

    def _left(self, principal: str, given: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(principal)
        if waiting is not None:
            waiting.pop(given, None)
            if not waiting:
                del self._waiting[principal]
