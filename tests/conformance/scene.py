"""The notation of the scenarios as code: a share partition that is told and asked in words.

`log`: "0-4 5-19" are two log batches. Acquired ranges read "0-4(1) 5-24(1)". The cache reads
"B 5-10 AV(2), O 11-15: 11-12 ACQ(1,m1) 13-15 ARC(1)": B for one lock a batch, O for one an offset;
"~" marks a transition whose write is outstanding.
"""

import re
from dataclasses import replace

from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.share_partition.events import AcquireMode, LogBatch
from sharemesh.domain.state_batch import StateBatch
from tests.conformance.world import KAFKAS, PartitionWorld

ALL = 2147483647
NAMES = {"AV": 0, "ACK": 2, "ARCHIVING": 3, "ARC": 4}
LETTERS = {
    DeliveryState.AVAILABLE: "AV",
    DeliveryState.ACQUIRED: "ACQ",
    DeliveryState.ACKNOWLEDGED: "ACK",
    DeliveryState.ARCHIVED: "ARC",
}


class Scene:
    """A fresh share partition: ACTIVE, start=end=0, limit 5, max in-flight 200, lock 30000 ms."""

    def __init__(self, **settings) -> None:
        config = replace(KAFKAS, partition_max_record_locks=200)
        names = {
            "limit": "delivery_count_limit",
            "max_in_flight": "partition_max_record_locks",
            "lock_ms": "record_lock_duration_ms",
            "renew": "renew_acknowledge_enable",
            "isolation": "isolation_level",
        }
        self.world = PartitionWorld(
            replace(config, **{names[name]: value for name, value in settings.items()})
        )
        self.world.validate = True
        self.world.persister.start = 0
        self.world.initialize()

    # ---- given

    @classmethod
    def init(cls, start: int, batches: str = "", epoch: int = 0, **settings) -> "Scene":
        """Return a partition whose persister answered {start, epoch; batches}."""
        scene = cls(**settings)
        scene.world.persister.start = start
        scene.world.persister.state_epoch = epoch
        scene.world.persister.batches = state_batches(batches)
        scene.answer = scene.world.initialize()
        return scene

    def configure(self, **settings) -> None:
        """Change settings by the names of GroupConfig."""
        self.world.configure(**settings)

    def acquired(self, *logs: str, m: str = "m1") -> "Scene":
        """Acquire each log in a fetch of its own."""
        for log in logs:
            assert self.fetch(log, m=m) == f"{log}(1)", log
        return self

    # ---- when

    def fetch(self, log: str, m: str = "m1", **how) -> str:
        """Acquire out of log batches; say what was acquired. ``max``, ``bs``, ``at``, ``rl``."""
        batches = log_batches(log) if isinstance(log, str) else log
        at = how.get("at")
        if at is None:
            at = batches[0].base_offset if batches else self.machine.start_offset
        mode = AcquireMode.RECORD_LIMIT if how.get("rl") else AcquireMode.BATCH_OPTIMIZED
        got = self.world.acquire(
            m,
            at,
            batches,
            how.get("max", ALL),
            how.get("bs", 500),
            mode,
            how.get("aborted", ()),
        )
        self.count = got.count
        return " ".join(
            f"{each.first_offset}-{each.last_offset}({each.delivery_count})" for each in got.ranges
        )

    def ack(self, what: str, m: str = "m1") -> str:
        """One acknowledge call, "5-9 RELEASE; 10-12 [1,2,4]"; say NONE, PENDING or the error."""
        batches = []
        for part in what.split(";"):
            offsets, kind = part.strip().split(" ", 1)
            first, _, last = offsets.partition("-")
            types = (
                tuple(int(each) for each in kind.strip("[]").split(","))
                if kind[0] in "[-0123456789"
                else (AcknowledgeType[kind],)
            )
            batches.append((int(first), int(last or first), types))
        return self._answer(self.world.acknowledge(m, batches))

    def release(self, m: str = "m1") -> str:
        """Close the member's session."""
        return self._answer(self.world.release(m))

    def lso(self, offset: int) -> None:
        """Move the log start."""
        self.world.move_log_start(offset)

    def tick(self) -> None:
        """Let the lock duration pass."""
        self.world.advance(self.world.config.record_lock_duration_ms)

    def hold(self) -> None:
        """Writes stay outstanding from now on."""
        self.world.persister.mode = "hold"

    def fail(self, error: ErrorCode) -> None:
        """Writes fail from now on."""
        self.world.persister.mode, self.world.persister.error = "fail", error

    def ok(self) -> None:
        """Writes succeed from now on."""
        self.world.persister.mode = "ok"

    def complete(self, error: ErrorCode | None = None, index: int = 0) -> None:
        """Answer a held write, by default the oldest one."""
        held = self.world.persister.held
        held.rotate(-index)
        if error is not None:
            self.world.persister.error = error
        entry = held.popleft()
        held.rotate(index)
        held.appendleft(entry)
        self.world.persister.complete_held(ok=error is None, count=1)

    # ---- then

    @property
    def machine(self):
        """The machine itself."""
        return self.world.partition

    @property
    def at(self) -> tuple[int, int, int]:
        """Start, end and next fetch offset."""
        machine = self.machine
        return machine.start_offset, machine.end_offset, machine.next_fetch_offset()

    @property
    def start(self) -> int:
        """The start offset."""
        return self.machine.start_offset

    @property
    def end(self) -> int:
        """The end offset."""
        return self.machine.end_offset

    @property
    def next(self) -> int:
        """The next fetch offset."""
        return self.machine.next_fetch_offset()

    @property
    def dcc(self) -> int:
        """The delivery-complete count."""
        return self.machine.delivery_complete_count

    @property
    def window(self) -> tuple[int, int] | None:
        """The gap window."""
        return self.machine.gap_window

    @property
    def timers(self) -> int:
        """How many locks run, counted as one a batch or one an offset."""
        return sum(batch.lock_count for batch in self.machine.cached_batches())

    @property
    def cache(self) -> str:
        """The cache in words."""
        return ", ".join(self._words(batch) for batch in self.machine.cached_batches())

    def entry(self, first: int) -> str:
        """The cached batch that begins at ``first``, in words."""
        return next(
            self._words(batch)
            for batch in self.machine.cached_batches()
            if batch.first_offset == first
        )

    def states(self, first: int, last: int) -> str:
        """The states of ``first..last`` in words, equal neighbours as one."""
        runs: list[list] = []
        for view in self.machine.record_states(first, last):
            word = _word(view)
            if runs and runs[-1][1] + 1 == view.first_offset and runs[-1][2] == word:
                runs[-1][1] = view.last_offset
            else:
                runs.append([view.first_offset, view.last_offset, word])
        return " ".join(f"{_range(begin, end)} {word}" for begin, end, word in runs)

    @property
    def writes(self) -> list[WriteState]:
        """All writes so far."""
        return self.world.persister.log

    @property
    def last_write(self) -> str:
        """The last write: "start 5: 5-14 2 1"."""
        write = self.writes[-1]
        batches = ", ".join(
            f"{_range(b.first_offset, b.last_offset)} {int(b.delivery_state)} {b.delivery_count}"
            for b in write.batches
        )
        return f"start {write.start_offset}: {batches}"

    def outcome(self, request_id: int) -> str | None:
        """How a pending operation ended, or None."""
        answer = self.world.answers.get(request_id)
        return None if answer is None else answer.error.name

    def _answer(self, request_id: int) -> str:
        self.request_id = request_id
        answer = self.world.answers.get(request_id)
        return "PENDING" if answer is None else answer.error.name

    def _words(self, batch) -> str:
        text = self.states(batch.first_offset, batch.last_offset)
        if not batch.per_offset:
            return f"B {text}"
        return f"O {_range(batch.first_offset, batch.last_offset)}: {text}"


def _word(view) -> str:
    member = f",{view.member_id}" if view.member_id else ""
    transition = "~" if view.in_transition else ""
    return f"{LETTERS[view.state]}({view.delivery_count}{member}){transition}"


def _range(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first else f"{first}"


def log_batches(text: str) -> tuple[LogBatch, ...]:
    """Return the log batches that "0-4 5-19" stands for."""
    result = []
    for part in text.split():
        first, _, last = part.partition("-")
        result.append(LogBatch(int(first), int(last or first)))
    return tuple(result)


def state_batches(text: str) -> tuple[StateBatch, ...]:
    """Return the state batches that "5-10 AV(2), 11-15 ARC(3)" stands for."""
    pattern = re.compile(r"(\d+)(?:-(\d+))? (\w+)\((\d+)\)")
    return tuple(
        StateBatch(int(first), int(last or first), DeliveryState(NAMES[state]), int(count))
        for first, last, state, count in pattern.findall(text)
    )
