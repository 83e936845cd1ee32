"""Producer ids in blocks from the coordination store."""

import asyncio

from sharemesh.cluster.config_store import next_producer_id_block
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, CoordinationError


class BlockProducerIds:
    """Fills ``ports.producer_ids.ProducerIds``; a block that is not used up is lost, no harm."""

    def __init__(self, coordination: Coordination, view: ClusterView) -> None:
        self._coordination = coordination
        self._view = view
        self._block = iter(range(0))
        self._lock = asyncio.Lock()

    async def allocate(self) -> int:
        """Return an id that nobody had before.

        Raises:
            RefusedError: COORDINATOR_NOT_AVAILABLE while no new block can be had.
        """
        async with self._lock:
            found = next(self._block, None)
            if found is not None:
                return found
            try:
                self._block = iter(await next_producer_id_block(self._coordination, self._view))
            except CoordinationError as error:
                raise RefusedError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no producer id: {error}"
                ) from error
            return next(self._block)
