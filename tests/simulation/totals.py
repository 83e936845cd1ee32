"""What many seeds come to: coverage, rare states, invariants, and whether that is enough."""

import hashlib
from collections import Counter

from tests.simulation.engines import kafka
from tests.simulation.engines.engine import MESH_FAULTS
from tests.simulation.faults import FAULTS
from tests.simulation.invariants import INVARIANTS, told
from tests.simulation.run import Outcome
from tests.simulation.world import Options

MIXED = "mixed"
RARE: dict[str, tuple[str, ...]] = {
    MIXED: (
        "fenced commit",
        "log epoch ended by the disk",
        "predecessor cut, tail appended again",
        "loaded from a generation",
        "log start moved by retention",
        "disk jobs between operations of another",
        "redelivered",
        "locks expired",
        "locks renewed",
        "grants that the in-flight limit decides",
        "late acknowledgements",
        "drains under load",
        "admin trim",
        "admin reset",
        "admin temporary topic",
        "admin new partition",
        "admin group settings",
        *(f"fault {name}" for name in FAULTS),
        *(each.counter for each in INVARIANTS if each.exists),
    ),
    "crowded": (
        "locks expired",
        "locks renewed",
        "late acknowledgements",
        "grants that the in-flight limit decides",
    ),
    "stalled": (
        "fault application_stalls",
        "fault client_frozen",
        "members that let a lock end unheard",
        "deliveries that do not count",
    ),
    "crashing": ("predecessor cut, tail appended again", "fault kill_in_job", "fault power_cut"),
    "usurped": ("fenced commit", "commits that a successor had taken over"),
    "trimmed": ("trims", "fault state_cut", "fault state_refused", "late acknowledgements"),
    "refused": ("fault state_full", "locks that go on after a refusal"),
    "leaderless": ("fault store_down", "answers of the store that were lost"),
    "delayed": (
        "late copies of requests",
        "late requests of an earlier life",
        "states that began again",
        "writes of deposed leaders",
    ),
    "delayed_retry": (
        "records released with a delay",
        "delays that survived a leader",
        "delayed hand-backs",
    ),
    "stored": ("tokens judged", "effects judged", "writes that a token refused"),
    "handed_over": (
        "locks that live on",
        "reads that waited for a last write",
        "acknowledgements of before, after a hand-over",
        "fault leader_drained",
    ),
    "held": ("acquisitions past held records", "locks renewed"),
    "paused": ("pauses", "fetches in a pause", "acknowledgements in a pause", "locks expired"),
    "pruned": ("generations committed, shards", "loaded from a generation", "groups deleted"),
    "unreadable": (
        "fault reads_fail",
        "reads of record logs that failed",
        "initializations that failed",
        "long polls beside a partition in error",
    ),
    "revoked": (
        "fault rights_revoked",
        "streams whose group was revoked",
        "refused by topic",
        "heartbeat streams ended by 29",
        "heartbeat streams ended by 30",
    ),
    "tenants": (
        "quotas changed",
        "produce requests refused by a quota",
        "produce answers with a throttle time",
        "deliveries with a throttle time",
        "looks at who waits for a quota",
        "acknowledgements of who is in debt",
        "judged by producer_byte_rate",
        "judged by consumer_byte_rate",
        "judged by record_rate",
        "judged by records_in_flight",
        "judged by streams",
        "looks at who waits for room",
        "sessions refused by a quota",
        "floods answered by 29",
        "floods answered by 89",
        "batches hoarded",
        "streams that the abusive tenant left",
        "joins of the abusive tenant answered by 30",
        "fault rights_revoked",
        "streams whose group was revoked",
    ),
    "latest": ("locks expired", "redelivered: its leader changed while it was held"),
}
"""What a run of many seeds of a workload must have reached."""

