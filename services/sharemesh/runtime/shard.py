"""One loaded coordinator shard: decide, apply, commit, answer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Generic, TypeVar

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import (
    CorruptLogError,
    FencedError,
    LogFailedError,
    LogFullError,
    LogRecord,
    ShardLog,
)
from sharemesh.runtime.commit_round import CommitRound, Deadlines, Linger, fresh_copy
from sharemesh.runtime.shard_kind import Decision, Machine, Record, RuntimeLimits, ShardDefinition
from sharemesh.runtime.shard_telemetry import ShardTelemetry
from sharemesh.tasks import cancel_and_wait

Response = TypeVar("Response")
KEEP_PAUSE_MS = 1_000  # before failed work is retried
_LOG_ENDED = (FencedError, LogFailedError, CorruptLogError)
TO_NEXT_PERIOD = "to its next period"
_RECORD_OVERHEAD_BYTES = 21  # at most: what a log needs for a record beside key and value
_BATCH_OVERHEAD_BYTES = 64 * 1024  # headers and lengths around the records of one commit


class CoordinatorShard(Generic[Machine, Record]):
    """The one writer of a shard under one epoch.

    A decision changes the machine at once, so that the next one sees it; but every answer, of
    reads too, waits until the position it saw is committed and the log was still ours after the
    request came in (LOG-7). All that was decided while a commit was under way
    goes into the next one as one batch.

    When the log ends the epoch (fenced, failed append or sync, corrupt), every open and later
    request is refused: NOT_COORDINATOR if fenced, else COORDINATOR_NOT_AVAILABLE.
    """

    def __init__(
        self,
        kind: ShardDefinition[Machine, Record],
        index: int,
        log: ShardLog,
        machine: Machine,
        clock: Clock,
        limits: RuntimeLimits,
        telemetry: ShardTelemetry,
    ) -> None:
        self._kind = kind
        self._telemetry = telemetry
        self.index = index
        self._log = log
        self._machine = machine
        self._clock = clock
        self._limits = limits
        self._logger = logging.getLogger(f"sharemesh.{kind.name}-{index}")
        self._open = CommitRound()
        self._in_commit: CommitRound | None = None
        self._linger = Linger(limits)
        self._deadlines = Deadlines(self._rounds)
        self._work = asyncio.Event()
        self._space = asyncio.Event()
        self._waiting = 0
        self._next_offset = log.end_offset
        self._stopping = False
        self._ended: RefusedError | None = None
        self._on_ended: Callable[[], None] = lambda: None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._committer: asyncio.Task[None] | None = None

    # ---- what services call ---------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch under which this shard is served."""
        return self._log.epoch

    @property
    def log_start_offset(self) -> int:
        """The first offset that still counts."""
        return self._log.start_offset

    @property
    def committed_end_offset(self) -> int:
        """Everything below is durable."""
        return self._log.committed_end_offset

    @property
    def log_length(self) -> int:
        """How many offsets lie between log start and end."""
        return self._log.end_offset - self._log.start_offset

    @property
    def waiting_count(self) -> int:
        """Requests that wait for room or for a commit."""
        return self._waiting + len(self._waiters())

    async def write(
        self,
        decide: Callable[[Machine], Decision[Record, Response]],
        *,
        timeout_ms: int | None = None,
    ) -> Response:
        """Decide, apply, and return the response once it is committed.

        ``decide`` is pure and runs without a turn of the loop in between; a ``RefusedError`` out
        of it changes nothing. Without records this is a read.

        Raises:
            RefusedError: REQUEST_TIMED_OUT (it may still take effect), NOT_COORDINATOR,
                COORDINATOR_NOT_AVAILABLE, or MESSAGE_TOO_LARGE if the records do not fit one batch.
        """
        limit_ms = self._limits.write_timeout_ms if timeout_ms is None else timeout_ms
        began_ns = self._telemetry.now_ns()
        deadline_s = asyncio.get_running_loop().time() + limit_ms / 1000
        try:
            self._check_serving()
            if self._open.pending_bytes >= self._limits.max_pending_bytes:
                async with asyncio.timeout_at(deadline_s):
                    await self._space_for_more()
            response, wrote = self._decide(decide)
            await self._next_commit(deadline_s)
        except TimeoutError:
            raise RefusedError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._name} did not commit within {limit_ms} ms; try again",
            ) from None
        if wrote:
            self._telemetry.wrote(began_ns)
        return response

    async def read(
        self, look: Callable[[Machine], Response], *, timeout_ms: int | None = None
    ) -> Response:
        """Return ``look(machine)`` once all it depends on is committed. Raises as ``write``."""
        return await self.write(lambda machine: Decision((), look(machine)), timeout_ms=timeout_ms)

    def peek(self, look: Callable[[Machine], Response]) -> Response:
        """Return ``look(machine)`` now, committed or not: for metrics and timers only."""
        return look(self._machine)

    def stored(self, from_offset: int) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield what is committed from an offset on: for questions about the past, not for state.

        Records that are pruned meanwhile make it fail with what the disk says.
        """
        return self._log.replay(from_offset)

    async def delete_before(self, offset: int) -> None:
        """Prune the log below ``offset``; the caller knows that nothing there is needed.

        Raises:
            RefusedError: KAFKA_STORAGE_ERROR if the volume is full; the epoch of the shard ended.
        """
        self._check_serving()
        try:
            await self._log.delete_before(offset)
        except LogFullError as error:
            raise RefusedError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} cannot be pruned now: {error}"
            ) from error
        except _LOG_ENDED as error:
            self._end(error)
            self._check_serving()

    def start_job(self, name: str, job: Coroutine[None, None, None], *, put_off: str = "") -> None:
        """Run a task that is cancelled, and awaited, when the shard is relinquished or ends.

        A failing job is logged and does not end the shard. ``put_off`` says when other work does
        the same if this one is refused, as while the volume is full; "": nothing does.
        """
        if self._ended is not None or self._stopping:
            job.close()
            return
        task = asyncio.get_running_loop().create_task(
            self._guarded(name, job, put_off=put_off),
            name=f"{self._name} {name}",
        )
        self._tasks[task] = None
        task.add_done_callback(lambda task: self._tasks.pop(task, None))
        task.add_done_callback(lambda _: job.close())  # cancelled before its first step

    def every(self, interval_ms: int, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run ``job`` every ``interval_ms`` from now on; a failed run is logged.

        A run that is refused, as while the volume is full, is put off: it may pass the next time.
        It stops with the shard: a job of a shard that moved never acts again (KAFKA-20710).
        """

        async def repeat() -> None:
            while True:
                await self._clock.sleep_ms(interval_ms)
                await self._guarded(name, job(), put_off=f"by {interval_ms} ms")

        self.start_job(name, repeat())

    def keep(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run ``job`` while the shard is served; a failure is logged, and the job restarted.

        For work that others wait for: without it the shard would do half of what it is there for.
        """

        async def again_and_again() -> None:
            while True:
                await self._guarded(name, job(), put_off=f"by {KEEP_PAUSE_MS} ms")
                await self._clock.sleep_ms(KEEP_PAUSE_MS)

        self.start_job(name, again_and_again())

    # ---- what the shard set calls ---------------------------------------------------------------

    def start(self, on_ended: Callable[[], None]) -> None:
        """Begin to commit; ``on_ended`` is called once if the epoch ends by itself."""
        self._on_ended = on_ended
        self._committer = asyncio.get_running_loop().create_task(
            self._commit_rounds(), name=f"{self._name} committer"
        )

    async def stop(self) -> None:
        """Give the shard up: answer what is under way if possible, then close the log.

        When this returns nothing of this epoch can be confirmed any more. Repeating it is fine.
        """
        self._stopping = True
        await cancel_and_wait(*self._tasks)
        under_way = self._waiters()
        if under_way:
            await asyncio.wait(under_way, timeout=self._limits.stop_timeout_ms / 1000)
        if self._committer is not None:
            await cancel_and_wait(self._committer)
        if self._ended is None:
            self._refuse_all(self._moved())
        await self._log.close()

    # ---- the one way of a change ----------------------------------------------------------------

    @property
    def _name(self) -> str:
        return f"shard {self._kind.name}-{self.index} (epoch {self._log.epoch})"

    def _waiters(self) -> list[asyncio.Future[None]]:
        return [waiter for each in self._rounds() for waiter in each.waiters]

    def _rounds(self) -> list[CommitRound]:
        return [each for each in (self._in_commit, self._open) if each is not None]

    def _moved(self) -> RefusedError:
        return RefusedError(
            ErrorCode.NOT_COORDINATOR, f"{self._name} is no longer served here; look it up again"
        )

    def _check_serving(self) -> None:
        if self._ended is not None:
            raise fresh_copy(self._ended)
        if self._stopping:
            raise self._moved()

    async def _space_for_more(self) -> None:
        """Wait while too much is decided but not handed to the log: back-pressure."""
        while self._open.pending_bytes >= self._limits.max_pending_bytes:
            if self._waiting >= self._limits.max_waiting_requests:
                raise RefusedError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"{self._name} has {self._waiting} requests waiting; slow down",
                )
            self._waiting += 1
            try:
                self._space.clear()
                await self._space.wait()
            finally:
                self._waiting -= 1
            self._check_serving()

    def _decide(
        self, decide: Callable[[Machine], Decision[Record, Response]]
    ) -> tuple[Response, bool]:
        """Apply a decision; return its response, and whether anything is written for it."""
        decision = decide(self._machine)
        if decision.records:
            stored = [self._kind.encode(record) for record in decision.records]
            self._queue(stored, divisible=decision.divisible)
            self._next_offset = max(self._next_offset, self._log.end_offset)
            for record in decision.records:
                self._machine.apply(record, self._next_offset)
                self._next_offset += 1
        return decision.response, bool(decision.records)

    def _queue(self, stored: list[LogRecord], *, divisible: bool) -> None:
        size = sum(map(_size, stored))
        largest = max(map(_size, stored)) if divisible else size
        if largest > self._limits.max_batch_bytes:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(stored)} records of {size} bytes exceed the {self._limits.max_batch_bytes} "
                f"bytes of one batch of {self._name}; ask for less at once",
            )
        if not self._log.has_room(self._open.pending_bytes + size + _BATCH_OVERHEAD_BYTES):
            self.start_job("refresh room", self._log.refresh_room())
            raise RefusedError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self._name} takes no writes: {self._log.why_no_room()}",
            )
        if size <= self._limits.max_batch_bytes:
            self._open.add(stored, size, self._limits.max_batch_bytes)
            return
        for record in stored:
            self._open.add([record], _size(record), self._limits.max_batch_bytes)

    async def _next_commit(self, deadline_s: float) -> None:
        waiter = self._open.join(deadline_s)
        self._deadlines.watch(deadline_s)
        self._work.set()
        self._linger.joined(self._open)
        await waiter

    async def _commit_rounds(self) -> None:
        try:
            while True:
                await self._work.wait()
                await self._linger.wait(self._open)
                self._work.clear()
                self._in_commit, self._open = self._open, CommitRound()
                self._space.set()
                began_ns = self._telemetry.now_ns()
                for batch in self._in_commit.batches:
                    self._log.append(batch)
                await self._log.committed(self._log.end_offset)
                records = sum(map(len, self._in_commit.batches))
                self._telemetry.committed(began_ns, records, len(self._in_commit.waiters))
                self._in_commit.settle(None)
                self._in_commit = None
        except _LOG_ENDED as error:
            self._end(error)
        except Exception as error:  # the machine is ahead of a log that took nothing
            self._logger.exception("%s ends: its log failed unexpectedly", self._name)
            self._end(error)

    def _end(self, error: Exception) -> None:
        if self._ended is not None:
            return
        if isinstance(error, FencedError):
            refusal = RefusedError(ErrorCode.NOT_COORDINATOR, f"{self._name} was taken over")
        else:
            refusal = RefusedError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name} ended: {error}"
            )
        self._ended = refusal
        self._logger.warning("%s ended: %s", self._name, error)
        self._refuse_all(refusal)
        for task in self._tasks:
            task.cancel()
        self._on_ended()

    def _refuse_all(self, refusal: RefusedError) -> None:
        for each in self._rounds():
            each.settle(refusal)
        self._in_commit, self._open = None, CommitRound()
        self._deadlines.close()
        self._space.set()

    async def _guarded(self, name: str, job: Awaitable[None], *, put_off: str) -> None:
        """Await a job; ``put_off`` says when it comes again if it is refused, "" for never."""
        try:
            await job
        except Exception as error:
            if self._ended is not None or self._stopping:
                return
            if put_off and isinstance(error, RefusedError):
                why = error.message
                self._logger.warning("%s: job %s is put off %s: %s", self._name, name, put_off, why)
            elif isinstance(error, _LOG_ENDED):  # no fault of the job: the words say it all
                self._logger.error("%s: job %s failed: %s", self._name, name, error)
            else:
                self._logger.exception("%s: job %s failed", self._name, name)


def _size(record: LogRecord) -> int:
    return _RECORD_OVERHEAD_BYTES + len(record.key) + len(record.value or b"")
