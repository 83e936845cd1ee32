"""What the simulation needs of the engine that keeps the logs; everything else knows none."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.record_log import RecordLogs
from sharemesh.ports.shard_log import LogRecord, ShardLogs
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.process_storage import ProcessStorage
from sharemesh.share_coordinator.generations import GenerationReader
from sharemesh.telemetry.telemetry import Telemetry
from tests.simulation.loop import Process, SimClock
from tests.simulation.patching import Patches

CLUSTER = "simulated"
GROUP_SHARDS = 2
STATE_SHARDS = 3

MESH_FAULTS = (
    "application_stalls",
    "client_frozen",
    "client_killed",
    "drain",
    "freeze",
    "kill",
    "lease_lost",
    "network_slow",
    "partition",
    "power_cut",
    "resets",
    "store_cut",
    "store_slow",
    "usurp",
    "vanish",
)
"""Faults of ``mixed`` that every engine has, in ``tests/simulation/faults.py``."""

OpenStorage = Callable[[WatchedView, Telemetry], ProcessStorage]
TookOver = Callable[[str, int, int], None]
"""Told a log's name, the epoch that owns it from now on, and where its predecessors' part ends."""
Committed = Callable[[str, int, int], None]
"""Told a log's name, the epoch under which something was confirmed, and where that ends."""
OwnerNow = Callable[[str], int]
"""Returns the highest epoch that has taken a log over by now, by the log's name; -1: none."""
LookPassed = Callable[[str, int, int], None]
"""Told a log's name, the epoch of who looked, and who owned it before that began."""
Begins = Callable[[TopicId, int, int], None]
"""Told of a topic-partition where it begins now."""


class CommittedStates(NamedTuple):
    """All that is committed of a state shard and was not deleted yet."""

    start_offset: int
    end_offset: int
    records: Sequence[LogRecord]


@dataclass(frozen=True, slots=True)
class LogsOfAuditor:
    """The logs as who takes everything over opens them."""

    shards: ShardLogs
    records: RecordLogs
    partitions: Callable[[], Awaitable[Iterable[TopicPartition]]]


class Engine(Protocol):
    """One engine in one run.

    Attributes:
        faults: Names of the faults among which ``mixed`` chooses.
        retention: Settings of a topic that loses records after a minute.
        has_generations: Whether the state log is folded into generations.
        fences_at_once: Whether nobody ends a take-over once a higher epoch has ended its own.
    """

    faults: list[str]
    retention: dict[str, str]
    has_generations: bool
    fences_at_once: bool

    def faults_like(self, kind: str) -> Sequence[str]:
        """Return what a special workload has here in the place of a kind of fault."""
        ...

    def settings(self) -> dict[str, Any]:
        """Return the settings of a process that belong to the engine."""
        ...

    async def claim(
        self,
        process: Process,
        settings: ServeSettings,
        coordination: Coordination,
        clock: SimClock,
        rng: Random,
    ) -> OpenStorage:
        """Make the storage of one life of a process, or check it, as production does."""
        ...

    async def begin_fault(self, name: str) -> None:
        """Carry out a fault of the engine's own."""
        ...

    def begin(self) -> None:
        """Begin what goes on by itself."""
        ...

    def heal(self) -> None:
        """End all faults of the engine."""
        ...

    def slow(self, permille: int) -> None:
        """Let so many of a thousand writes be late."""
        ...

    def refuse_writes(self) -> None:
        """Let no write pass until ``take_writes``."""
        ...

    def take_writes(self) -> None:
        """Let writes pass again."""
        ...

    def cut_reads(self, process: Process, *, cut: bool) -> None:
        """Let a process read no record log, or let it again."""
        ...

    def lose_power(self) -> None:
        """The machine of the processes loses its power."""
        ...

    def count(self, counters: Counter[str]) -> None:
        """Add what the engine counted itself."""
        ...

    # ---- for checkers ---------------------------------------------------------------------------

    def observe(self, patches: Patches, counters: Counter[str]) -> None:
        """Count rare states on the way."""
        ...

    def watch_owners(self, patches: Patches, took_over: TookOver, committed: Committed) -> None:
        """Tell of every take-over of a log, and of every commit."""
        ...

    def watch_looks(self, patches: Patches, owner: OwnerNow, passed: LookPassed) -> None:
        """Tell of every look at who owns a log that lets an answer go."""
        ...

    def watch_log_starts(self, patches: Patches, begins: Begins) -> None:
        """Tell of every record log that begins elsewhere."""
        ...

    def before_pruning(self, patches: Patches, read_on: Callable[[int, int], None]) -> None:
        """Tell of a state shard, and below which offset, before records of it are deleted."""
        ...

    def hold_commits_up(self, patches: Patches) -> None:
        """Let successors come between a commit's last look and its confirmation."""
        ...

    def committed_states(self, shard: int, below: int = 0) -> CommittedStates:
        """Read a state shard from outside; all below ``below`` is known to be committed."""
        ...

    def generations(self, process: Process) -> GenerationReader | None:
        """Return where generations are read; None: there are none."""
        ...

    async def logs_of_auditor(self, process: Process, clock: SimClock) -> LogsOfAuditor:
        """Return the logs for who reads everything when all processes are gone."""
        ...
