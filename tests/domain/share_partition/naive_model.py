"""A deliberately naive share partition: one record per offset in a dict.

What a fetch acquires is predicted in ``naive_acquire``, everything else here. Where batches begin
and end it takes from the machine as it was before the event.
"""

from dataclasses import dataclass

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
TERMINAL = {ACKNOWLEDGED, ARCHIVED}
TARGET = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}
RENEW = 4


class ModelError(AssertionError):
    """The machine did what the rules do not allow."""


@dataclass
class Rec:
    """One record."""

    state: int
    count: int
    member: str = ""
    deadline_ms: int | None = None
    write: int | None = None
    before: "tuple[str, int | None, int] | None" = None  # owner, deadline and count to return to
    fired: bool = False
    unsure: bool = False  # a write of this count may be stored (HBK-4)

    @property
    def settled(self) -> bool:
        return self.write is None


class NaiveModel:
    """All that the rules say about single records."""

    def __init__(self, start: int, limit: int, lock_ms: int, *, renew: bool = True) -> None:
        self.recs: dict[int, Rec] = {}
        self.start = start
        self.limit = limit
        self.lock_ms = lock_ms
        self.renew = renew
        self.limits: dict[int, int] = {}  # limit as captured by each write

    def must(self, condition: bool, message: str) -> None:
        if not condition:
            raise ModelError(message)

    # ---- acknowledge, release

    def acknowledge(self, member, batches, write_id, now_ms, end_of_entry) -> str:
        """Return the expected error, or NONE or PENDING; all or nothing."""
        saved = {offset: Rec(**vars(rec)) for offset, rec in self.recs.items()}
        renewed: dict[int, Rec] = {}
        touched = False
        try:
            for first, last, types, uncounted in batches:
                if last < self.start:
                    continue
                self._reach(first, last, end_of_entry)
                for offset in range(max(first, self.start), last + 1):
                    if offset not in self.recs:
                        continue
                    kind = types[0] if len(types) == 1 else types[offset - first]
                    rec = self.recs[offset]
                    if rec.state != ACQUIRED or rec.member != member:
                        raise RefusedError("INVALID_RECORD_STATE")
                    if kind == RENEW:
                        if not self.renew:
                            raise RefusedError("INVALID_RECORD_STATE")
                        rec.deadline_ms = now_ms + self.lock_ms
                        renewed[offset] = rec
                    elif uncounted and not rec.unsure:
                        self._hand_back(rec, write_id)
                    else:
                        self._start(rec, TARGET[kind], write_id)
                        touched = True
        except RefusedError as refused:
            self.recs = saved
            for offset, rec in renewed.items():  # renewals stay (ACK-15)
                self.recs[offset].deadline_ms = rec.deadline_ms or self.recs[offset].deadline_ms
            return str(refused)
        self.limits[write_id] = self.limit
        if touched:
            return "PENDING"
        self.written(write_id, ok=True)  # nothing to wait for
        return "NONE"

    def _reach(self, first, last, end_of_entry) -> None:
        anchor = first
        if end_of_entry(anchor) is None and first < self.start:
            anchor = self.start
        if end_of_entry(anchor) is None:
            raise RefusedError("INVALID_RECORD_STATE")
        if end_of_entry(last) < last:
            raise RefusedError("INVALID_REQUEST")

    def release(self, member, write_id) -> str:
        """Everything that the member holds goes back."""
        touched = False
        for offset, rec in self.recs.items():
            if rec.state == ACQUIRED and rec.member == member:
                target = ARCHIVED if offset < self.start else AVAILABLE
                self._start(rec, target, write_id)
                touched = True
        self.limits[write_id] = self.limit
        return "PENDING" if touched else "NONE"

    def _start(self, rec: Rec, target: int, write_id: int) -> None:
        if target == AVAILABLE and rec.count >= self.limit:
            target = ARCHIVED
        rec.before = (rec.member, rec.deadline_ms, rec.count)
        rec.state, rec.member, rec.write = target, "", write_id

    def _hand_back(self, rec: Rec, write_id: int) -> None:
        rec.before = (rec.member, rec.deadline_ms, rec.count)
        rec.state, rec.member, rec.write, rec.count = AVAILABLE, "", write_id, rec.count - 1

    def written(self, write_id: int, *, ok: bool) -> None:
        """Commit or roll back."""
        for offset, rec in self.recs.items():
            if rec.write != write_id:
                continue
            rec.write = None
            if ok or rec.before is None:
                rec.deadline_ms = rec.before = None
                continue
            was_counted = rec.count == rec.before[2]
            if rec.fired:
                rec.count = rec.before[2]
                over = rec.count >= self.limits[write_id] or offset < self.start
                rec.state, rec.deadline_ms = ARCHIVED if over else AVAILABLE, None
            else:
                rec.state, rec.unsure = ACQUIRED, rec.unsure or was_counted
                rec.member, rec.deadline_ms, rec.count = rec.before
            rec.before = None

    # ---- time, log start

    def tick(self, now_ms: int) -> int:
        """Expire what is due; return how many records."""
        expired = 0
        for offset, rec in self.recs.items():
            if rec.deadline_ms is None or rec.deadline_ms > now_ms:
                continue
            rec.fired = True
            if rec.state == ACQUIRED:
                over = rec.count >= self.limit or offset < self.start
                rec.state, rec.member = ARCHIVED if over else AVAILABLE, ""
                rec.deadline_ms = None
                expired += 1
        return expired

    def log_start(self, to: int, whole_batches) -> None:
        """Archive what is available below; ``whole_batches`` have never been split."""
        self.archive(min(self.recs, default=0), to - 1, whole_batches)
        self.start = max(self.start, to)

    def archive(self, first: int, last: int, whole_batches) -> None:
        for low, high in whole_batches:
            partial = low < first <= high or low <= last < high
            if partial and low in self.recs and self.recs[low].state == AVAILABLE:
                for offset in range(low, high + 1):  # QUIRK: splitting ends the transition
                    self.recs[offset].write = None
                    self.recs[offset].before = None
        for offset in range(first, last + 1):
            rec = self.recs.get(offset)
            if rec is not None and rec.state == AVAILABLE:
                rec.state, rec.member, rec.deadline_ms, rec.before = ARCHIVED, "", None, None

    # ---- offsets

    def move_start(self, batches, window_start: int | None) -> None:
        """Pass what is done, as OFF-7..12 say; ``batches`` are (first, last, per offset)."""
        floor = [batch for batch in batches if batch[0] <= self.start]
        if not floor:
            return
        low, high, split = floor[-1]
        if self.start > high and split:
            return
        if not self._done(min(self.start, high)):
            return
        last_done, gone = None, 0
        for low, high, _ in batches:
            if window_start is not None and high >= window_start:
                break
            done = [offset for offset in range(low, high + 1) if not self._done(offset)]
            if done:
                last_done = done[0] - 1 if done[0] > low else last_done
                break
            last_done, gone = high, gone + 1
        if last_done is None:
            return
        for low, high, _ in batches[:gone]:
            for offset in range(low, high + 1):
                del self.recs[offset]
        if gone == len(batches):
            self.start = last_done + 1
            return
        target = last_done + 1
        if gone and last_done == batches[gone - 1][1]:
            target = batches[gone][0]
            if window_start is not None:
                target = min(target, window_start)
        self.start = max(self.start, target)

    def _done(self, offset: int) -> bool:
        rec = self.recs[offset]
        return rec.state in TERMINAL and rec.settled

    @property
    def complete(self) -> int:
        """Terminal records at or above the start."""
        return sum(
            1 for offset, rec in self.recs.items() if offset >= self.start and rec.state in TERMINAL
        )

    def first_available(self) -> int | None:
        """The lowest record that can be acquired."""
        free = (o for o, rec in self.recs.items() if rec.state == AVAILABLE and rec.settled)
        return min(free, default=None)


class RefusedError(Exception):
    """The request is refused with the named error."""