_RARE_ON_ALL = tuple(
    name
    for name in RARE[MIXED]
    if not name.startswith("fault ")
    and name
    not in (
        "log epoch ended by the disk",
        "predecessor cut, tail appended again",
        "loaded from a generation",
        "disk jobs between operations of another",
    )
)
RARE_ON_KAFKA: dict[str, tuple[str, ...]] = {
    MIXED: (
        *_RARE_ON_ALL,
        *(f"fault {name}" for name in (*MESH_FAULTS, *kafka.OWN_FAULTS)),
        *(f"requests to brokers {name}" for name in kafka.TROUBLES),
        "units that lay elsewhere: UnitCounts",
        "units that lay elsewhere: StampAnew",
        "units that lay elsewhere: FencedAbove",
    ),
    "compacted": (
        "fault compacted",
        *RARE["delayed_retry"],
        "locks expired",
        "redelivered: its leader changed while it was held",
    ),
    "crashing": ("fault broker_killed", "fault tail_lost", "fault power_cut"),
    "crowded": RARE["crowded"],
    "delayed_retry": RARE["delayed_retry"],
    "detached": (
        "topics detached",
        "fault kill",
        "locks expired",
        "redelivered: its leader changed while it was held",
    ),
    "lossy": ("losses", "losses that were said", "shards refused after a loss"),
    "pruned": ("groups deleted",),
    "tenants": RARE["tenants"],
    "usurped": RARE["usurped"],
}
"""The same on the Kafka engine."""

MIXED_SEEDS_MIN, SPECIAL_SEEDS_MIN = 100, 20  # so many seeds must have reached all of it
COVERED = {"virtual minutes": 10, "faults": 5, "acknowledgements": 2_000}  # by each mixed seed


class Totals:
    """Adds seeds up, in the order of their numbers."""

    def __init__(self, options: Options) -> None:
        self._workload = options.workload
        self._rare = RARE if options.engine == "embedded" else RARE_ON_KAFKA
        self.seeds = 0
        self.broken: list[int] = []
        self._texts: list[str] = []
        self._virtual_s = 0.0
        self._counters: Counter[str] = Counter()
        self._fewest: dict[str, int] = {}
        self._digest = hashlib.blake2b(digest_size=8)

    def add(self, outcome: Outcome) -> None:
        """Take one seed."""
        self.seeds += 1
        self._counters.update(outcome.counters)
        self._virtual_s += outcome.virtual_s
        self._digest.update(outcome.event_hash.encode())
        covered = {**outcome.counters, "virtual minutes": int(outcome.virtual_s / 60)}
        for name in COVERED:
            least = self._fewest.get(name, 1 << 30)
            self._fewest[name] = min(least, covered.get(name, 0))
        if outcome.violations:
            self.broken.append(outcome.seed)
            self._texts += outcome.violations

    def missed(self) -> list[str]:
        """Return what these seeds must reach and did not, so that they prove too little."""
        is_mixed = self._workload == MIXED
        is_many = self.seeds >= (MIXED_SEEDS_MIN if is_mixed else SPECIAL_SEEDS_MIN)
        rare = self._rare.get(self._workload, ()) if is_many else ()
        missed = [name for name in rare if not self._counters[name]]
        covered = COVERED if is_mixed else {}
        return missed + [
            f"{name} {self._fewest[name]}"
            for name, least in covered.items()
            if self._fewest[name] < least
        ]

    def lines(self, *, everything: bool) -> list[str]:
        """Return what a reader wants to know; ``everything``: each counter."""
        count, counters = self.seeds, self._counters
        judged = {each.counter for each in INVARIANTS}
        rare = [name for name in self._rare.get(self._workload, ()) if name not in judged]
        return [
            f"{count} seeds: {self._virtual_s / 3_600:.1f} virtual hours; "
            f"per seed {self._virtual_s / count / 60:.1f} virtual minutes, "
            f"{counters['faults'] / count:.1f} faults, "
            f"{counters['acknowledgements'] / count:.0f} acknowledgements",
            *(f"  {counters[name]:9d}  {name}" for name in sorted(counters) if everything),
            *(f"  {counters[name]:9d}  {name}" for name in rare if not everything),
            "invariants:",
            *told(counters, self._texts),
            f"fewest in one seed: {self._fewest}; broken seeds: {self.broken or 'none'}",
        ]

    @property
    def last_line(self) -> str:
        """How many seeds, how many with violations, and the hash of all their events."""
        digest = self._digest.hexdigest()
        return f"seeds={self.seeds} violations={len(self.broken)} hash={digest}"
