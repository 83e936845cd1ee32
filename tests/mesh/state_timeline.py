"""How share states went on, by the times at which brokers appended what the state topic holds."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharemesh.domain.ids import SharePartitionKey, TopicId
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.records import StateRecord, StateSnapshot, StateUpdate
from sharemesh.domain.state_batch import StateBatch
from tests.history.journal import Entry
from tests.mesh.outcome import FINAL_STATES
from tests.spark.reference_fold import DomainFold

FINAL_WORDS = ("accept", "reject")


class LoggedState(NamedTuple):
    """One record of a state log; ``appended_ms`` is wall time, by the broker that took it."""

    offset: int
    record: StateRecord
    appended_ms: float


class ReopenedOffset(NamedTuple):
    """A finished offset of a partition ("topic/number") that a later write made available."""

    partition: str
    offset: int
    appended_ms: float


@dataclass(slots=True)
class StateTimeline:
    """The share partitions of one group and topic, folded record by record.

    A leader moves a start offset once it hears that the write that finishes the offset there is
    durable, so never before the time that stands here; its next write tells that it did.
    """

    group_id: str
    topic: str
    topic_id: TopicId
    reopened: list[ReopenedOffset] = field(default_factory=list)
    _starts: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    _told: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    _logged: dict[str, list[tuple[int, LoggedState]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def read(self, shard: int, logged: Iterable[LoggedState]) -> None:
        """Fold a shard, from its first record on."""
        folded = DomainFold()
        for each in logged:
            record = each.record
            if not isinstance(record, StateUpdate | StateSnapshot) or not self._is_ours(record.key):
                folded.add(each.offset, record)
                continue
            before = folded.states.get(record.key)
            folded.add(each.offset, record)
            name = f"{self.topic}/{record.key.partition}"
            self._logged[name].append((shard, each))
            after = folded.states.get(record.key)
            if after is not None:  # else the rest of a state in parts follows
                self._went_on(name, before, after, each)

    def _is_ours(self, key: SharePartitionKey) -> bool:
        return key.group_id == self.group_id and key.topic_id == self.topic_id

    def _went_on(
        self, name: str, before: ShareState | None, after: ShareState, by: LoggedState
    ) -> None:
        starts, passed = self._starts[name], passed_offset(after)
        if not starts or starts[-1][1] < passed:
            starts.append((by.appended_ms, passed))
        told = self._told[name]
        if not told or told[-1][1] < after.start_offset:
            told.append((by.appended_ms, after.start_offset))
        if before is None or before.state_epoch != after.state_epoch:
            return
        assert isinstance(by.record, StateUpdate | StateSnapshot)
        touched = by.record.batches
        if isinstance(by.record, StateSnapshot):
            touched += before.batches  # what it leaves out is opened too
        known = dict(_offsets(after, touched))
        for offset, old in _offsets(before, touched):
            if old.delivery_state not in FINAL_STATES or offset < after.start_offset:
                continue
            new = known.get(offset)
            if new is None or new.delivery_state not in FINAL_STATES:
                self.reopened.append(ReopenedOffset(name, offset, by.appended_ms))

    def start_offset_at(self, partition: str, wall_ms: float) -> int:
        """Return below which offset everything was finished by then; 0 before the first record."""
        return _at(self._starts.get(partition, []), wall_ms)

    def told_start_offset_at(self, partition: str, wall_ms: float) -> int:
        """Return the start offset that leaders had told of by then; theirs may have been higher."""
        return _at(self._told.get(partition, []), wall_ms)

    def told_before(self, entries: Iterable[Entry], ahead_ms: float) -> Iterator[str]:
        """Yield what was confirmed to a member as final, and opened again by a later write.

        A leader that never heard how its write ended tells its member so, and goes on without it
        (spec ACK-19): that is no broken promise. ``ahead_ms`` is wall time less that of journals.
        """
        opened: dict[tuple[str, int], float] = {}
        for each in self.reopened:
            key = (each.partition, each.offset)
            opened[key] = max(each.appended_ms - ahead_ms, opened.get(key, 0.0))
        for entry in entries if opened else ():
            if entry.event != "acknowledged" or entry.fields["error"] is not None:
                continue
            if entry.fields["k"] not in FINAL_WORDS:
                continue
            partition = entry.fields["p"]
            for first, last in entry.fields["r"]:
                for offset in range(first, last + 1):
                    at_ms = opened.get((partition, offset), 0.0)
                    if entry.time_ms < at_ms:
                        yield (
                            f"{partition}@{offset} was confirmed to {entry.who} at "
                            f"{entry.time_ms:.0f} ms, and opened again at {at_ms:.0f} ms"
                        )

    def about(self, partition: str, offset: int, ahead_ms: float) -> Iterator[tuple[float, str]]:
        """Yield time (of journals) and words of each record of the log that concerns an offset."""
        below = 0
        for shard, each in self._logged.get(partition, ()):
            record = each.record
            assert isinstance(record, StateUpdate | StateSnapshot)
            batches = [b for b in record.batches if b.first_offset <= offset <= b.last_offset]
            passes = below <= offset < record.start_offset
            below = max(below, record.start_offset)
            if batches or passes:
                words = ", ".join(
                    f"{b.first_offset}-{b.last_offset} {b.delivery_state.name} count "
                    f"{b.delivery_count} by {b.cause.name}"
                    for b in batches
                )
                yield (
                    each.appended_ms - ahead_ms,
                    f"state shard {shard}@{each.offset}: {type(record).__name__} state epoch "
                    f"{record.state_epoch}, leader epoch {record.leader_epoch}, start "
                    f"{record.start_offset}, member {record.origin.member_id or 'none'}, "
                    f"{record.origin.cause.name}: {words or 'the start offset passes it'}",
                )


def _at(known: Sequence[tuple[float, int]], wall_ms: float) -> int:
    index = bisect_right(known, wall_ms, key=lambda each: each[0]) - 1
    return known[index][1] if index >= 0 else 0


def passed_offset(state: ShareState) -> int:
    """Return where the start offset of a leader stands that knows of this state (spec OFF-7)."""
    at = state.start_offset
    for batch in state.batches:
        if batch.last_offset < at:
            continue
        if batch.first_offset > at or batch.delivery_state not in FINAL_STATES:
            break
        at = batch.last_offset + 1
    return at


def _offsets(state: ShareState, touched: Sequence[StateBatch]) -> Iterator[tuple[int, StateBatch]]:
    """Yield each offset of a state that a write touched, and its batch there."""
    for written in touched:
        for batch in state.batches:
            first = max(batch.first_offset, written.first_offset)
            last = min(batch.last_offset, written.last_offset)
            for offset in range(first, last + 1):
                yield offset, batch
