"""The services of one process over its filled ports: built, offered, started, drained, closed."""

from collections.abc import Awaitable, Callable, Sequence

from sharemesh.cluster.membership import ClusterMember
from sharemesh.ports.cluster import Role
from sharemesh.ports.network import Listener
from sharemesh.serve.process.measured_listener import MeasuredListener
from sharemesh.serve.process_context import ProcessContext, RoleService
from sharemesh.serve.roles.admin import AdminRole


class HostedRoles:
    """What a process of these roles runs, whatever fills its ports: the simulation's are these."""

    def __init__(
        self,
        roles: Sequence[Role],
        around: ProcessContext,
        begin_drain: Callable[[], Awaitable[None]],
    ) -> None:
        """Build; only what a role needs is imported. ``begin_drain`` starts a hand-over."""
        self._telemetry = around.telemetry
        self._services: list[RoleService] = [
            AdminRole(around, begin_drain),
            *(_build_role(role, around) for role in roles),
        ]

    def offer(self, listener: Listener) -> None:
        """Offer all methods, measured; call it before the port is open."""
        measured = MeasuredListener(listener, self._telemetry)
        for service in self._services:
            service.offer(measured)

    async def start(self, member: ClusterMember) -> None:
        """Begin work under the membership, then register it; call it once the port is open."""
        for service in self._services:
            await service.start(member)
        await member.start()

    async def drain(self) -> None:
        """Hand everything over, what was started last first."""
        for service in reversed(self._services):
            await service.drain()

    async def close(self) -> None:
        """End at once what is left."""
        for service in reversed(self._services):
            await service.close()


def _build_role(role: Role, around: ProcessContext) -> RoleService:
    match role:
        case Role.SHARE_LEADER:
            from sharemesh.serve.roles.share_leader import ShareLeaderRole

            return ShareLeaderRole(around)
        case Role.GROUP_COORDINATOR:
            from sharemesh.serve.roles.group_coordinator import GroupCoordinatorRole

            return GroupCoordinatorRole(around)
        case Role.SHARE_COORDINATOR:
            from sharemesh.serve.roles.share_coordinator import ShareCoordinatorRole

            return ShareCoordinatorRole(around)
        case Role.CONTROLLER:
            from sharemesh.serve.roles.controller import ControllerRole

            return ControllerRole(around)
