"""Unpacking compressed batches for answers in the decoded form (spec BND-34)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

from sharemesh.authorization.slices import Slices
from sharemesh.codec.plain_batch import PLAIN_BATCH_BYTES_MAX, Opened, is_compressed, opened_batch
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.record_log import ReadResult
from sharemesh.share_leader.settings import LeaderSettings
from sharemesh.tasks import to_its_end
from sharemesh.v1 import share_leader_pb2 as pb

ANSWERS_AT_ONCE = 2
"""Answers of a process that hold a large batch unpacked; of one principal half of them."""

BYTES_IN_LOOP = 256 * 1024
"""What is unpacked in the loop, in less than a millisecond; the rest is for a thread."""


def most_records(record_format: int, settings: LeaderSettings) -> int:
    """Return how many records one answer may have."""
    if record_format == pb.RECORD_FORMAT_DECODED:
        return settings.max_decoded_records
    return settings.max_fetch_records


class Unpacking:
    """The threads of a process that unpack, and the places of answers that need one."""

    def __init__(self, settings: LeaderSettings, clock: Clock) -> None:
        self._clock = clock
        self.places = settings.places(ANSWERS_AT_ONCE)
        self.wait_ms = settings.max_throttle_hold_ms
        self._threads = ThreadPoolExecutor(ANSWERS_AT_ONCE, "unpacking")

    @asynccontextmanager
    async def answer(
        self, record_format: int, principal: str, bytes_max: int, has_room: Callable[[int], bool]
    ) -> AsyncIterator["OpenedBatches | None"]:
        """Yield what one answer in the decoded form opens; None for another form."""
        if record_format != pb.RECORD_FORMAT_DECODED:
            yield None
            return
        opened = OpenedBatches(self, principal, bytes_max, has_room, Slices(self._clock, principal))
        try:
            yield opened
        finally:
            opened.close()

    async def opened(self, batch: memoryview, bytes_max: int) -> Opened:
        """Open a batch in a thread, which is waited for also by who is cancelled."""
        loop = asyncio.get_running_loop()

        async def work() -> Opened:
            return await loop.run_in_executor(self._threads, opened_batch, batch, bytes_max)

        return await to_its_end(work())

    def close(self) -> None:
        """End the threads; nothing large can be unpacked any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class OpenedBatches:
    """What one answer in the decoded form has unpacked, before anything of it is acquired.

    Attributes:
        bytes_max: What they may take, unless the first is larger.
        bytes: What all of them take.
        slices: The turns of the loop that the answer takes.
        lacks_room: A batch was left for a later answer, which may have the room for it.
    """

    def __init__(
        self,
        unpacking: Unpacking,
        principal: str,
        bytes_max: int,
        has_room: Callable[[int], bool],
        slices: Slices,
    ) -> None:
        """``has_room`` is asked for what the first batch takes beyond ``bytes_max``."""
        self._unpacking = unpacking
        self._principal = principal
        self.bytes_max = bytes_max
        self._has_room = has_room
        self._opened: dict[tuple[TopicPartition, int], Opened | ValueError] = {}
        self._releases: list[Callable[[], None]] = []
        self._has_place = False
        self._is_full = False
        self.slices = slices
        self.lacks_room = False
        self.bytes = 0

    async def fitting(self, partition: TopicPartition, read: ReadResult) -> ReadResult:
        """Return of what was read the first batches that fit the answer, which are open now."""
        at, kept = 0, 0
        view = memoryview(read.records)
        for header in read.headers:
            end = at + header.size_bytes
            if not header.is_control and not await self._open(
                (partition, header.base_offset), view[at:end]
            ):
                break
            at, kept = end, kept + 1
            await self.slices.spend()
        if kept == len(read.headers):
            return read
        return replace(read, records=read.records[:at], headers=read.headers[:kept])

    def of(self, partition: TopicPartition) -> Callable[[int, memoryview], Opened]:
        """Return what gives the open batches of a partition by their base offsets."""

        def given(base_offset: int, batch: memoryview) -> Opened:  # noqa: ARG001
            found = self._opened.pop((partition, base_offset))
            if isinstance(found, ValueError):
                raise found
            return found

        return given

    def at_end(self, release: Callable[[], None]) -> None:
        """Call ``release`` once the answer is whole, or is given up."""
        self._releases.append(release)

    def close(self) -> None:
        """Forget what is open, and leave the place and the share partitions to others."""
        for release in self._releases:
            release()
        self._releases.clear()
        self._opened.clear()
        if self._has_place:
            self._has_place = False
            self._unpacking.places.give_back(self._principal)

    async def _open(self, which: tuple[TopicPartition, int], batch: memoryview) -> bool:
        """Open a batch; False: it does not fit, and nothing behind it is looked at."""
        if self._is_full:
            return False
        left, is_first = self.bytes_max - self.bytes, not self._opened
        found: Opened | ValueError | None
        try:
            found = await self._unpacked(batch, left, is_first=is_first)
        except ValueError as error:  # it is damaged, which is told once it is acquired
            found = error
        size = found.records_bytes if isinstance(found, Opened) else 0
        if found is None or (not is_first and size > left):
            self._is_full = True
            return False
        if size > max(left, len(batch)) and not self._has_room(size - left):
            self._is_full = self.lacks_room = True
            return False
        self._opened[which] = found
        self.bytes += size
        return True

    async def _unpacked(self, batch: memoryview, left: int, *, is_first: bool) -> Opened | None:
        """Return a batch; None: it takes more than is left, or there was no place for it."""
        if not is_compressed(batch):
            return Opened(batch)
        found = opened_batch(batch, BYTES_IN_LOOP if is_first else max(0, min(left, BYTES_IN_LOOP)))
        if not found.is_cut:
            return found
        if not is_first and left <= BYTES_IN_LOOP:
            return None
        if not self._has_place and not await self._place():
            self.lacks_room = True
            return None
        found = await self._unpacking.opened(batch, PLAIN_BATCH_BYTES_MAX if is_first else left)
        return found if is_first or not found.is_cut else None

    async def _place(self) -> bool:
        """Wait a while for a place, which the answer keeps to its end."""
        try:
            async with asyncio.timeout(self._unpacking.wait_ms / 1_000):
                await self._unpacking.places.take(self._principal)
        except TimeoutError:
            return False
        self._has_place = True
        return True
