"""The cluster's shared volume in virtual time: slow syncs, and what falls between two operations.

That is a kill, or a whole job of another process, as if the first one had been held up there.
"""

import asyncio
import errno
import random
from collections.abc import Callable
from typing import Any, TypeVar

from sharemesh.testing.memory_disk import MemoryDisk
from tests.simulation.loop import PROCESS, Process

Result = TypeVar("Result")

JOB_MS = (0.05, 2.0)
BETWEEN = 0.25  # chance that a waiting job of another process runs before an operation
RECORDS = "records/"
SLOW_JOB_MS = (20.0, 400.0)


class KilledInJobError(BaseException):
    """The process that asked for this job died in the middle of it."""


class UnreadableError(OSError):
    """A read that fails once, as with too many open files: the bytes are as they should be."""


class _Job:
    """A job that waits for the device; another process's job may let it pass."""

    def __init__(self, process: Process, work: Callable[[], Any]) -> None:
        self.process = process
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self.begun = False

    def do(self) -> None:
        """Run it, and keep what comes of it."""
        self.begun = True
        try:
            self._result = self._work()
        except (Exception, KilledInJobError) as error:  # the one who asked is told
            self._error = error

    def outcome(self) -> Any:
        """Return or raise what came of it."""
        if self._error is not None:
            raise self._error
        return self._result


class SharedVolume:
    """One volume; ``view`` gives each process its own port on it.

    Attributes:
        slow_permille: How many jobs of a thousand wait as for a busy device.
        deadly: Process to be killed after so many more of its disk operations.
        kill: What kills it.
        unreadable: Processes that cannot read record logs now.
        failed_reads: How often a read failed by that.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.disk = MemoryDisk(rng)
        self.disk.before = self._before
        self.slow_permille = 0
        self.deadly: dict[Process, int] = {}
        self.kill: Callable[[Process], None] = Process.kill
        self.between = 0
        self.unreadable: set[Process] = set()
        self.failed_reads = 0
        self._nested = False
        self._running: Process | None = None
        self._waiting: dict[int, _Job] = {}

    def view(self, process: Process) -> "ProcessDisk":
        """Return the port of one process."""
        return ProcessDisk(self, process)

    def delay_s(self) -> float:
        """Return how long the next job waits for the device."""
        chance = self.rng.random
        low, high = SLOW_JOB_MS if chance() * 1_000 < self.slow_permille else JOB_MS
        return (low + (high - low) * chance()) / 1_000

    async def run(self, process: Process, work: Callable[[], Result]) -> Result:
        """Run a job for a process, or part of it, when the device has time."""
        job = _Job(process, work)
        self._waiting[id(job)] = job
        try:
            await asyncio.sleep(self.delay_s())
            if not job.begun:
                self._do(job)
        finally:
            self._waiting.pop(id(job), None)
        result: Result = job.outcome()
        return result

    def hold_up(self) -> None:
        """Hold the running job up until what other processes wait for now is done."""
        process = self._running
        if process is None or self._nested:
            return
        self._nested = True
        for _ in range(len(self._waiting)):
            self._let_others_pass(process)
        self._nested = False

    def _do(self, job: _Job) -> None:
        running, self._running = self._running, job.process
        try:
            job.do()
        finally:
            self._running = running

    def _let_others_pass(self, process: Process) -> None:
        """Run what other processes wait for in the middle of this one's job."""
        for number, job in list(self._waiting.items()):
            if not job.process.alive:
                del self._waiting[number]  # it never comes back for it
                continue
            held_up = job.begun or job.process is process or job.process.frozen
            if not held_up and self.rng.random() < BETWEEN:
                self.between += 1
                self._do(job)
                return

    def _before(self, operation: str, path: str) -> None:
        process = self._running
        if process is None:
            return
        if len(self._waiting) > 1 and not self._nested:
            self._nested = True
            self._let_others_pass(process)
            self._nested = False
        if process.alive and process in self.deadly:
            self.deadly[process] -= 1
            if self.deadly[process] < 0:
                del self.deadly[process]
                self.kill(process)
        if not process.alive:
            raise KilledInJobError
        if operation == "read" and process in self.unreadable and path.startswith(RECORDS):
            self.failed_reads += 1
            raise UnreadableError(errno.EMFILE, "too many open files", path)


class ProcessDisk:
    """Fills port Disk for one process; a power cut leaves it useless."""

    def __init__(self, volume: SharedVolume, process: Process) -> None:
        self._volume = volume
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._volume.disk, name)

    async def run(self, job: Callable[[], Result]) -> Result:
        try:
            return await self._volume.run(PROCESS.get(), job)
        except KilledInJobError:
            never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._process.keep(never)
            await never
            raise
