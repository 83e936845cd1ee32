"""What a fetch acquires, record by record: the rules of spec ACQ over a dict of records.

Nothing here knows of runs. Where cached batches begin and end, the end offset and the gap window
are given as they were before the fetch, and predicted for afterwards.
"""

from dataclasses import dataclass, field

from sharemesh.domain.share_partition.events import Acquire, AcquireMode
from tests.domain.share_partition.naive_model import ACQUIRED, AVAILABLE, NaiveModel, Rec


@dataclass
class Cache:
    """Batches as (first, last), ascending; the end offset; gap start and end of the window."""

    batches: list[tuple[int, int]]
    end: int
    window: tuple[int, int] | None

    @property
    def active(self) -> bool:
        return self.window is not None and self.window[1] == self.end

    def move_window(self, gap_start: int) -> None:
        if not self.active or gap_start > self.window[1]:
            self.window = None
        else:
            self.window = (gap_start, self.window[1])

    def holder(self, offset: int) -> tuple[int, int] | None:
        return next((each for each in reversed(self.batches) if each[0] <= offset), None)


@dataclass
class NaiveAcquire:
    """One fetch against the model; ``run`` changes the model and the cache."""

    model: NaiveModel
    cache: Cache
    request: Acquire
    now_ms: int
    room: int  # records that may still be in flight
    locks: int | None = None  # records that may still be held; None: as many as one likes
    taken: dict[int, int] = field(default_factory=dict)  # offset -> delivery count
    budget: int = 0

    def run(self, whole_batches) -> dict[int, int]:
        request, cache = self.request, self.cache
        last = request.log_batches[-1].last_offset
        base = request.log_batches[0].base_offset
        if last < self.model.start:
            return {}
        at = request.fetch_offset
        self.budget = min(request.max_fetch_records, self.room)
        if self.room <= 0:  # only what was fetched before may go out again
            last = min(last, cache.end)
            self.budget = min(request.max_fetch_records, cache.end - at + 1)
        if self.locks is not None:
            self.budget = min(self.budget, self.locks)
        if self.budget <= 0:
            return {}
        if at < base:  # compacted away
            self.model.archive(at, base - 1, whole_batches)
        position = self._position(base)
        if position <= last:
            self._walk(position, base, last)
        return self.taken

    def _position(self, base: int) -> int:
        holder = self.cache.holder(base)
        if holder is None:
            base = max(base, self.model.start)
            holder = self.cache.holder(base)
        return holder[0] if holder is not None and holder[1] >= base else base

    def _walk(self, position: int, base: int, last: int) -> None:
        entries = [each for each in self.cache.batches if position <= each[0] <= last]
        if not entries:
            self._new(position, last)
            return
        stopped = False
        for first, end in entries:
            if self.cache.active and self.budget > 0:
                self._new(position, first - 1)
                position = end + 1
            stopped = self.budget <= 0 or not self._again(
                range(max(base, first), min(last, end) + 1), end - first + 1
            )
            if stopped:
                break
        if not stopped and self.budget > 0:
            self._new(entries[-1][1] + 1, last)
        if self.taken and self.cache.window is not None:
            self.cache.move_window(list(self.taken)[-1] + 1)

    def _again(self, offsets: range, batch_length: int) -> bool:
        """Deliver what is available again; return whether to look behind the batch."""
        model, limit = self.model, self.model.limit
        suspicious = max(2, (limit + 1) // 2)
        free = [o for o in offsets if model.recs[o].state == AVAILABLE and model.recs[o].settled]
        throttled = any(model.recs[o].count >= suspicious for o in free)
        if throttled and self.taken:
            return False
        ends = set()  # sizes at which the lot is full
        if self.request.mode is AcquireMode.RECORD_LIMIT:
            ends.add(self.budget)
        small, lot = None, 0
        for offset in free:
            count = model.recs[offset].count
            alone = limit > 2 and count == limit - 1
            if alone and lot:
                break
            if small is None and count >= suspicious:
                small = max(1, batch_length // 2 ** (count - suspicious + 1))
                ends.add(small)
            self._deliver(offset, count + 1)
            lot += 1
            if alone or lot in ends:
                break
        return not (throttled and lot)

    def _new(self, first: int, last: int) -> None:
        cache = self.cache
        if not cache.batches:
            first = max(first, cache.end)
        if first > last:
            return
        acquired = cached = last
        if self.budget < last - first + 1:
            acquired = cached = first + self.budget - 1
            for batch in self.request.log_batches:
                if batch.base_offset <= acquired <= batch.last_offset:
                    cached = batch.last_offset
            if cache.active:
                cached = min(cached, last)
        edges = [first]
        if self.request.mode is AcquireMode.BATCH_OPTIMIZED:
            acquired = cached
            for batch in self.request.log_batches:
                long = batch.base_offset - edges[-1] >= self.request.batch_size
                if long and batch.base_offset <= cached:
                    edges.append(batch.base_offset)
        for offset in range(first, cached + 1):
            self.model.recs[offset] = Rec(AVAILABLE, 0)
            if offset <= acquired:
                self._deliver(offset, 1)
        ends = [*(edge - 1 for edge in edges[1:]), cached]
        cache.batches = sorted([*cache.batches, *zip(edges, ends, strict=True)])
        if cache.batches[0][0] == first:
            self.model.start = first
        cache.end = max(cache.end, cached)
        if cache.window is not None:
            cache.move_window(acquired + 1)

    def _deliver(self, offset: int, count: int) -> None:
        rec = self.model.recs[offset]
        rec.state, rec.count, rec.member = ACQUIRED, count, self.request.member_id
        rec.deadline_ms, rec.fired = self.now_ms + self.model.lock_ms, False
        rec.unsure = False
        self.taken[offset] = count
        self.budget -= 1
