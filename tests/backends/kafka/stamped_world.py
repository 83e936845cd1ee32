"""Every interleaving of a few writers of a stamped log: breadth first, without chance.

A partition of a few offsets; writers with epochs, whose fences are under way from the start (a
take-over may begin, or be late, at any time). Each decides two units: a snapshot of the one key,
then its tombstone. Each request exists in several copies, every one of which is appended at any
time or never: loss, delay, doubling, retries, arrival after a time-out. Answers come at any time
or never; crash, freeze and thaw are steps that come late or never. A change of Kafka's leader cuts
any part of the tail that nobody has seen committed.

What writers and readers do is decided by the product: ``sharemesh.domain.stamped_log``. Judged in
every state, by the promises of docs/spec/stamped-log.md:

S1  a confirmed unit is in every later load, at its place
S2  units that count are one chain, each decided with knowledge of all below
S3  loads from any start agree, and pruning changes no fold
S4  nothing counts twice
S5  nobody confirms above the fence of a later writer that was let through
S6  no read is answered out of date (rule ``reads_ride``)
L1  once faults are over the highest epoch commits soon
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sharemesh.domain.stamped_log.judgement import ForwardReading, Judgement, OwnFence, judge
from sharemesh.domain.stamped_log.stamp import (
    BrokenLogError,
    Stamp,
    StampedBatch,
    StampKind,
    WriterIdentity,
)
from sharemesh.domain.stamped_log.take_over import (
    NO_UNIT,
    FencedBelow,
    NewestUnit,
    newest_in,
)
from sharemesh.domain.stamped_log.writing import (
    FencedAbove,
    ReadUpTo,
    StampAnew,
    UnitCounts,
    WriterPosition,
    after_answer,
    after_reading,
)

NAMES = "ABC"
LOG = 77
JUNK, FENCE, UNIT, DELETE = 1, 2, 100, 1_000
"""Entries and requests are numbers: FENCE + writer, UNIT + unit * 16 + stamp, DELETE + offset."""

FENCING, LOADING, IDLE, WAITING, STOPPED = range(5)
QUOTA = 2  # units of a writer; unit = writer * QUOTA + number, odd ones are tombstones
WINDOW = 2  # offsets of the first window of a take-over: the log is short

History = Callable[[Sequence[int], int, int, Sequence[int]], list[tuple[int, int]]]


class Rules(NamedTuple):
    """What writers and readers do; a mutant has another value in one field."""

    judge: Callable[[StampedBatch, int], Judgement] = judge
    newest_in: Callable[
        [Sequence[StampedBatch], WriterIdentity], NewestUnit | FencedBelow | None
    ] = newest_in
    after_answer: Callable[[Stamp, int], UnitCounts | ReadUpTo] = after_answer
    after_reading: Callable[
        [Stamp, Sequence[StampedBatch], int], UnitCounts | StampAnew | FencedAbove
    ] = after_reading
    prune_limit: Callable[[WriterPosition], int] = WriterPosition.prune_limit
    history: History | None = None  # what counts, if not what ``judge`` says
    outstanding: int = 1
    reads_before_stamp: bool = True
    load_to_fence: bool = True
    acks_all: bool = True
    prune_confirmed: bool = True
    restart_load: bool = True
    reads_ride: bool = False


AS_DESIGNED = Rules()


class Config(NamedTuple):
    """How large a world is."""

    epochs: tuple[int, ...] = (1, 2)
    cap: int = 7  # offsets
    copies: int = 2
    junk: int = 1
    losses: int = 1
    prunes: int = 0
    quota: int = QUOTA
    pruners: int = 3  # only the first so many writers prune


class WriterState(NamedTuple):
    """One writer; ``cursor`` and ``fold`` are how far its load is and what it gave."""

    phase: int = FENCING
    fence: int = -1
    end: int = 0
    stamp: int = 0
    made: int = 0
    number: int = 0
    cursor: int = 0
    fold: int = 0  # unit + 1; 0: nothing


class WorldState(NamedTuple):
    """``prev`` and ``numbers`` (by unit) and ``confirmed`` are for the judge alone."""

    log: tuple[int, ...]
    hw: int
    start: int
    flight: tuple[int, ...]
    writers: tuple[WriterState, ...]
    prev: tuple[int, ...]
    numbers: tuple[int, ...]
    confirmed: tuple[tuple[int, int], ...]
    losses: int
    prunes: int


Step = tuple[str, "WorldState | str"]


class Found(NamedTuple):
    """What a search came to."""

    states: int
    complete: bool
    violation: str
    steps: tuple[str, ...]


def unit_of(entry: int) -> int:
    return (entry - UNIT) // 16


def stamp_of(entry: int) -> int:
    return (entry - UNIT) % 16


def is_unit(entry: int) -> bool:
    return UNIT <= entry < DELETE


def is_fence(entry: int) -> bool:
    return FENCE <= entry < UNIT


def fold_of(units: Sequence[tuple[int, int]]) -> int:
    return 0 if not units or units[-1][1] % QUOTA else units[-1][1] + 1


def later_epoch_wins(
    log: Sequence[int], begin: int, end: int, epochs: Sequence[int]
) -> list[tuple[int, int]]:
    """What counts if not the place decides but the fences before it, and the first copy."""
    found: list[tuple[int, int]] = []
    seen: dict[int, None] = {}
    highest = 0
    for at in range(begin, end):
        entry = log[at]
        if is_fence(entry):
            highest = max(highest, epochs[entry - FENCE])
        elif is_unit(entry):
            unit = unit_of(entry)
            if epochs[unit // QUOTA] >= highest and unit not in seen:
                seen[unit] = None
                found.append((at, unit))
    return found


def put(s: WorldState, w: int, **changes: int) -> WorldState:
    return s._replace(
        writers=(*s.writers[:w], s.writers[w]._replace(**changes), *s.writers[w + 1 :])
    )


def send(s: WorldState, request: int, copies: int) -> WorldState:
    return s._replace(flight=tuple(sorted(s.flight + (request,) * copies)))


class World:
    """The steps that are possible in a state, and what must hold in it."""

    def __init__(self, config: Config, rules: Rules) -> None:
        self.config = config
        self.rules = rules
        self.epochs = config.epochs
        self.owners = [WriterIdentity(LOG, epoch, w) for w, epoch in enumerate(config.epochs)]
        self.rising = config.epochs == tuple(sorted(set(config.epochs)))
        self._counting: dict[tuple[int, int], bool] = {}

    def initial(self) -> WorldState:
        n, config = len(self.epochs), self.config
        fences = tuple(FENCE + w for w in range(n) for _ in range(config.copies))
        zeros = (0,) * (QUOTA * n)
        return WorldState(
            (), 0, 0, (JUNK,) * config.junk + fences, (WriterState(),) * n, zeros, zeros, (),
            config.losses, config.prunes,
        )  # fmt: skip

    def batch(self, s: WorldState, at: int) -> StampedBatch:
        """Return an entry as the product sees it."""
        entry, stamp = s.log[at], None
        if is_fence(entry):
            stamp = self.owners[entry - FENCE].fence()
        elif is_unit(entry):
            stamp = self.stamp(s, unit_of(entry), stamp_of(entry))
        elif entry == JUNK:  # a stamp of another log, which says what would do most harm
            stamp = Stamp(StampKind.UNIT, LOG + 1, at, 0, 2**31 - 1, 9, 9, at + 1)
        return StampedBatch(at, at + 1, 1, False, stamp)

    def stamp(self, s: WorldState, unit: int, expected: int) -> Stamp:
        own = self.owners[unit // QUOTA]
        number = s.numbers[unit]
        return Stamp(StampKind.UNIT, LOG, expected, 1, own.epoch, own.writer, number, 0)

    def units(self, s: WorldState, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the units that count for a reader of [begin, end), as (offset, unit)."""
        if self.rules.history is not None:
            return self.rules.history(s.log, begin, end, self.epochs)
        return [
            (at, unit_of(s.log[at]))
            for at in range(begin, end)
            if is_unit(s.log[at]) and self._counts(s, at)
        ]

    def _counts(self, s: WorldState, at: int) -> bool:
        key = (s.log[at], at)
        if key not in self._counting:
            self._counting[key] = self.rules.judge(self.batch(s, at), LOG) is Judgement.COUNTS
        return self._counting[key]

    def normal(self, s: WorldState) -> WorldState:
        """Void units nobody waits for, and requests that can only become such, are junk."""
        rules = self.rules
        if rules.judge is not judge or rules.after_answer is not after_answer:
            return s
        if rules.outstanding > 1 or rules.history is not None:
            return s
        waited = {
            UNIT + (w * QUOTA + it.made - 1) * 16 + it.stamp
            for w, it in enumerate(s.writers)
            if it.phase == WAITING
        }
        log = tuple(
            JUNK if is_unit(e) and stamp_of(e) != at and e not in waited else e
            for at, e in enumerate(s.log)
        )
        flight = [
            JUNK if is_unit(e) and stamp_of(e) < s.hw and e not in waited else e for e in s.flight
        ]
        kept = (e for e in flight if e >= DELETE or len(s.log) < self.config.cap)
        return s._replace(log=log, flight=tuple(sorted(kept)))

    # ---- steps -----------------------------------------------------------------------------------

    def steps(self, s: WorldState) -> Iterator[Step]:
        """Yield all (label, next state, or the promise that is broken)."""
        for request in sorted(set(s.flight)):
            yield from self._deliver(s, request)
        if s.losses:
            for keep in range(s.hw, len(s.log)):
                cut = s._replace(log=s.log[:keep], losses=s.losses - 1)
                yield f"leader change, log cut to {keep}", cut
        for w, it in enumerate(s.writers):
            if it.phase in (FENCING, WAITING):
                yield from self._answers(s, w, it)
            if it.phase == LOADING:
                yield from self._load(s, w, it)
            idle, waits = it.phase == IDLE, it.phase == WAITING
            may_send = idle or (waits and self.rules.outstanding > 1)
            if may_send and it.made < self.config.quota and it.end < self.config.cap:
                yield self._decide(s, w, it)
            may_prune = idle or (waits and not self.rules.prune_confirmed)
            if s.prunes and w < self.config.pruners and may_prune:
                yield from self._prune(s, w, it)

    def _deliver(self, s: WorldState, request: int) -> Iterator[Step]:
        first, upto = s.flight.index(request), request - DELETE
        left = s._replace(flight=s.flight[:first] + s.flight[first + 1 :])
        if 0 <= upto <= len(s.log):
            deleted = left._replace(start=max(s.start, upto), hw=max(s.hw, upto))
            yield f"broker deletes records below {upto}", deleted
        elif upto < 0 and len(s.log) < self.config.cap:
            label = f"broker appends {self.words(request)} at {len(s.log)}"
            yield label, left._replace(log=(*s.log, request))

    def _answers(self, s: WorldState, w: int, it: WriterState) -> Iterator[Step]:
        if it.phase == FENCING:
            for at, entry in enumerate(s.log):
                if entry == FENCE + w and at >= s.start:
                    yield self._fenced_in(s._replace(hw=max(s.hw, at + 1)), w, at)
            return
        last_two = 2 if self.rules.outstanding > 1 and it.made > 1 else 1
        for back in range(last_two):
            unit, stamp = w * QUOTA + it.made - 1 - back, it.stamp - back
            for at, entry in enumerate(s.log):
                if entry == UNIT + unit * 16 + stamp and unit not in dict(s.confirmed):
                    hw = max(s.hw, at + 1) if self.rules.acks_all else s.hw
                    yield self._answered(s._replace(hw=hw), w, it, unit, stamp, at)

    def _fenced_in(self, s: WorldState, w: int, at: int) -> Step:
        """The fence is known to lie at ``at``: look below it."""
        label = f"{NAMES[w]} hears: fence at {at}"
        newest, end, width = NO_UNIT, at, WINDOW
        while end > s.start:
            begin = max(s.start, end - width)
            window = [self.batch(s, place) for place in range(begin, end)]
            found = self.rules.newest_in(window, self.owners[w])
            if isinstance(found, FencedBelow):
                words = self.words(s.log[found.offset])
                return f"{label}, is fenced by {words}", put(s, w, phase=STOPPED)
            if found is not None:
                newest = found
                break
            end, width = begin, 2 * width
        position = WriterPosition.taken_over(self.owners[w], at, newest)
        return label, put(
            s, w, phase=LOADING, fence=at, end=position.end, number=position.number, cursor=s.start
        )

    def _load(self, s: WorldState, w: int, it: WriterState) -> Iterator[Step]:
        if it.cursor < s.start:
            fold = 0 if self.rules.restart_load else it.fold
            again = put(s, w, cursor=s.start, fold=fold)
            yield f"{NAMES[w]}: log start moved, loads from {s.start}", again
            return
        moving = s.prunes or any(e >= DELETE for e in s.flight)
        parts = range(it.cursor + 1, it.fence) if moving or not self.rules.load_to_fence else ()
        for upto in [*parts, it.fence]:
            label, units = f"{NAMES[w]} loads up to {upto}", self.units(s, it.cursor, upto)
            fold = fold_of(units) if units else it.fold
            if upto < it.fence and self.rules.load_to_fence:
                yield label, put(s, w, cursor=upto, fold=fold)
                continue
            whole = fold_of(self.units(s, 0, it.fence))
            if fold != whole:
                yield label, f"S1/S3: the load of {NAMES[w]} gives {fold}, the log {whole}"
            elif broken := self._missing(s, w, it):
                yield label, broken
            else:
                yield label, put(s, w, phase=IDLE, cursor=0, fold=0)

    def _missing(self, s: WorldState, w: int, it: WriterState) -> str:
        """Return what the product's walk up to the own fence complains of."""
        fence = OwnFence(self.owners[w], it.fence, it.number)
        reading = ForwardReading(LOG, s.start, fence)
        try:
            for place in range(s.start, it.fence + 1):
                reading.take(self.batch(s, place))
        except BrokenLogError as error:
            return f"L1: {NAMES[w]} cannot load: {error}"
        return ""

    def _decide(self, s: WorldState, w: int, it: WriterState) -> Step:
        unit = w * QUOTA + it.made
        known = self.units(s, 0, it.end)
        stamp, number = it.end, it.number
        before = (known[-1][1] + 1) if known else 0
        if it.phase == WAITING:
            stamp, number, before = it.stamp + 1, it.number + 1, unit
        n = s._replace(
            prev=(*s.prev[:unit], before, *s.prev[unit + 1 :]),
            numbers=(*s.numbers[:unit], number, *s.numbers[unit + 1 :]),
        )
        n = put(n, w, phase=WAITING, stamp=stamp, made=it.made + 1)
        entry = UNIT + unit * 16 + stamp
        return f"{NAMES[w]} sends {self.words(entry)}", send(n, entry, self.config.copies)

    def _answered(
        self, s: WorldState, w: int, it: WriterState, unit: int, stamp: int, at: int
    ) -> Step:
        """An answer of Produce: the base offset is ``at``."""
        entry = UNIT + unit * 16 + stamp
        label = f"{NAMES[w]} hears: {self.words(entry)} lies at {at}"
        own = self.stamp(s, unit, stamp)
        try:
            answer = self.rules.after_answer(own, at)
        except BrokenLogError as error:
            if self.rules.outstanding > 1:
                return label, put(s, w, phase=STOPPED)
            return label, f"L1: corrupt without a cause: {error}"
        if isinstance(answer, UnitCounts):
            return label + ", confirms", self._confirm(s, w, unit, at, answer.end)
        if stamp < s.start:
            return label + ", read out of range, stops", put(s, w, phase=STOPPED)
        step: UnitCounts | StampAnew | FencedAbove = StampAnew(answer.end)
        if self.rules.reads_before_stamp:
            copies = [self.batch(s, place) for place in range(stamp, answer.end)]
            try:
                step = self.rules.after_reading(own, copies, answer.end)
            except BrokenLogError:
                return label + ", finds it broken, stops", put(s, w, phase=STOPPED)
        if isinstance(step, FencedAbove):
            words = self.words(s.log[step.offset])
            return label + f", reads {words}, stops", put(s, w, phase=STOPPED)
        if isinstance(step, UnitCounts):
            found = self._confirm(s, w, unit, stamp, step.end)
            return label + f", reads it at {stamp}, confirms", found
        n = put(s, w, stamp=step.end, end=step.end)
        copies_left = self.config.copies if step.end < self.config.cap else 0
        again = send(n, UNIT + unit * 16 + step.end, copies_left)
        return label + ", stamps anew", again

    def _confirm(self, s: WorldState, w: int, unit: int, at: int, end: int) -> WorldState | str:
        others = any(o > at and u // QUOTA != w for u, o in s.confirmed)
        if self.rules.reads_ride and others:
            return f"S6: a read at {NAMES[w]} goes with the unit at {at}, out of date"
        number = s.numbers[unit] + 1
        n = put(
            s._replace(confirmed=tuple(sorted((*s.confirmed, (unit, at))))),
            w,
            end=end,
            number=number,
        )
        more = self.rules.outstanding > 1 and unit != w * QUOTA + n.writers[w].made - 1
        return n if more else put(n, w, phase=IDLE, stamp=0)

    def _prune(self, s: WorldState, w: int, it: WriterState) -> Iterator[Step]:
        known = self.units(s, s.start, it.end)
        if it.phase == WAITING:
            known = [*known, (it.stamp, w * QUOTA + it.made - 1)]
        upto = known[-1][0] if fold_of(known) else max(it.end, known[-1][0] + 1 if known else 0)
        newest = known[-1][0] if known else -1
        position = WriterPosition(self.owners[w], it.fence, it.end, it.number, upto, newest)
        limit = self.rules.prune_limit(position)
        if limit > s.start:
            asked = send(s._replace(prunes=s.prunes - 1), DELETE + limit, 1)
            yield f"{NAMES[w]} asks to delete below {limit}", asked

    # ---- promises --------------------------------------------------------------------------------

    def broken(self, s: WorldState) -> str:
        """Return which promise does not hold in this state, "" if all do."""
        whole = self.units(s, 0, s.hw)
        if len({unit for _, unit in whole}) < len(whole):
            return "S4: a unit counts twice"
        below = -1
        for at, unit in whole:
            if s.prev[unit] != below + 1:
                return f"S2: unit {unit} at {at} counts, its writer did not know unit {below}"
            below = unit
        for unit, at in s.confirmed:
            if (at, unit) not in whole:
                return f"S1: unit {unit} was confirmed at {at} and is in no load"
            own = s.writers[unit // QUOTA]
            for v, it in enumerate(s.writers):
                if v != unit // QUOTA and own.fence < it.fence <= at:
                    return f"S5: unit {unit} was confirmed at {at} above the fence of {NAMES[v]}"
        for begin in range(s.start, s.hw + 1):
            if self.units(s, begin, s.hw) != [each for each in whole if each[0] >= begin]:
                return f"S3: loads from 0 and from {begin} disagree"
        if fold_of(self.units(s, s.start, s.hw)) != fold_of(whole):
            return "S3: a fold from the log start is another than that of the whole log"
        return self._heal(s) if self.rising and self.rules.outstanding == 1 else ""

    def _heal(self, s: WorldState) -> str:
        """Nothing is under way and nothing fails: the highest epoch takes its next steps."""
        w = len(self.epochs) - 1
        calm = World(self.config._replace(cap=99, copies=0), self.rules)
        for _ in range(10):
            it = s.writers[w]
            if it.phase == STOPPED:
                return f"L1: {NAMES[w]}, the highest epoch, was stopped"
            if it.phase == FENCING:
                taken = s._replace(log=(*s.log, FENCE + w), hw=len(s.log) + 1)
                after = calm._fenced_in(taken, w, len(s.log))[1]
            elif it.phase == LOADING:
                after = list(calm._load(s, w, it))[-1][1]
            elif it.phase == IDLE:
                if it.made >= QUOTA:
                    return ""
                after = calm._decide(s, w, it)[1]
            else:
                unit, at = w * QUOTA + it.made - 1, len(s.log)
                taken = s._replace(log=(*s.log, UNIT + unit * 16 + it.stamp), hw=at + 1)
                after = calm._answered(taken, w, it, unit, it.stamp, at)[1]
            if isinstance(after, str):
                return after
            s = after
            if it.phase == WAITING and s.writers[w].phase == IDLE:
                return ""
        return f"L1: {NAMES[w]} does not get on"

    def words(self, entry: int) -> str:
        if entry == JUNK:
            return "junk"
        if is_fence(entry):
            return f"fence {NAMES[entry - FENCE]} (epoch {self.epochs[entry - FENCE]})"
        unit = unit_of(entry)
        return f"unit {NAMES[unit // QUOTA]}{unit % QUOTA} stamped {stamp_of(entry)}"


def search(config: Config, rules: Rules = AS_DESIGNED, *, states_max: int = 1_000_000) -> Found:
    """Look at every state that can be reached; end at the first that breaks a promise."""
    world = World(config, rules)
    level = [world.initial()]
    parents: dict[WorldState, WorldState | None] = {level[0]: None}
    while level:
        following: list[WorldState] = []
        for s in level:
            if len(parents) > states_max:
                return Found(len(parents), False, "", ())
            for label, after in world.steps(s):
                n = after if isinstance(after, str) else world.normal(after)
                if not isinstance(n, str) and n in parents:
                    continue
                verdict = n if isinstance(n, str) else world.broken(n)
                if verdict:
                    steps = (*_way_to(world, parents, s), label)
                    return Found(len(parents), False, verdict, steps)
                assert not isinstance(n, str)
                parents[n] = s
                following.append(n)
        level = following
    return Found(len(parents), True, "", ())


def _way_to(world: World, parents: dict[WorldState, WorldState | None], s: WorldState) -> list[str]:
    way: list[str] = []
    while (back := parents[s]) is not None:
        way.append(
            next(
                label
                for label, after in world.steps(back)
                if not isinstance(after, str) and world.normal(after) == s
            )
        )
        s = back
    return way[::-1]
