"""Random events against the machine and the naive model, side by side."""

import random
from dataclasses import replace

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_partition.effects import Acquired, Answered, LocksExpired, WriteState
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Configure,
    Initialize,
    LogBatch,
    LogStartMoved,
    ReleaseMember,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.transitions import LEGAL_MOVES
from sharemesh.domain.state_batch import StateBatch
from tests.domain.share_partition.naive_model import ModelError, NaiveModel, Rec

KEY = SharePartitionKey(GroupId("g"), TopicId(bytes(16)), 0)
MEMBERS = ("m1", "m2", "m3")
EVENTS = 55


class Walk:
    """One random history; ``run`` raises at the first step that the rules do not allow."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now_ms = 1000
        self.config = GroupConfig(
            record_lock_duration_ms=100,
            delivery_count_limit=rng.choice([2, 3, 5, 7]),
            partition_max_record_locks=rng.choice([15, 40, 200]),
            renew_acknowledge_enable=rng.random() < 0.9,
        )
        self.machine = SharePartition(KEY, 0, self.config)
        self.log: list[LogBatch] = []
        self.log_end = 0
        self.writes: dict[int, bool] = {}  # outstanding: write id -> whether of an expiry
        self.next_write = 1
        self.model = self._initialize()

    def _initialize(self) -> NaiveModel:
        rng = self.rng
        start = offset = rng.choice([0, 5])
        batches = []
        if rng.random() < 0.4:
            for _ in range(rng.randrange(1, 5)):
                offset += rng.choice([0, 0, 0, 3])
                size = rng.randrange(1, 7)
                state = rng.choice([0, 0, 2, 4])
                count = rng.randrange(1, self.config.delivery_count_limit)
                batches.append(StateBatch(offset, offset + size - 1, DeliveryState(state), count))
                offset += size
        model = NaiveModel(
            start,
            self.config.delivery_count_limit,
            self.config.record_lock_duration_ms,
            renew=self.config.renew_acknowledge_enable,
        )
        gap, expected = None, start
        for batch in batches:
            if gap is None and batch.first_offset > expected:
                gap = expected
            expected = batch.last_offset + 1
            for each in range(batch.first_offset, batch.last_offset + 1):
                model.recs[each] = Rec(int(batch.delivery_state), batch.delivery_count)
        model.move_start([(b.first_offset, b.last_offset, False) for b in batches], gap)
        self.machine.step(Initialize(), now_ms=self.now_ms)
        state = StateRead(ErrorCode.NONE, 3, start, tuple(batches))
        self.machine.step(state, now_ms=self.now_ms)
        return model

    # ---- one history

    def run(self, events: int = EVENTS) -> None:
        """Run and compare after each event."""
        self.compare()
        for _ in range(events):
            action = self.rng.choice(self.ACTIONS)
            before = self.machine.start_offset
            action(self)
            # QUIRK: the last lingering batch below a moved log start takes the start offset back
            if self.machine.start_offset < before and self.machine.cached_batches():
                raise ModelError(f"the start offset went back from {before}")
            self.compare()

    def compare(self) -> None:
        """The machine's own invariants, then every offset against the model."""
        machine, model = self.machine, self.model
        machine.validate()
        mine = {}
        for view in machine.record_states():
            for offset in range(view.first_offset, view.last_offset + 1):
                deadline = view.lock_deadline_ms if view.state == 1 else None
                mine[offset] = (
                    int(view.state),
                    view.delivery_count,
                    view.member_id,
                    deadline,
                    view.in_transition,
                )
        theirs = {
            offset: (
                rec.state,
                rec.count,
                rec.member,
                rec.deadline_ms if rec.state == 1 else None,
                rec.write is not None,
            )
            for offset, rec in model.recs.items()
        }
        if mine != theirs:
            wrong = [o for o in sorted(mine | theirs) if mine.get(o) != theirs.get(o)][:4]
            raise ModelError(f"{[(o, mine.get(o), theirs.get(o)) for o in wrong]}")
        self._same("start offset", machine.start_offset, model.start)
        self._same("complete", machine.delivery_complete_count, model.complete)
        self._compare_next()

    def _compare_next(self) -> None:
        machine, model = self.machine, self.model
        batches = machine.cached_batches()
        if not batches or model.start > batches[-1].last_offset:
            self._same("next", machine.next_fetch_offset(), machine.end_offset)
            return
        available = model.first_available()
        candidates = [] if available is None else [available]
        window = machine.gap_window
        if window is not None and window[1] == machine.end_offset:
            holes = [o for o in range(window[0], batches[-1].last_offset) if o not in model.recs]
            candidates += holes[:1]
        expected = min(candidates, default=machine.end_offset + 1)
        self._same("next", machine.next_fetch_offset(), expected)

    def _same(self, what: str, machine: object, model: object) -> None:
        if machine != model:
            raise ModelError(f"{what} is {machine}, the model says {model}")

    # ---- events

    def fetch(self) -> None:
        rng, machine = self.rng, self.machine
        self._grow_log()
        at = machine.next_fetch_offset()
        if rng.random() < 0.15:
            at = rng.randrange(max(0, at - 10), at + 1)
        read = [b for b in self.log if b.last_offset >= at][: rng.randrange(1, 5)]
        if not read or not machine.can_acquire():
            return
        whole = self._whole()
        known = set(self.model.recs)
        mode = AcquireMode(rng.randrange(2))
        member = rng.choice(MEMBERS)
        most = rng.choice([1, 3, 10, 500])
        got = self._step(
            Acquire(1, MemberId(member), mode, rng.choice([1, 5, 500]), most, at, tuple(read))
        )
        (acquired,) = (each for each in got if isinstance(each, Acquired))
        if machine.record_states() or acquired.ranges:
            self._stale(at, read[0].base_offset, whole, acquired)
        ranges = [(r.first_offset, r.last_offset, r.delivery_count) for r in acquired.ranges]
        batches = [
            (b.first_offset, b.last_offset)
            for b in machine.cached_batches()
            if b.first_offset not in known
        ]
        if (batches and not known) or (batches and batches[0][0] == self._first_key()):
            self.model.start = max(self.model.start, batches[0][0])
        self.model.acquired(member, ranges, self.now_ms, batches)
        total = sum(last - first + 1 for first, last, _ in ranges)
        self._same("count", acquired.count, total)
        if mode is AcquireMode.RECORD_LIMIT and total > most:
            raise ModelError(f"{total} records acquired in record_limit mode of {most}")

    def _first_key(self) -> int:
        return self.machine.cached_batches()[0].first_offset

    def _stale(self, at: int, base: int, whole, acquired: Acquired) -> None:
        """Offsets between the fetch offset and the log were compacted away (ACQ-3)."""
        if at < base and self.stale_applies(acquired):
            self.model.archive(at, base - 1, whole)

    def stale_applies(self, acquired: Acquired) -> bool:
        """The rule holds unless the fetch was turned away before (ACQ-1, ACQ-2)."""
        free = self.model.first_available()
        if acquired.ranges or free is None:
            return True
        view = self.machine.state_at(free)
        return view is None or view.state is DeliveryState.ARCHIVED

    def _grow_log(self) -> None:
        rng = self.rng
        behind = self.machine.end_offset + 1
        if self.log_end < behind:
            if not self.log:
                self.log.append(LogBatch(0, behind - 1))
            else:
                self.log.append(LogBatch(self.log_end, behind - 1))
            self.log_end = behind
        while rng.random() < 0.6 and self.log_end < behind + 40:
            self.log_end += rng.choice([0, 0, 0, 2])
            size = rng.randrange(1, 9)
            self.log.append(LogBatch(self.log_end, self.log_end + size - 1))
            self.log_end += size

    def acknowledge(self) -> None:
        rng = self.rng
        held = [o for o, rec in self.model.recs.items() if rec.state == 1]
        member = rng.choice(MEMBERS)
        if held and rng.random() < 0.85:
            member = self.model.recs[rng.choice(held)].member
            held = [o for o in held if self.model.recs[o].member == member]
        batches = []
        for _ in range(rng.choice([1, 1, 1, 2])):
            first = rng.choice(held) if held and rng.random() < 0.9 else rng.randrange(60)
            last = first
            while rng.random() < 0.8 and (last + 1 in held or rng.random() < 0.05):
                last += 1
            types = (rng.choice([0, 1, 1, 2, 2, 3, 4]),)
            if rng.random() < 0.3:
                types = tuple(rng.choice([0, 1, 2, 3, 4]) for _ in range(last - first + 1))
            batches.append((first, last, types))
        ends = self.machine.cached_batches()

        def end_of_entry(offset: int) -> int | None:
            return next((b.last_offset for b in reversed(ends) if b.first_offset <= offset), None)

        expected = self.model.acknowledge(
            member, batches, self.next_write, self.now_ms, end_of_entry
        )
        sent = tuple(AcknowledgementBatch(*batch) for batch in batches)
        self._operation(Acknowledge(1, MemberId(member), sent), expected)

    def release(self) -> None:
        member = self.rng.choice(MEMBERS)
        expected = self.model.release(member, self.next_write)
        self._operation(ReleaseMember(1, MemberId(member)), expected)

    def _operation(self, event, expected: str) -> None:
        effects = self._step(event)
        answers = [each.error.name for each in effects if isinstance(each, Answered)]
        self._same("answer", answers[0] if answers else "PENDING", expected)

    def write_ends(self) -> None:
        if self.writes:
            write_id = self.rng.choice(list(self.writes))
            self.end_write(write_id, ok=self.rng.random() < 0.75)

    def end_write(self, write_id: int, *, ok: bool) -> None:
        expiry = self.writes.pop(write_id)
        self.model.written(write_id, ok=ok)
        if ok or expiry:
            self.model.move_start(self._batches(), self._active_window())
        error = ErrorCode.NONE if ok else ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._step(StateWritten(write_id, error))

    def tick(self) -> None:
        self.now_ms += self.rng.choice([1, 30, 60, 110])
        expired = self.model.tick(self.now_ms)
        effects = self._step(Tick())
        said = sum(each.record_count for each in effects if isinstance(each, LocksExpired))
        self._same("expired", said, expired)

    def log_start(self) -> None:
        to = self.machine.start_offset + self.rng.randrange(-1, 6)
        to = min(to, self.log_end)
        if to < 0:
            return
        self.model.log_start(to, self._whole())
        self.log = [b for b in self.log if b.last_offset >= to]
        self._step(LogStartMoved(to))

    def configure(self) -> None:
        limit = self.rng.choice([2, 3, 5, 7])
        if any(rec.count >= limit for rec in self.model.recs.values() if rec.state == 0):
            return
        self.config = replace(self.config, delivery_count_limit=limit)
        self.model.limit = limit
        self._step(Configure(self.config))

    ACTIONS = (
        *[fetch] * 6,
        *[acknowledge] * 8,
        *[write_ends] * 8,
        *[tick] * 3,
        release,
        log_start,
        configure,
    )

    # ---- small things

    def _step(self, event):
        before = {}
        for view in self.machine.record_states():
            for offset in range(view.first_offset, view.last_offset + 1):
                before[offset] = view.state
        effects = self.machine.step(event, now_ms=self.now_ms)
        for effect in effects:
            if isinstance(effect, WriteState):
                self.writes[effect.write_id] = isinstance(event, Tick)
                self.next_write = effect.write_id + 1
                self._check_write(effect)
        if not isinstance(event, Acquire):
            for view in self.machine.record_states():
                old = before.get(view.first_offset)
                legal = old is None or old == view.state or (old, view.state) in LEGAL_MOVES
                back = isinstance(event, StateWritten)  # a roll-back is no transition (RS-10)
                if not legal and not back:
                    raise ModelError(f"{view.first_offset}: {old} became {view.state}")
        self.next_write = self.machine.write_count + 1
        return effects

    def _check_write(self, write: WriteState) -> None:
        """Never ACQUIRED, in order, with what the records say now (PER-1)."""
        self._same("start offset written", write.start_offset, self.machine.start_offset)
        last = -1
        for batch in write.batches:
            if batch.first_offset <= last or batch.delivery_state == 1:
                raise ModelError(f"write {write}")
            last = batch.last_offset
            for offset in range(batch.first_offset, last + 1):
                view = self.machine.state_at(offset)
                if (view.state, view.delivery_count) != (
                    batch.delivery_state,
                    batch.delivery_count,
                ):
                    raise ModelError(f"{offset} is {view}, written as {batch}")

    def _whole(self) -> list[tuple[int, int]]:
        return [
            (b.first_offset, b.last_offset)
            for b in self.machine.cached_batches()
            if not b.per_offset
        ]

    def _batches(self) -> list[tuple[int, int, bool]]:
        return [
            (b.first_offset, b.last_offset, b.per_offset) for b in self.machine.cached_batches()
        ]

    def _active_window(self) -> int | None:
        window = self.machine.gap_window
        if window is None or window[1] != self.machine.end_offset:
            return None
        return window[0]
