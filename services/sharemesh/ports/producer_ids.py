"""Ids of idempotent producers, unique over the cluster."""

from typing import Protocol


class ProducerIds(Protocol):
    """Hands out ids; a filling takes them in blocks."""

    async def allocate(self) -> int:
        """Return an id, at least 0, that no producer of this cluster had before.

        Raises:
            RefusedError: COORDINATOR_NOT_AVAILABLE while no new block can be had.
        """
        ...
