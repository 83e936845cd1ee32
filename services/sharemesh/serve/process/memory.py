"""Memory of a process: what the C library keeps of what was freed, garbage collection."""

import asyncio
import ctypes
import functools
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

from sharemesh.ports.clock import Clock
from sharemesh.tasks import cancel_and_wait

THREAD_SWITCH_S = 0.0005
"""A storage job needs the interpreter back after each system call; the usual 5 ms, waited for a
few times in each commit, cost a busy coordinator a quarter of its throughput (measured)."""
CYCLE_SEARCH_THRESHOLDS = (10_000, 3, 130)
"""New objects before the youngest are searched for cycles, and searches of one generation before
the next older one's. With Python's 700 requests that wait for a commit are walked again and again:
a tenth of a coordinator's processor time, and a fifth with a thousand open streams (measured).
The second generation is never more than 40,000 objects, 20 ms: with 200,000 each crowd of new
streams stopped its process for 100 ms (measured). All objects are searched after four millions."""


def tune_interpreter() -> None:
    """Set up this process; call it once, when everything is imported.

    What exists by then is for good and is not searched again.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*CYCLE_SEARCH_THRESHOLDS)


_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
ARENAS_MAX = 2
LARGE_BYTES = 4 * 1024 * 1024
"""What is larger than this has pages of its own, which go back to the system with it."""

KEPT_BYTES_MAX = 16 * 1024 * 1024
"""Free memory at the end of a heap that is kept until the next trim. Several copies of a message of
a MiB must fit: with 1 MiB each message of 512 KiB began on fresh pages, which cost 1.2 ms of
processor time, forty times as much as the copies themselves (measured)."""

TRIM_EVERY_MS = 1_000
TRIM_GROWTH_BYTES = 4 * 1024 * 1024
"""The heap is trimmed again when the process has grown by this much since the last trim."""
TRIM_AT_LEAST_MS = 30_000
"""Maximum time between two trims, also without growth."""

SEARCH_GROWTH_BYTES = 16 * 1024 * 1024
"""All objects are searched for cycles if the process has grown by so much since the last search."""
SEARCH_AT_LEAST_MS = 30_000
SEARCH_PAUSE_FACTOR = 1_000
"""Pause between two searches of all objects for cycles: so long, or so many times as long as the
last one took, which keeps them below a thousandth of the time."""

RECEIVED_GROWTH_MAX = 256 * 1024 * 1024
"""A process grows by so much for requests that it receives, at most; and by no more than
a quarter of what its container may have."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def bound_heap() -> None:
    """Give freed memory back to the system; does nothing where the C library is not glibc.

    By itself glibc opens eight heaps per core for the threads of gRPC, and after the first large
    message has been freed it takes large ones out of these heaps too (its mmap threshold grows up
    to 32 MiB), where one small object above them holds them for good: of 3,000 hostile requests
    each process kept 35 to 47 MiB. What these bounds leave free, ``MallocTrim`` gives back.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return
    mallopt(_M_ARENA_MAX, ARENAS_MAX)
    mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)


class CycleSearch:
    """Searches all objects of a process that has grown for cycles, as seldom as that takes long.

    Python itself searches after a number of new objects: a process with little to do keeps what
    it has.
    """

    def __init__(self, clock: Clock, resident: Callable[[], int]) -> None:
        """``resident`` returns the bytes of this process that are in RAM."""
        self._clock = clock
        self._resident = resident
        self._left_bytes = resident()
        self._due_ms = clock.now_ms() + SEARCH_AT_LEAST_MS

    def search_if_due(self) -> None:
        """Free what only cycles hold; the process stands still meanwhile."""
        began_ms = self._clock.now_ms()
        held_bytes = self._resident()
        self._left_bytes = min(self._left_bytes, held_bytes)
        if began_ms < self._due_ms or held_bytes - self._left_bytes < SEARCH_GROWTH_BYTES:
            return
        gc.collect()
        ended_ms = self._clock.now_ms()
        took_ms = ended_ms - began_ms
        self._left_bytes = self._resident()
        self._due_ms = ended_ms + max(SEARCH_AT_LEAST_MS, took_ms * SEARCH_PAUSE_FACTOR)


class MallocTrim:
    """Gives free pages within the heaps back while the process runs.

    The bounds above only cut the end off a heap. What parsed messages leave in the middle of it,
    below something small that stays, is kept: of 20,000 hostile requests a share leader kept up to
    75 MiB so, in holes of some 50 KiB, while its objects had grown by 1 MiB (measured with
    tracemalloc and malloc_info). A trim takes about a millisecond.

    Cycles are searched first: one small object in a cycle keeps a page. Of 11,000 streams that
    said nothing a process kept 240 MiB without this search and 35 MiB with it (measured).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._trim = _of_glibc("malloc_trim")
        self._cycles = CycleSearch(clock, resident_bytes)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; does nothing where the C library is not glibc."""
        if self._trim is not None:
            work = self._keep(self._trim)
            self._task = asyncio.get_running_loop().create_task(work, name="heap trim")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _keep(self, trim: Callable[..., int]) -> None:
        left_bytes, trimmed_ms = resident_bytes(), self._clock.now_ms()
        while True:
            await self._clock.sleep_ms(TRIM_EVERY_MS)
            now_ms = self._clock.now_ms()
            grown = resident_bytes() - left_bytes
            if grown < TRIM_GROWTH_BYTES and now_ms - trimmed_ms < TRIM_AT_LEAST_MS:
                continue
            self._cycles.search_if_due()
            await asyncio.to_thread(trim, 0)
            left_bytes, trimmed_ms = resident_bytes(), now_ms


def received_growth_max(limit_file: Path = _CGROUP_LIMIT) -> int:
    """Return by how much this process may grow for requests that are being received (BND-30)."""
    try:
        limit = limit_file.read_text().strip()
    except OSError:
        return RECEIVED_GROWTH_MAX
    return min(RECEIVED_GROWTH_MAX, int(limit) // 4) if limit.isdecimal() else RECEIVED_GROWTH_MAX


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM."""
    return int(os.pread(_statm(), 256, 0).split()[1]) * _PAGE_BYTES


@functools.cache
def _statm() -> int:
    """Open the file once, so that measuring works even when no more files can be opened."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def _of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, if it has it."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found
