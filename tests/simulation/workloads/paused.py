"""A group that is paused and resumed all the time, while leaders change (PAU)."""

import asyncio
import contextlib

from sharemesh.client.errors import SharemeshError
from tests.simulation.checkers.pauses import PauseChecker
from tests.simulation.patching import Patches
from tests.simulation.workloads.special import SpecialWorkload
from tests.simulation.world import World

PAUSED_S, BETWEEN_S = (0.5, 20.0), (0.5, 5.0)
AGAIN_S = 0.5


class PausedWorkload(SpecialWorkload):
    """Locks end, members say their word and die, and leaders change in pauses as ever."""

    fault_kinds = ("kill", "client_killed", "drain", "network_slow", "resets")
    fault_gap_s = (1.0, 6.0)
    active_s = 90.0
    finish_s = 150.0
    producer_gap_s = (0.1, 0.8)
    modes = ("explicit", "partial", "late", "renewing")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.pauses = PauseChecker(world)

    def install(self, patches: Patches) -> None:
        super().install(patches)
        self.pauses.install(patches)

    async def _administer(self, end_s: float) -> None:
        [group] = self.groups
        while self.world.now_s < end_s:
            await asyncio.sleep(self.rng.uniform(*BETWEEN_S))
            with contextlib.suppress(SharemeshError):
                await self.admin.pause_group(group)
                self.pauses.paused(group)
                self.world.tell(f"{group} is paused")
            await asyncio.sleep(self.rng.uniform(*PAUSED_S))
            self.pauses.resumes(group)
            await self._resume(group)

    async def _resume(self, group: str) -> None:
        """End a pause; whether it began may be unknown."""
        while True:
            try:
                await self.admin.resume_group(group)
            except SharemeshError:
                await asyncio.sleep(AGAIN_S)
            else:
                self.world.tell(f"{group} is resumed")
                return
