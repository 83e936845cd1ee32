"""What was confirmed of shard logs, remembered outside of them: for storage that may lose it."""

from collections.abc import Callable
from typing import Protocol

from sharemesh.domain.stamped_log.seen import LostUnits, SeenUnits


class SeenLogs(Protocol):
    """What the owners of shard logs had confirmed (STL-24); ``name`` is for example ``state-3``."""

    async def stored(self, name: str) -> SeenUnits | None:
        """Return what is remembered of a log; None: nothing yet.

        Raises:
            LogFailedError: It cannot be asked now.
        """
        ...

    async def took_over(self, name: str, own: SeenUnits) -> SeenUnits:
        """Remember what a take-over found, before anything is served; return what then stands.

        Raises:
            LogFailedError: It cannot be written now.
        """
        ...

    def note(self, name: str, own: SeenUnits, on_loss: Callable[[LostUnits], None]) -> None:
        """Remember soon what an owner has confirmed; only the newest is kept until then.

        ``on_loss`` is called if an owner before had confirmed more than was found.
        """
        ...

    async def settle(self, name: str) -> None:
        """Write what was noted of a log, if that is possible soon; never raises for the store."""
        ...
