"""The long poll of Fetch: wait until enough can be read, or until there is something to tell."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sharemesh.authorization.slices import Slices
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.record_log import ReadResult
from sharemesh.share_leader.failures import Outcome
from sharemesh.share_leader.partition.led_partitions import LedPartition
from sharemesh.v1 import record_log_pb2 as pb

NOTHING_READ = ReadResult(b"", (), ())


@dataclass(slots=True)
class FetchedPart:
    """One partition of a request, and what came of it."""

    asked: pb.FetchPartition
    partition: TopicPartition
    led: LedPartition | None = None
    looks_before: int = 0
    read: ReadResult = NOTHING_READ
    outcome: Outcome | None = None

    @property
    def max_bytes(self) -> int:
        """The bound of this partition."""
        return max(1, self.asked.max_bytes)

    def is_news(self) -> bool:
        """Return whether there is an error, or will be one as soon as it is read."""
        if self.outcome is not None or self.led is None or not self.led.serves_log:
            return True
        log, offset = self.led.log, self.asked.fetch_offset
        if log.damage is not None and offset >= log.damage[0]:
            return True
        return not log.log_start_offset <= offset <= log.high_watermark

    def has_records(self, *, committed: bool) -> bool:
        """Return whether there is something behind the offset that is asked for."""
        return self.led is not None and self.asked.fetch_offset < _end(
            self.led, committed=committed
        )

    def available_bytes(self, *, committed: bool, max_bytes: int = 0) -> int:
        """Return about how many bytes an answer would have, within ``max_bytes`` or its bound."""
        led, offset = self.led, self.asked.fetch_offset
        if led is None or not self.has_records(committed=committed):
            return 0
        bytes_behind = led.log.bytes_between(offset, _end(led, committed=committed))
        return min(max_bytes or self.max_bytes, max(1, bytes_behind))


def _end(led: LedPartition, *, committed: bool) -> int:
    return led.log.last_stable_offset if committed else led.log.high_watermark


class _NamedPartition:
    """The entries of a request for one partition: it may be named thousands of times.

    The lowest and the highest offset tell when there is something to tell about any of them.
    """

    def __init__(self, index: int, part: FetchedPart) -> None:
        self.entries = [index]
        self._lowest = self._highest = part
        self._max_bytes = part.max_bytes

    def add(self, index: int, part: FetchedPart) -> None:
        self.entries.append(index)
        self._max_bytes = max(self._max_bytes, part.max_bytes)
        offset = part.asked.fetch_offset
        if offset < self._lowest.asked.fetch_offset:
            self._lowest = part
        if offset > self._highest.asked.fetch_offset:
            self._highest = part

    def is_news(self) -> bool:
        return self._lowest.is_news() or self._highest.is_news()

    def available_bytes(self, *, committed: bool) -> int:
        """Return about how many bytes can be read, once and not for each entry (FET-4)."""
        return self._lowest.available_bytes(committed=committed, max_bytes=self._max_bytes)


class DelayedFetch:
    """Looks again at those partitions only that have moved: there may be thousands."""

    def __init__(
        self, parts: Sequence[FetchedPart], *, committed: bool, min_bytes: int, slices: Slices
    ) -> None:
        self._parts = parts
        self._committed = committed
        self._min_bytes = min_bytes
        self._slices = slices
        self._named: dict[LedPartition | None, _NamedPartition] = {}
        for index, part in enumerate(parts):
            named = self._named.get(part.led)
            if named is None:
                self._named[part.led] = _NamedPartition(index, part)
            else:
                named.add(index, part)
        self._moved = dict.fromkeys(self._named)
        self._available: dict[LedPartition | None, int] = {}
        self._total = 0
        self._has_news = False
        self._changed = asyncio.Event()
        self._watches = [(led, partial(self._move, led)) for led in self._named if led is not None]
        for led, moved in self._watches:
            led.watch(moved)

    def close(self) -> None:
        """Watch nothing any more."""
        for led, moved in self._watches:
            led.unwatch(moved)

    def expire(self) -> None:
        """End the wait that is under way."""
        self._changed.set()

    async def wait(self) -> None:
        """Return once something has moved since ``is_ready`` looked, or the wait is over."""
        await self._changed.wait()

    async def is_ready(self) -> bool:
        """Return whether an answer is worth giving now."""
        self._changed.clear()
        moved, self._moved = self._moved, {}
        for led in moved:
            named = self._named[led]
            self._has_news = self._has_news or named.is_news()
            available = named.available_bytes(committed=self._committed)
            self._total += available - self._available.pop(led, 0)
            if available:
                self._available[led] = available
            await self._slices.spend()
        return self._has_news or self._total >= self._min_bytes

    def to_read(self) -> list[FetchedPart]:
        """Return those that have something, or something to tell, in the order of the request."""
        committed = self._committed
        if not self._has_news:
            entries = sorted(index for led in self._available for index in self._named[led].entries)
            parts = (self._parts[index] for index in entries)
            return [part for part in parts if part.has_records(committed=committed)]
        return [
            part
            for part in self._parts
            if part.outcome is None and (part.has_records(committed=committed) or part.is_news())
        ]

    def _move(self, led: LedPartition) -> None:
        self._moved[led] = None
        self._changed.set()
