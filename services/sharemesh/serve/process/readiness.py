"""Readiness follows the registration: not ready while no session can be trusted."""

import asyncio

from sharemesh.cluster.membership import ClusterMember
from sharemesh.rpc.standard_services import READINESS, Health


class Readiness:
    """Switches the health service's ``readiness``; liveness never depends on the store."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, member: ClusterMember) -> None:
        """Follow a member that has not started yet."""
        member.on_registered(self._registered)
        member.on_lost(self._lost)

    async def close(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _registered(self) -> None:
        task = asyncio.ensure_future(self._health.set_serving(READINESS, serving=True))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lost(self) -> None:
        await self._health.set_serving(READINESS, serving=False)
