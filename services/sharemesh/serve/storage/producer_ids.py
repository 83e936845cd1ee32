"""Producer ids in blocks from the coordination store."""

import asyncio
from collections.abc import Callable

from sharemesh.cluster.store.configs import take_producer_ids
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, CoordinationError


class BlockProducerIds:
    """Fills ``ports.producer_ids.ProducerIds``; a block that is not used up is lost, no harm.

    A new block begins above what the logs led here hold (``highest_seen``): the counter of a
    store that was restored from a backup may lie below.
    """

    def __init__(
        self, coordination: Coordination, view: ClusterView, highest_seen: Callable[[], int]
    ) -> None:
        self._highest_seen = highest_seen
        self._coordination = coordination
        self._view = view
        self._block = iter(range(0))
        self._lock = asyncio.Lock()

    async def allocate(self) -> int:
        """Return an id that was never given out before.

        Raises:
            RefusedError: COORDINATOR_NOT_AVAILABLE while no new block can be had.
        """
        async with self._lock:
            found = next(self._block, None)
            if found is not None:
                return found
            try:
                block = await take_producer_ids(
                    self._coordination, self._view, at_least=self._highest_seen() + 1
                )
            except CoordinationError as error:
                raise RefusedError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no producer id: {error}"
                ) from error
            self._block = iter(block)
            return next(self._block)
