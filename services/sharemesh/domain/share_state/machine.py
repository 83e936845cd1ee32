"""The share coordinator's shard: which request writes which record (spec SC)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from sharemesh.domain.delivery_state import Cause
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import SharePartitionKey, TopicId
from sharemesh.domain.packed_batches import combined
from sharemesh.domain.share_state.backlog import Backlog, DecodeUpdates
from sharemesh.domain.share_state.checks import (
    StateDecision,
    StateResult,
    WriteRequest,
    check_batches,
    check_epoch,
    check_imported,
    check_key,
    check_leap,
    check_room,
    check_taken_whole,
    covers,
    fenced_leader,
    invalid,
    refused,
    unknown_partition,
    written_complete_count,
)
from sharemesh.domain.share_state.fold import Floors, ShareState, fold, fold_floors, fold_updates
from sharemesh.domain.share_state.pruning import RedundantOffsets
from sharemesh.domain.share_state.records import (
    NO_START_OFFSET,
    ArchivedCounts,
    CommittedGeneration,
    EpochFloor,
    Generation,
    Origin,
    SnapshotPart,
    StateRecord,
    StateSnapshot,
    StateUpdate,
    Tombstone,
    has_archived,
    newly_archived,
)
from sharemesh.domain.share_state.snapshot_parts import PART_BATCHES, SnapshotParts, state_in_parts
from sharemesh.domain.share_state.snapshot_schedule import (
    DEFAULT_UPDATES_PER_SNAPSHOT,
    LARGE_BATCHES,
    SnapshotSchedule,
)
from sharemesh.domain.state_batch import NO_COUNT, StateBatch, combine, complete_count


class ShareStateMachine:
    """All share partitions of one shard. Requests return outcomes; only ``apply`` changes state.

    ``in_metadata`` says whether the topic has that partition, as far as this node knows. Times
    are milliseconds since the epoch: they go into records and decide what is cold.
    """

    def __init__(
        self,
        updates_per_snapshot: int = DEFAULT_UPDATES_PER_SNAPSHOT,
        decode_updates: DecodeUpdates = lambda _: (),
        *,
        large_batches: int = LARGE_BATCHES,
        part_batches: int = PART_BATCHES,
    ) -> None:
        """``updates_per_snapshot`` is from 0 (each write a snapshot) to 500 (CFG-14).

        ``decode_updates`` reads what a load puts into ``backlog`` instead of applying it.
        """
        self._schedule = SnapshotSchedule(updates_per_snapshot, large_batches)
        self._part_batches = part_batches
        self._parts = SnapshotParts()
        self._states: dict[SharePartitionKey, ShareState] = {}
        self._redundant = RedundantOffsets()
        self._floors = Floors()
        self._floors_offset = -1
        self._floors_written_ms = 0
        self._generation: CommittedGeneration | None = None
        self._restored: dict[SharePartitionKey, None] = {}
        self._floors_restored = False
        self.backlog = Backlog(decode_updates)

    # ---- records in -----------------------------------------------------------------------------

    def apply(self, record: StateRecord, offset: int) -> None:
        """Change the state as this record says (spec SC-6, SC-14, SC-17)."""
        match record:
            case StateUpdate():
                key = record.key
                self._states[key] = self._folded(key, record)
                self._schedule.updated(key, 1, len(self._states[key].batches))
            case StateSnapshot():
                key = record.key
                self._schedule.snapshot(key, self.backlog.drop(key))
                self._snapshotted(record, offset)
            case SnapshotPart():
                whole = self._parts.take(record, offset)
                if whole is not None:
                    key = whole[0].key
                    self.backlog.drop(key)
                    self._schedule.said_again(key, record.made_ms)
                    self._snapshotted(*whole)
            case Tombstone():
                self._restored.pop(record.key, None)
                self.backlog.drop(record.key)
                self._states.pop(record.key, None)
                self._schedule.deleted(record.key)
                self._redundant.deleted(record.key, offset)
                self._raise_floors(record, offset, record.write_timestamp_ms)
            case EpochFloor():
                self._raise_floors(record, offset, record.write_timestamp_ms)
            case Generation():
                kept = record.generation_id != ""
                self._generation = CommittedGeneration(record, offset) if kept else None

    def restore(
        self, states: Iterable[tuple[SharePartitionKey, ShareState]], floors: Floors, offset: int
    ) -> None:
        """Start from a generation that ends at ``offset``; what is in it counts as lying there."""
        for key, state in states:
            self._states[key] = state
            self._redundant.snapshot(key, offset)
            self._restored[key] = None
        self._floors = floors
        self._floors_restored = floors != Floors()
        self._floors_offset = offset if floors != Floors() else -1

    def _folded(self, key: SharePartitionKey, record: StateSnapshot | StateUpdate) -> ShareState:
        folded = fold(self.state(key), record)
        assert folded is not None
        return folded

    def _snapshotted(self, snapshot: StateSnapshot, offset: int) -> None:
        """Take a snapshot over, which lies at ``offset``; its backlog is dropped."""
        self._states[snapshot.key] = self._folded(snapshot.key, snapshot)
        self._redundant.snapshot(snapshot.key, offset)
        self._restored.pop(snapshot.key, None)

    def _raise_floors(self, record: Tombstone | EpochFloor, offset: int, now_ms: int) -> None:
        raised = fold_floors(self._floors, record)
        carries_all = (
            isinstance(record, EpochFloor)
            and record.state_epoch >= raised.state_epoch
            and record.leader_epoch >= raised.leader_epoch
        )
        if carries_all or self._floors_offset < 0:
            self._floors_offset, self._floors_written_ms = offset, now_ms
            self._floors_restored = False
        self._floors = raised

    # ---- requests -------------------------------------------------------------------------------

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        batches: tuple[StateBatch, ...] = (),
        *,
        in_metadata: bool,
        now_ms: int,
    ) -> StateDecision:
        """Begin a state epoch with a snapshot (spec SC-9).

        The snapshot has ``batches`` only if delivery states of an old log are imported (spec OLD):
        they need a start offset, and what lies below it is dropped. They are written as one record,
        so that an import is complete or absent.
        A key without state must start above the highest epoch deleted in this shard (LOG-23).
        A repeat of the request that began the current state epoch changes nothing, even if it is
        late and the start offset has moved since.
        """
        stop = check_key(key) or check_epoch("state", state_epoch)
        if stop is not None:
            return stop
        state = self.state(key)
        known = self._floors.state_epoch + 1 if state is None else state.state_epoch
        if state_epoch < known:
            return refused(
                ErrorCode.FENCED_STATE_EPOCH,
                f"The state epoch {state_epoch} is below {known}, the lowest allowed.",
                known_state_epoch=known if state is not None else known - 1,
            )
        if not in_metadata:
            return unknown_partition(key)
        start_offset = max(start_offset, NO_START_OFFSET)
        stop = check_leap(state_epoch, known) or check_imported(batches, start_offset)
        if stop is not None:
            return stop
        if (
            state is not None
            and state.state_epoch == state_epoch
            and start_offset in (state.start_offset, state.initial_start_offset)
            and covers(state, batches)
        ):
            return StateDecision(StateResult(state=state))
        imported = combine(batches, (), start_offset=start_offset)
        record = StateSnapshot(
            key=key,
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            leader_epoch_max=0 if state is None else state.leader_epoch_max,
            start_offset=start_offset,
            delivery_complete_count=complete_count(imported) if start_offset >= 0 else NO_COUNT,
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
            batches=imported,
            origin=Origin(Cause.IMPORT if imported else Cause.INITIALIZE),
            changed=imported,
            initial_start_offset=start_offset,
            archived=ArchivedCounts(now_ms),
        )
        return StateDecision(StateResult(), record)

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        *,
        in_metadata: bool,
        now_ms: int,
        takes_parts: bool = True,
    ) -> StateDecision:
        """Return the state; a higher leader epoch is recorded first (spec SC-10, SC-11, WIN-15)."""
        stop = check_key(key) or check_epoch("leader", leader_epoch)
        if stop is not None:
            return stop
        state = self.state(key)
        if state is None:
            return invalid("Read operation on uninitialized share partition not allowed.")
        if leader_epoch < state.leader_epoch_max:
            return fenced_leader(leader_epoch, state)
        if not in_metadata:
            return unknown_partition(key)
        stop = None if takes_parts else check_taken_whole(state)
        if stop is not None:
            return stop
        if leader_epoch == state.leader_epoch_max:
            return StateDecision(StateResult(state=state))
        raised = replace(state, leader_epoch=leader_epoch, leader_epoch_max=leader_epoch)
        origin = Origin(Cause.LEADER_CHANGE)
        if self._schedule.is_due(key, len(state.batches)):
            return StateDecision(StateResult(state=state), _snapshot(key, raised, now_ms, origin))
        record = StateUpdate(
            key=key,
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=NO_START_OFFSET,
            delivery_complete_count=NO_COUNT,
            write_timestamp_ms=now_ms,
            batches=(),
            origin=origin,
        )
        return StateDecision(StateResult(state=state), record)

    def write(
        self, key: SharePartitionKey, request: WriteRequest, *, in_metadata: bool, now_ms: int
    ) -> StateDecision:
        """Record delivery states (spec SC-12, SC-13, SC-15, SC-16, SC-18)."""
        stop = (
            check_key(key)
            or check_epoch("leader", request.leader_epoch)
            or check_epoch("state", request.state_epoch)
        )
        if stop is not None:
            return stop
        state = self.state(key)
        if state is None:
            return invalid("Write operation on uninitialized share partition not allowed.")
        stop = self._check_writer(key, state, request, in_metadata=in_metadata)
        if stop is not None:
            return stop
        start_offset = max(request.start_offset, state.start_offset)
        count = written_complete_count(state, request)
        archived = _archived(state, request, now_ms)
        if self._schedule.is_due(key, len(state.batches) + len(request.batches)):
            merged = replace(
                state,
                start_offset=start_offset,
                delivery_complete_count=count,
                batches=combined(state.batches, request.batches, start_offset=start_offset),
                archived=archived or state.archived,
            )
            snapshot = _snapshot(key, merged, now_ms, request.origin)
            changed = combine(request.batches, (), start_offset=NO_START_OFFSET, keep_causes=True)
            return StateDecision(StateResult(), replace(snapshot, changed=changed))
        record = StateUpdate(
            key=key,
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            write_timestamp_ms=now_ms,
            batches=combine(request.batches, (), start_offset=start_offset, keep_causes=True),
            origin=request.origin,
            archived=archived,
        )
        return StateDecision(StateResult(), record)

    def delete(
        self, key: SharePartitionKey, state_epoch: int, *, in_metadata: bool, now_ms: int
    ) -> StateDecision:
        """Delete a state; nothing is done for an absent one (spec SC-19).

        A positive ``state_epoch`` below the stored one is a late request of an earlier life and
        is refused with FENCED_STATE_EPOCH (LOG-23); 0 is not checked.
        """
        stop = check_key(key) or check_epoch("state", state_epoch)
        if stop is not None:
            return stop
        if not in_metadata:
            return unknown_partition(key)
        state = self.state(key)
        if state is None:
            return StateDecision(StateResult())
        if 0 < state_epoch < state.state_epoch:
            return refused(
                ErrorCode.FENCED_STATE_EPOCH,
                f"The state epoch {state_epoch} is below {state.state_epoch}: the share partition "
                "was initialized again since.",
                known_state_epoch=state.state_epoch,
            )
        return StateDecision(StateResult(), _tombstone(key, state, now_ms))

    def summary(self, key: SharePartitionKey, *, in_metadata: bool) -> StateDecision:
        """Return the state without its batches; an absent one is no error (spec SC-20)."""
        stop = check_key(key)
        if stop is not None:
            return stop
        if not in_metadata:
            return unknown_partition(key)
        return StateDecision(StateResult(state=self.state(key)))

    def topics_deleted(self, topic_ids: Iterable[TopicId], *, now_ms: int) -> tuple[Tombstone, ...]:
        """Return tombstones for all keys of topics that are gone (spec SC-25)."""
        gone = frozenset(topic_ids)
        keys = [key for key in self._states if key.topic_id in gone]
        found = ((key, self.state(key)) for key in keys)
        return tuple(_tombstone(key, state, now_ms) for key, state in found if state is not None)

    # ---- upkeep ---------------------------------------------------------------------------------

    def cold_keys(self, *, now_ms: int, interval_ms: int) -> tuple[SharePartitionKey, ...]:
        """Return keys that need a cold snapshot (SC-24)."""
        return self._schedule.cold_keys(
            self._states.items(), now_ms=now_ms, interval_ms=interval_ms
        )

    def cold_snapshot(self, key: SharePartitionKey, *, now_ms: int) -> Sequence[StateRecord]:
        """Return a snapshot of what is there, creation time kept; none if the key is gone.

        That of a large state says it again as it is, in parts (WIN-12).
        """
        state = self.state(key)
        if state is None:
            return ()
        if self._schedule.is_large(len(state.batches)):
            return state_in_parts(key, state, now_ms, self._part_batches)
        snapshot = _snapshot(key, state, now_ms, Origin(Cause.SNAPSHOT))
        return (replace(snapshot, create_timestamp_ms=state.create_timestamp_ms),)

    def large_snapshots_due(self, limit: int) -> tuple[SharePartitionKey, ...]:
        """Return up to ``limit`` keys whose large state is to be said again (WIN-13)."""
        return self._schedule.large_due(limit)

    def cold_floor(self, *, now_ms: int, interval_ms: int) -> EpochFloor | None:
        """Return the floors as a new record if the old one keeps tombstones from being pruned."""
        redundant = self._redundant.offset or 0
        if not 0 <= self._floors_offset < redundant:
            return None
        if now_ms - self._floors_written_ms < interval_ms:
            return None
        return EpochFloor(self._floors.state_epoch, self._floors.leader_epoch, now_ms)

    @property
    def prune_limit(self) -> int | None:
        """The offset below which nothing is needed; None: nothing can go (LOG-21)."""
        limit = self._redundant.offset
        if limit is None:
            return None
        limits = [limit]
        if self._floors_offset >= 0:
            limits.append(self._floors_offset)
        if self._generation is not None:
            pointer = self._generation.pointer
            limits.append(pointer.end_offset)
            if pointer.history_end_offset >= 0:
                limits.append(pointer.history_end_offset)
        lowest = min(limits)
        return lowest if lowest > 0 else None

    def restored_keys(self, limit: int) -> tuple[SharePartitionKey, ...]:
        """Return up to ``limit`` keys whose snapshot lies in a generation and not in the log."""
        return tuple(islice(self._restored, limit))

    def restored_floor(self, *, now_ms: int) -> EpochFloor | None:
        """Return the floors as a record if they lie in a generation and not in the log."""
        if not self._floors_restored:
            return None
        return EpochFloor(self._floors.state_epoch, self._floors.leader_epoch, now_ms)

    @property
    def generation(self) -> CommittedGeneration | None:
        """The newest generation, if one is committed."""
        return self._generation

    @property
    def floors(self) -> Floors:
        """The highest epochs deleted in this shard."""
        return self._floors

    def state(self, key: SharePartitionKey) -> ShareState | None:
        """Return the state of one key, folding first what a load left in the backlog."""
        state = self._states.get(key)
        updates = self.backlog.take(key)
        if updates:
            state = fold_updates(state, updates)
            assert state is not None
            self._states[key] = state
            self._schedule.updated(key, len(updates), len(state.batches))
        return state

    def fold_backlog(self, keys: int) -> int:
        """Fold the backlog of so many keys; return how many keys are left in it."""
        for key in self.backlog.keys(keys):
            self.state(key)
        return len(self.backlog)

    def states(self) -> Iterator[tuple[SharePartitionKey, ShareState]]:
        """Yield every key with its state."""
        self.fold_backlog(len(self.backlog))
        yield from self._states.items()

    def topic_ids(self) -> frozenset[TopicId]:
        """Return the topics that have state here."""
        return frozenset(key.topic_id for key in self._states)

    def _check_writer(
        self,
        key: SharePartitionKey,
        state: ShareState,
        request: WriteRequest,
        *,
        in_metadata: bool,
    ) -> StateDecision | None:
        if request.leader_epoch < state.leader_epoch_max:
            return fenced_leader(request.leader_epoch, state)
        if request.state_epoch < state.state_epoch:
            return refused(
                ErrorCode.FENCED_STATE_EPOCH,
                f"The state epoch {request.state_epoch} is below {state.state_epoch}; "
                "read the state again.",
                known_state_epoch=state.state_epoch,
            )
        if not in_metadata:
            return unknown_partition(key)
        return check_batches(request.batches) or check_room(state, request)


def _archived(state: ShareState, request: WriteRequest, now_ms: int) -> ArchivedCounts | None:
    """Return the counts after a write, None if it archives nothing."""
    if not has_archived(request.batches):
        return None
    new = combine(request.batches, (), start_offset=NO_START_OFFSET, keep_causes=True)
    more = newly_archived(state.batches, new, request.origin.cause, start_offset=state.start_offset)
    return (state.archived or ArchivedCounts(now_ms)).plus(more)


def _snapshot(
    key: SharePartitionKey, state: ShareState, now_ms: int, origin: Origin
) -> StateSnapshot:
    return StateSnapshot(
        key=key,
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        leader_epoch_max=state.leader_epoch_max,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp_ms=now_ms,
        write_timestamp_ms=now_ms,
        batches=state.batches,
        origin=origin,
        initial_start_offset=state.initial_start_offset,
        archived=state.archived or ArchivedCounts(now_ms),
    )


def _tombstone(key: SharePartitionKey, state: ShareState, now_ms: int) -> Tombstone:
    return Tombstone(key, state.state_epoch, state.leader_epoch_max, now_ms, Origin(Cause.DELETE))
