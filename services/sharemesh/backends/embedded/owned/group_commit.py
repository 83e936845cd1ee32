"""Group commit: batches appended while a commit runs go into the next one (LOG-7, LOG-18)."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from sharemesh.backends.embedded.owned.owned_log import LogPosition, OwnedLog
from sharemesh.backends.embedded.settings import MIB, LogSettings
from sharemesh.ports.clock import Clock
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import FencedError, LogFailedError, LogFullError

Note = TypeVar("Note")


LOOK_AGE_MS_MAX = 20
"""A check for higher fences counts for what waited for it only so long after its beginning."""

ROOM_AGE_MS_MAX = 1_000
ROOM_AMPLE_BYTES = 256 * MIB  # more than other processes write in that time


Piece = bytes | bytearray | memoryview


class CommitEntry(NamedTuple, Generic[Note]):
    """Bytes, in pieces, that wait for their commit, and what to remember until then."""

    data: tuple[Piece, ...]
    size_bytes: int
    end_offset: int
    log_start_offset: int  # −1: unchanged
    note: Note


class _Waiter(NamedTuple):
    end_offset: int
    future: asyncio.Future[None]


def _joined(entries: list[CommitEntry[Note]]) -> Sequence[Piece]:
    return [piece for entry in entries for piece in entry.data]


class GroupCommit(Generic[Note]):
    """The queue before one owned log: one job at a time, the next one fills meanwhile.

    Args:
        disk: Where jobs run.
        clock: Says how old an answer is.
        log: Only this object may call it.
        settings: Bounds.
        reserve_bytes: Appends are refused while less than this would stay free.
        on_committed: Called on the loop with the entries of each job and where its bytes lie,
            before waiters are notified.
        encode: Called in the pool: the bytes of the entries of one job, if not simply theirs.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        log: OwnedLog,
        settings: LogSettings,
        reserve_bytes: int,
        on_committed: Callable[[list[CommitEntry[Note]], LogPosition], None],
        encode: Callable[[list[CommitEntry[Note]]], Sequence[Piece]] | None = None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._log = log
        self._settings = settings
        self._reserve_bytes = reserve_bytes
        self._on_committed = on_committed
        self._encode = encode or _joined
        self._queue: deque[CommitEntry[Note]] = deque()
        self._queued_bytes = 0
        self._waiters: list[_Waiter] = []
        self._jobs: deque[tuple[Callable[[], None], asyncio.Future[None]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._wants_look = False
        self._looks_begun = 0
        self._passed = 0  # of the looks the last one that found no higher fence
        self._passed_began_ms = clock.now_ms()
        self._room_asked_ms = clock.now_ms()
        self.end_offset = log.committed_end_offset
        self.committed_end_offset = log.committed_end_offset
        self.log_start_offset = log.log_start_offset

    def check(self) -> None:
        """Return if the log can still be written.

        Raises:
            FencedError, LogFailedError, CorruptLogError: Why not.
        """
        if self._error is not None:
            raise self._error.with_traceback(None)  # else each raise makes it longer
        if self._log.corruption is not None:
            raise self._log.corruption.with_traceback(None)

    def has_room(self, more_bytes: int) -> bool:
        """Whether ``more_bytes`` fit on the volume, as far as the last job saw it."""
        free = self._log.free_bytes - self._queued_bytes - more_bytes
        return free >= self._reserve_bytes

    async def ask_for_room(self, more_bytes: int) -> None:
        """Ask the disk how much space is left, if the last answer is old or was not ample.

        So that a volume that others filled refuses an append, and not ends an epoch.
        """
        if self._wants_room(more_bytes):
            await self.refresh_room()

    def _wants_room(self, more_bytes: int) -> bool:
        age_ms = self._clock.now_ms() - self._room_asked_ms
        return age_ms > ROOM_AGE_MS_MAX or not self.has_room(more_bytes + ROOM_AMPLE_BYTES)

    async def refresh_room(self) -> None:
        """Ask the disk again how much space is left."""
        self._room_asked_ms = self._clock.now_ms()
        self._log.free_bytes = await self._disk.run(self._disk.free_bytes)

    def append(self, entry: CommitEntry[Note]) -> None:
        """Queue an entry whose offsets begin at ``end_offset``.

        Raises:
            LogFullError: The volume or the queue is full; nothing was queued.
            FencedError, LogFailedError, CorruptLogError: The log cannot be written.
        """
        self.check()
        size = entry.size_bytes
        moves_log_start = entry.log_start_offset >= 0  # small, and the way to get space back
        if not moves_log_start and not self.has_room(size):
            self._wants_look = True  # which also asks how much is free now
            self._start()
            raise LogFullError(
                f"log {self._log.path}: {self._log.free_bytes} bytes are free and "
                f"{self._reserve_bytes} are kept in reserve: free space on the volume"
            )
        if self._queued_bytes + size > self._settings.queued_bytes_max and self._queue:
            raise LogFullError(
                f"log {self._log.path}: {self._queued_bytes} bytes wait to be synced, more than "
                f"{self._settings.queued_bytes_max} with this one: try again"
            )
        self._queue.append(entry)
        self._queued_bytes += size
        self.end_offset = entry.end_offset
        self._start()

    async def committed(self, end_offset: int) -> None:
        """Return once all below ``end_offset`` is committed and a later fence check has passed.

        Raises:
            FencedError, LogFailedError: It never will be.
        """
        if self._error is not None:
            raise self._error.with_traceback(None)  # else each raise makes it longer
        if end_offset > self.end_offset:
            raise ValueError(
                f"log {self._log.path}: offset {end_offset} is past the end {self.end_offset}"
            )
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(_Waiter(end_offset, future))
        self._start()
        await future

    def looks_begun(self) -> int:
        """Return how many checks for higher fences have begun."""
        return self._looks_begun

    def has_looked_since(self, looks_begun: int) -> bool:
        """Return whether a check for higher fences that is not one of so many passed just now."""
        if self._passed <= looks_begun or self._error is not None:
            return False
        return self._clock.now_ms() - self._passed_began_ms <= LOOK_AGE_MS_MAX

    async def between_commits(self, job: Callable[[], None]) -> None:
        """Run a blocking job on the log between two commits."""
        self.check()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs.append((job, future))
        self._start()
        await future

    async def close(self) -> None:
        """Commit queued batches if that is still possible, and close the log."""
        while self._task is not None:
            await asyncio.wait((self._task,))
        if self._error is None:
            self._error = LogFailedError(f"log {self._log.path} is closed")
        await self._disk.run(self._log.close)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._queue or self._waiters or self._jobs or self._wants_look:
                while self._jobs:
                    await self._run_job()
                await self._tick()
        except (FencedError, LogFailedError) as error:
            self._fail(error)
        except BaseException as error:
            self._fail(LogFailedError(f"log {self._log.path}: {type(error).__name__}: {error}"))
            raise
        finally:
            self._task = None

    async def _run_job(self) -> None:
        job, future = self._jobs[0]
        await self._disk.run(job)
        self._jobs.popleft()
        if not future.done():
            future.set_result(None)

    async def _tick(self) -> None:
        waiters, self._waiters = self._waiters, []
        self._wants_look = False
        self._log.asks_for_room = self._wants_room(0)
        if self._log.asks_for_room:
            self._room_asked_ms = self._clock.now_ms()
        self._looks_begun += 1
        look, began_ms = self._looks_begun, self._clock.now_ms()
        entries = self._take()
        try:
            if entries:
                place = await self._disk.run(partial(self._commit, entries))
                self._passed, self._passed_began_ms = look, began_ms
                self.committed_end_offset = entries[-1].end_offset
                self.log_start_offset = self._log.log_start_offset
                self._on_committed(entries, place)
            else:
                await self._disk.run(self._log.look)
                self._passed, self._passed_began_ms = look, began_ms
        except BaseException:
            self._waiters = waiters + self._waiters
            raise
        for waiter in waiters:
            if waiter.end_offset > self.committed_end_offset:
                self._waiters.append(waiter)
            elif not waiter.future.done():
                waiter.future.set_result(None)

    def _take(self) -> list[CommitEntry[Note]]:
        entries: list[CommitEntry[Note]] = []
        size = 0
        while self._queue:
            size += self._queue[0].size_bytes
            if entries and size > self._settings.tick_bytes_max:
                break
            entries.append(self._queue.popleft())
            self._queued_bytes -= entries[-1].size_bytes
        return entries

    def _commit(self, entries: list[CommitEntry[Note]]) -> LogPosition:
        data = self._encode(entries)
        log_start = max(entry.log_start_offset for entry in entries)
        log_start = max(log_start, self._log.log_start_offset)
        return self._log.commit(data, entries[-1].end_offset, log_start)

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._queue.clear()
        waiters, self._waiters = self._waiters, []
        jobs = [future for _, future in self._jobs]
        self._jobs.clear()
        for future in [waiter.future for waiter in waiters] + jobs:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a waiter that was cancelled does not make it "never read"
