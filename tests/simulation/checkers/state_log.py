"""Invariants 3, 5, 6, 7, 8 of the share state log, record by record: also of what is pruned."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sharemesh.codec.state_record import decode_record
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.fold import Floors, ShareState, fold, fold_floors
from sharemesh.domain.share_state.records import StateRecord, StateSnapshot, StateUpdate, Tombstone
from sharemesh.domain.state_batch import StateBatch
from tests.simulation.invariants import (
    BATCHES_IN_ORDER,
    DELIVERY_COUNT,
    FINAL,
    NEVER_BACK,
    STATE_IS_REPLAY,
    Invariant,
)
from tests.simulation.loop import WALL_MS
from tests.simulation.patching import Patches
from tests.simulation.world import World

FINISHED = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


@dataclass(frozen=True, slots=True)
class Reopened:
    """A finished offset that a later write made available, and when that was (virtual ms)."""

    key: SharePartitionKey
    offset: int
    count: int
    write_ms: float


class StateHistory:
    """Folds every record of every shard once: what is pruned is read before it goes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counters = world.event_log.counters
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.reopened: list[Reopened] = []
        self.floors: dict[int, Floors] = defaultdict(Floors)
        self._shards: dict[SharePartitionKey, int] = {}
        self._ended: dict[SharePartitionKey, Tombstone] = {}
        self._next_offsets: dict[int, int] = {}

    def install(self, patches: Patches) -> None:
        """Read each shard before records of it are deleted."""
        self._world.engine.before_pruning(patches, self.read_on)

    def read_on(self, shard: int, below: int = 0) -> None:
        """Read what is committed of a shard, from outside."""
        start_offset, end_offset, records = self._world.engine.committed_states(shard, below)
        self.begins(shard, start_offset)
        for each in records:
            if each.offset >= self._next_offsets.get(shard, 0):
                self.take(shard, each.offset, decode_record(each.key, each.value))
        self._next_offsets[shard] = max(end_offset, self._next_offsets.get(shard, 0))

    def begins(self, shard: int, start_offset: int) -> None:
        """A log is read that begins here: all before it must have been seen."""
        seen = self._next_offsets.get(shard, 0)
        if start_offset > seen:
            text = f"state shard {shard} was pruned up to {start_offset}, and read up to {seen}"
            self._say(STATE_IS_REPLAY, text)

    def take(self, shard: int, offset: int, record: StateRecord | None) -> None:
        """Judge a committed record, unless it was seen before."""
        if offset < self._next_offsets.get(shard, 0):
            return
        self._next_offsets[shard] = offset + 1
        if record is not None:
            self.floors[shard] = fold_floors(self.floors[shard], record)
        if isinstance(record, StateSnapshot | StateUpdate | Tombstone):
            self._fold(shard, record)

    def of_shard(self, shard: int) -> dict[SharePartitionKey, ShareState]:
        """Return what all records of a shard come to."""
        return {key: state for key, state in self.states.items() if self._shards[key] == shard}

    def _fold(self, shard: int, record: StateSnapshot | StateUpdate | Tombstone) -> None:
        key = record.key
        self._shards[key] = shard
        before = self.states.get(key)
        after = fold(before, record)
        if isinstance(record, Tombstone):
            self._end(before, record)
        if after is None:
            self.states.pop(key, None)
            return
        self.states[key] = after
        assert not isinstance(record, Tombstone), "a deleted state is gone"
        if before is not None:
            self._compare(record, before, after)
        else:
            self._begin_again(key, after)
        position = -1
        BATCHES_IN_ORDER.judged(self._counters)
        for batch in after.batches:
            if batch.first_offset <= position or batch.last_offset < batch.first_offset:
                where = self._world.place(key, batch.first_offset)
                self._say(BATCHES_IN_ORDER, f"{where}: batches overlap")
            position = batch.last_offset

    def _end(self, before: ShareState | None, record: Tombstone) -> None:
        """A state was deleted: the epochs that it had are in its tombstone."""
        for word in ("state_epoch", "leader_epoch_max"):
            had = 0 if before is None else getattr(before, word)
            NEVER_BACK.judged(self._counters)
            if getattr(record, word) < had:
                text = f"deleted with {word} {getattr(record, word)}, had {had}"
                self._say(NEVER_BACK, f"{self._world.place(record.key)}: {text}")
        self._ended[record.key] = record

    def _begin_again(self, key: SharePartitionKey, after: ShareState) -> None:
        """A state begins: beyond the epochs of the life before, so that its requests are late."""
        ended = self._ended.get(key)
        if ended is None:
            return
        NEVER_BACK.judged(self._counters)
        self._counters["states that began again"] += 1
        if after.state_epoch <= ended.state_epoch:
            text = f"began again in state epoch {after.state_epoch} after {ended.state_epoch}"
            self._say(NEVER_BACK, f"{self._world.place(key)}: {text}")

    def _compare(
        self, record: StateSnapshot | StateUpdate, before: ShareState, after: ShareState
    ) -> None:
        NEVER_BACK.judged(self._counters)
        where = self._world.place(record.key)
        for word in ("state_epoch", "snapshot_epoch", "leader_epoch_max"):
            old, new = getattr(before, word), getattr(after, word)
            if new < old:
                self._say(NEVER_BACK, f"{where}: {word} went back from {old} to {new}")
        if after.state_epoch != before.state_epoch:
            return
        self._compare_archived(record, before, after)
        if after.start_offset < before.start_offset:
            text = f"start offset went back from {before.start_offset} to {after.start_offset}"
            self._say(NEVER_BACK, f"{where}: {text}")
        if record.batches or after.batches is not before.batches:
            self._compare_offsets(record, before, after)

    def _compare_archived(
        self, record: StateSnapshot | StateUpdate, before: ShareState, after: ShareState
    ) -> None:
        """What is newly archived is counted once; what the start offset passes is not seen here."""
        old, new = before.archived, after.archived
        if old is None or new is None or old.since_ms != new.since_ms:
            return
        told = sum(count for _, count in new.counts) - sum(count for _, count in old.counts)
        known = {offset: batch.delivery_state for offset, batch in _offsets(before)}
        seen = sum(
            batch.delivery_state is DeliveryState.ARCHIVED and known.get(offset) not in FINISHED
            for offset, batch in _offsets(after)
        )
        self._counters["archived counts judged"] += 1
        self._counters["archived and counted"] += told
        has_moved = after.start_offset != before.start_offset
        if told != seen and not (has_moved and told > seen):
            where = self._world.place(record.key)
            text = f"{where}: {seen} offsets were archived, and {told} counted (ARC-2)"
            self._world.event_log.violation(self._world.now_s, text)

    def _compare_offsets(
        self, record: StateSnapshot | StateUpdate, before: ShareState, after: ShareState
    ) -> None:
        known = dict(_offsets(after))
        for batch in record.batches:
            self._judge_written(record.key, batch, after.start_offset, known)
        for offset, old in _offsets(before, after.start_offset):
            new = known.get(offset)
            count = 0 if new is None else new.delivery_count
            DELIVERY_COUNT.judged(self._counters)
            if count < old.delivery_count:
                where = self._world.place(record.key, offset)
                text = f"{where}: stored delivery count {count} after {old.delivery_count}"
                self._say(DELIVERY_COUNT, text)
            if old.delivery_state not in FINISHED:
                continue
            FINAL.judged(self._counters)
            if new is None or new.delivery_state not in FINISHED:
                # A leader that never heard how its write ended tells the member so and goes on
                # without it (spec ACK-19): the holder, or the next one, decides again, and counts
                # go on. The verdict asks whether somebody had been told that it was final.
                write_ms = record.write_timestamp_ms - WALL_MS
                self.reopened.append(Reopened(record.key, offset, count, write_ms))

    def _judge_written(
        self,
        key: SharePartitionKey,
        written: StateBatch,
        start_offset: int,
        known: dict[int, StateBatch],
    ) -> None:
        """What a record says stands afterwards, unless something newer stood there before."""
        for offset in range(max(written.first_offset, start_offset), written.last_offset + 1):
            new = known.get(offset)
            DELIVERY_COUNT.judged(self._counters)
            if new is None or new.delivery_count < written.delivery_count:
                text = f"delivery count {written.delivery_count} was written and does not stand"
                self._say(DELIVERY_COUNT, f"{self._world.place(key, offset)}: {text}")
                continue
            is_newest = new.delivery_count == written.delivery_count
            is_finished = new.delivery_state in FINISHED
            if is_newest and written.delivery_state in FINISHED and not is_finished:
                text = f"{self._world.place(key, offset)} was finished by a write, and is not"
                self._say(FINAL, text)

    def _say(self, invariant: Invariant, text: str) -> None:
        self._world.event_log.violation(self._world.now_s, invariant.broken(text))


def _offsets(state: ShareState, from_offset: int = 0) -> Iterator[tuple[int, StateBatch]]:
    for batch in state.batches:
        for offset in range(max(batch.first_offset, from_offset), batch.last_offset + 1):
            yield offset, batch


def finished_offsets(state: ShareState) -> set[int]:
    """Return the offsets that a state says are acknowledged or archived."""
    return {offset for offset, batch in _offsets(state) if batch.delivery_state in FINISHED}
