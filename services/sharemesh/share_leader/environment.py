"""What every part of the leader needs of its surroundings, in one value."""

from dataclasses import dataclass, field

from sharemesh.domain.ids import NodeId
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.share_state import PersisterPort
from sharemesh.share_leader.counters import LeaderCounters
from sharemesh.share_leader.lapses import Lapses
from sharemesh.share_leader.owned_tasks import OwnedTasks
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.share_leader.timers import Timers
from sharemesh.telemetry.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class LeaderEnvironment:
    """Ports, bounds, counters and the owner of background tasks of one leader process."""

    node_id: NodeId
    clock: Clock
    view: ClusterView
    persister: PersisterPort
    settings: LeaderSettings
    counters: LeaderCounters
    alarms: Timers
    tasks: OwnedTasks
    telemetry: Telemetry
    lapses: Lapses = field(default_factory=Lapses)
