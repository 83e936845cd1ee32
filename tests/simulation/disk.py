"""The cluster's shared volume in virtual time: slow syncs, kills in the middle of a job."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

from sharemesh.backends.local.memory_disk import MemoryDisk
from tests.simulation.loop import PROCESS, Process

Result = TypeVar("Result")

JOB_MS = (0.05, 2.0)
SLOW_JOB_MS = (20.0, 400.0)


class KilledInJobError(BaseException):
    """The process that asked for this job died in the middle of it."""


class SharedVolume:
    """One volume; ``view`` gives each process its own port on it.

    Attributes:
        slow_chance: How many jobs of a thousand wait as for a busy device.
        deadly: Process to be killed after so many more of its disk operations.
        kill: What kills it.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.disk = MemoryDisk(rng)
        self.disk.before = self._before
        self.slow_permille = 0
        self.deadly: dict[Process, int] = {}
        self.kill: Callable[[Process], None] = Process.kill
        self.jobs = 0
        self._running: Process | None = None

    def view(self, process: Process) -> "ProcessDisk":
        """Return the port of one process."""
        return ProcessDisk(self, process)

    def delay_s(self) -> float:
        """Return how long the next job waits for the device."""
        chance = self.rng.random
        low, high = SLOW_JOB_MS if chance() * 1_000 < self.slow_permille else JOB_MS
        return (low + (high - low) * chance()) / 1_000

    def run(self, process: Process, job: Callable[[], Result]) -> Result:
        """Run a job for a process, or part of it."""
        self.jobs += 1
        self._running = process
        try:
            return job()
        finally:
            self._running = None

    def _before(self, operation: str, path: str) -> None:
        process = self._running
        if process is None:
            return
        if process.alive and process in self.deadly:
            self.deadly[process] -= 1
            if self.deadly[process] < 0:
                del self.deadly[process]
                self.kill(process)
        if not process.alive:
            raise KilledInJobError


class ProcessDisk:
    """Fills port Disk for one process; a power cut leaves it useless."""

    def __init__(self, volume: SharedVolume, process: Process) -> None:
        self._volume = volume
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._volume.disk, name)

    async def run(self, job: Callable[[], Result]) -> Result:
        await asyncio.sleep(self._volume.delay_s())
        try:
            return self._volume.run(PROCESS.get(), job)
        except KilledInJobError:
            never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._process.keep(never)
            await never
            raise
