"""What every part of the leader is given: settings, ports, timers, counters, lapsed locks."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import GroupId, NodeId, TopicId
from sharemesh.domain.quota.counts import HeldRecords
from sharemesh.domain.share_partition.effects import Lapse
from sharemesh.domain.share_partition.events import uncounted
from sharemesh.domain.share_session import SessionKey
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.share_state import PersisterPort
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.share_leader.time_searches import TimeSearches
from sharemesh.share_leader.turns import LoopTurns
from sharemesh.tasks import OwnedTasks
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh.timers import Timers


class Lapses:
    """From share partitions to the streams of a leader, at most one for each member (HBK-10)."""

    def __init__(self) -> None:
        self._streams: dict[SessionKey, Callable[[int], None]] = {}

    def watch(self, key: SessionKey, lapsed: Callable[[int], None]) -> None:
        """Call back with the time since when a member had locks that ended; replaces an older."""
        self._streams[key] = lapsed

    def unwatch(self, key: SessionKey, lapsed: Callable[[int], None]) -> None:
        """Stop calling back, unless another stream of the member has taken the place."""
        if self._streams.get(key) == lapsed:
            del self._streams[key]

    def tell(self, group_id: GroupId, lapses: Iterable[Lapse]) -> None:
        """Notify the streams of members; unary fetches need no notice (HBK-12)."""
        for lapse in lapses:
            lapsed = self._streams.get(SessionKey(group_id, lapse.member_id))
            if lapsed is not None:
                lapsed(lapse.since_ms)


@dataclass(slots=True)
class LeaderCounters:
    """Totals since the process began."""

    records_produced: int = 0
    bytes_produced: int = 0
    records_acquired: int = 0
    bytes_delivered: int = 0
    locks_expired: int = 0  # records (spec LK-10)
    sessions_evicted: int = 0  # by loss of their connection (spec SES-12)
    fetches_expired: int = 0  # long polls that ended by max_wait_ms
    invariants_checked: int = 0
    invariants_broken: int = 0
    acknowledged: Counter[AcknowledgeType] = field(default_factory=Counter)  # offsets (MET-1)
    fetch_requests: Counter[TopicId] = field(default_factory=Counter)  # spec MET-3
    failed_fetch_requests: Counter[TopicId] = field(default_factory=Counter)
    acknowledge_requests: Counter[TopicId] = field(default_factory=Counter)
    failed_acknowledge_requests: Counter[TopicId] = field(default_factory=Counter)


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
    time_searches: TimeSearches
    tally_of: Callable[[str], HeldRecords | None] = uncounted  # of a principal (QUO-12)
    lapses: Lapses = field(default_factory=Lapses)
    turns: LoopTurns = field(default_factory=LoopTurns)
    rng: Random = field(default_factory=Random)  # for the jitter of retries only (RTY-4)
    acquisitions: Iterator[int] = field(default_factory=partial(count, 1))  # numbers (TOK-1)

    def draw(self, config: GroupConfig) -> float:
        """Return chance from -1 to 1 for the back-off of a group; 0 if it has none (RTY-4)."""
        retry = config.retry
        return self.rng.uniform(-1, 1) if retry.is_set and retry.jitter else 0.0
