"""The controller, built."""

from sharemesh.cluster.membership import ClusterMember
from sharemesh.controller.placement_controller import PlacementController
from sharemesh.ports.network import Listener
from sharemesh.serve.process_context import ProcessContext


class ControllerRole:
    """Fills ``RoleService``: placement, by whoever is elected."""

    def __init__(self, around: ProcessContext) -> None:
        self._around = around
        self._controller: PlacementController | None = None

    def offer(self, listener: Listener) -> None:
        """Offer nothing: the controller speaks through the coordination store."""

    async def start(self, member: ClusterMember) -> None:
        """Stand for election."""
        self._controller = PlacementController(
            self._around.coordination,
            member,
            self._around.view,
            self._around.clock,
            telemetry=self._around.telemetry,
        )
        await self._controller.start()

    async def drain(self) -> None:
        """Resign: another controller is elected."""
        await self.close()

    async def close(self) -> None:
        """Resign."""
        controller, self._controller = self._controller, None
        if controller is not None:
            await controller.close()
