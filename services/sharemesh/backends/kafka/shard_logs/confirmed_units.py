"""How far the log of one shard was confirmed, told to what remembers it (STL-24 to STL-26)."""

from collections.abc import Callable
from dataclasses import replace

from sharemesh.domain.stamped_log.seen import LostUnits, SeenUnits, lost_words
from sharemesh.domain.stamped_log.writing import WriterPosition
from sharemesh.ports.seen_units import SeenLogs
from sharemesh.ports.shard_log import LossFoundError


class ConfirmedUnits:
    """What one owner of a log knows to be confirmed.

    Args:
        seen: What remembers it.
        name: The shard, for example ``state-3``.
        epoch: Of this owner.
        place: The partition, for people.
    """

    def __init__(self, seen: SeenLogs, name: str, epoch: int, place: str) -> None:
        self._seen = seen
        self._name = name
        self._place = place
        self._own = SeenUnits(epoch, 0, 0, 0, 0)

    async def check(self) -> None:
        """Return if no loss waits for an operator; nothing is written to the log before.

        Raises:
            LossFoundError: One does.
            LogFailedError: That cannot be asked now.
        """
        stored = await self._seen.stored(self._name)
        if stored is None:
            return
        if stored.loss is not None:
            raise self._lost(stored.loss)
        self._own = replace(self._own, accepted=stored.accepted)

    async def took_over(self, position: WriterPosition) -> None:
        """Remember what was found below the own fence; return if nothing is missing there.

        Raises:
            LossFoundError: Less was found than had been confirmed.
            LogFailedError: That cannot be written now.
        """
        units, end = position.number, position.fence
        self._own = replace(self._own, base=units, base_end=end, units=units, end=end)
        found = await self._seen.took_over(self._name, self._own)
        if found.loss is not None:
            raise self._lost(found.loss)

    def note(self, units: int, end: int, fail: Callable[[LossFoundError], None]) -> None:
        """A unit was confirmed; ``fail`` hears if an owner before had confirmed more."""
        self._own = replace(self._own, units=units, end=end)
        self._seen.note(self._name, self._own, lambda loss: fail(self._lost(loss)))

    async def settle(self) -> None:
        """Let what was noted be written, if that is possible soon."""
        await self._seen.settle(self._name)

    def _lost(self, loss: LostUnits) -> LossFoundError:
        return LossFoundError(
            f"{self._place}: {lost_words(self._name, loss)}",
            file=self._place,
            offset=loss.found_end,
        )
