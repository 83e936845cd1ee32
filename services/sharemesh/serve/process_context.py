"""What a role is built from: filled ports, settings, and the process's own name."""

from dataclasses import dataclass
from random import Random
from typing import Protocol

from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import NodeId
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.disk import Disk
from sharemesh.ports.network import Caller, Listener
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.telemetry.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """The ports of one process, filled; every role of the process shares them."""

    settings: ServeSettings
    node_id: NodeId
    clock: Clock
    rng: Random
    coordination: Coordination
    view: WatchedView
    disk: Disk
    caller: Caller
    authorizer: Authorizer
    telemetry: Telemetry


class RoleService(Protocol):
    """One role of a process, from its building to its end."""

    def offer(self, listener: Listener) -> None:
        """Offer the role's methods; called before the port is open."""
        ...

    async def start(self, member: ClusterMember) -> None:
        """Begin work under this membership; called after the port is open, before registering."""
        ...

    async def drain(self) -> None:
        """Hand everything over; bounded by the settings."""
        ...

    async def close(self) -> None:
        """End at once what is left; called after ``drain``, or instead of it."""
        ...
