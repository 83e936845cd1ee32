"""Settings of the share coordinator (spec CFG-14, LOG-21)."""

from dataclasses import dataclass, field

from sharemesh.domain.share_state.snapshot_parts import PART_BATCHES
from sharemesh.domain.share_state.snapshot_schedule import (
    DEFAULT_UPDATES_PER_SNAPSHOT,
    LARGE_BATCHES,
)
from sharemesh.runtime.shard_kind import RuntimeLimits

_DAY_MS = 24 * 60 * 60 * 1_000


@dataclass(frozen=True, slots=True)
class ShareCoordinatorSettings:
    """Times in ms. Names in comments are Kafka's, or this project's where Kafka has none."""

    updates_per_snapshot: int = DEFAULT_UPDATES_PER_SNAPSHOT
    """share.coordinator.snapshot.update.records.per.snapshot, 0 to 500, both included."""
    large_batches: int = LARGE_BATCHES
    """A state with more state batches has its snapshots in parts (WIN-12)."""
    part_batches: int = PART_BATCHES
    """State batches of such a part, and of a part that a leader reads (WIN-15)."""
    prune_interval_ms: int = 300_000
    """share.coordinator.state.topic.prune.interval.ms"""
    cold_snapshot_interval_ms: int = 300_000
    """share.coordinator.cold.partition.snapshot.interval.ms"""
    generation_grace_ms: int = 7 * _DAY_MS
    """state.log.spark.grace.ms: a generation not renewed for this long no longer stops pruning."""
    topic_grace_ms: int = 0
    """How long the states of a topic that is not known any more are kept at least, in case it comes
    back (KTP-10); 0: it never does, its states go at once."""
    metadata_wait_ms: int = 200
    """How long a request waits for a topic that is not in this node's cluster view yet."""
    hand_over_wait_ms: int = 3_000
    """How long a read waits for the last write of the leader before (HND-13), and a shard that is
    given up in order for those who read the locks that it keeps (HND-14)."""
    keys_per_decision: int = 100
    """A request on more share partitions of one shard becomes several log batches."""
    requested_partitions: int = 5_000
    """Topics, and share partitions, of one request; more would keep others waiting."""
    backlog_max_bytes: int = 256 * 1024 * 1024
    """Stored updates that a load leaves to be folded later."""
    history_records: int = 200_000
    """The newest records of a shard that are searched for what became of one record."""
    history_matches: int = 50_000
    """Of them, the newest of its share partition that are read."""
    history_match_bytes: int = 16 * 1024 * 1024
    history_time_ms: int = 3_000
    """Such a search ends after this time, waiting for others included."""
    history_requests: int = 16
    """Searches under way and waiting, in turn, of one principal half; more are refused."""
    runtime: RuntimeLimits = field(default_factory=RuntimeLimits)
