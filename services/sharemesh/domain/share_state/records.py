"""Records of the share state log as the domain sees them (spec SC-21).

Besides the KIP's fields each record says when, by whom, why and in which trace it came to be.
Offsets are inclusive; times are milliseconds since the epoch; -1 means "none" in updates.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import MemberId, SharePartitionKey
from sharemesh.domain.packed_batches import StateBatches, touching
from sharemesh.domain.state_batch import TERMINAL, StateBatch

NO_START_OFFSET = -1
UNKNOWN_START_OFFSET = -2
NO_MEMBER = MemberId("")


@dataclass(frozen=True, slots=True)
class ArchivedCounts:
    """Records archived for a group since a moment, by cause (docs/spec/archived-counts.md).

    ``counts`` are sorted by cause, and none is 0 (ARC-1).
    """

    since_ms: int
    counts: tuple[tuple[Cause, int], ...] = ()

    def plus(self, more: Mapping[Cause, int]) -> "ArchivedCounts":
        """Return the counts after more records were archived."""
        if not more:
            return self
        summed = Counter(dict(self.counts)) + Counter(more)
        return ArchivedCounts(self.since_ms, tuple(sorted(summed.items())))


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a record: the audit trail's part of it."""

    cause: Cause = Cause.UNSPECIFIED
    member_id: MemberId = NO_MEMBER
    trace_id: bytes = b""
    span_id: bytes = b""


NO_ORIGIN = Origin()


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The whole state of a share partition (ShareSnapshot).

    ``leader_epoch_max`` is the highest leader epoch ever seen; unlike ``leader_epoch`` it survives
    a new initialization, so that old leaders stay fenced after pruning (stricter than SC-27).

    ``changed`` is what the write that became this snapshot said, as an update would have carried
    it; it is for readers of the log and no part of the state. ``initial_start_offset`` is what the
    state epoch was initialized with, ``UNKNOWN_START_OFFSET`` in records of older versions.
    ``archived`` is None in these too.
    """

    key: SharePartitionKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    leader_epoch_max: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: StateBatches
    origin: Origin = NO_ORIGIN
    changed: tuple[StateBatch, ...] = ()
    initial_start_offset: int = UNKNOWN_START_OFFSET
    archived: ArchivedCounts | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One part of a snapshot that says again what the records before it add up to (WIN-12).

    ``snapshot`` is the state without its batches; those of all ``parts`` together are the state's.
    ``made_ms`` is when it was said again, and no part of the state.
    """

    snapshot: StateSnapshot
    made_ms: int
    part: int
    parts: int
    batches: StateBatches


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """What changed since the last record of the share partition (ShareUpdate).

    ``state_epoch`` is that of the state at the time, for readers of the log; it changes nothing.
    ``archived`` is said by those that archive.
    """

    key: SharePartitionKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    write_timestamp_ms: int
    batches: tuple[StateBatch, ...]
    origin: Origin = NO_ORIGIN
    archived: ArchivedCounts | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The share partition's state is deleted (spec SC-19).

    It carries the epochs that ended with it, so that the shard's floors rise (LOG-22).
    """

    key: SharePartitionKey
    state_epoch: int
    leader_epoch_max: int
    write_timestamp_ms: int
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class EpochFloor:
    """The highest epochs deleted in this shard, written again so that tombstones can be pruned."""

    state_epoch: int
    leader_epoch: int
    write_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A committed compaction: the folded state of the shard below ``end_offset`` (exclusive).

    ``history_end_offset`` (exclusive) is how far the history table has come, -1 if none is kept.
    An empty ``generation_id`` takes the pointer back.
    """

    generation_id: str
    previous_generation_id: str
    end_offset: int
    path: str
    content_hash: bytes
    format_version: int
    history_end_offset: int = -1
    write_timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class CommittedGeneration:
    """The newest generation pointer and where it lies in the log."""

    pointer: Generation
    offset: int


StateRecord = StateSnapshot | SnapshotPart | StateUpdate | Tombstone | EpochFloor | Generation

KIND_NAMES: dict[type[object], str] = {
    StateSnapshot: "snapshot",
    SnapshotPart: "snapshotpart",
    StateUpdate: "update",
    Tombstone: "tombstone",
    EpochFloor: "epochfloor",
    Generation: "generation",
}
"""What dumps and the history table call each kind of record."""


def has_archived(batches: Iterable[StateBatch]) -> bool:
    """Whether a write archives, or says again that it did."""
    return any(batch.delivery_state is DeliveryState.ARCHIVED for batch in batches)


def newly_archived(
    stored: Sequence[StateBatch], new: Iterable[StateBatch], cause: Cause, *, start_offset: int
) -> Counter[Cause]:
    """Count the offsets that a write archives and that were not finished before (ARC-2, ARC-3).

    Args:
        stored: The state before it: sorted and disjoint.
        new: What is written: sorted and disjoint.
        cause: Of the write, for batches that name none.
        start_offset: Of the state before it; what lies below is finished.
    """
    counts: Counter[Cause] = Counter()
    for batch in new:
        if batch.delivery_state is not DeliveryState.ARCHIVED:
            continue
        first = max(batch.first_offset, start_offset)
        size = batch.last_offset - first + 1
        for old in touching(stored, first, batch.last_offset):
            if _stays(old, batch):
                low, high = max(first, old.first_offset), min(batch.last_offset, old.last_offset)
                size -= high - low + 1
        if size > 0:
            counts[batch.cause or cause] += size
    return counts


def _stays(old: StateBatch, new: StateBatch) -> bool:
    """Whether the old state was final, or is better than the new one (CMB-2)."""
    return old.delivery_state in TERMINAL or old.delivery_count > new.delivery_count
