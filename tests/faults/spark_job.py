"""`sharemesh-spark` as processes: driver, JVM and Python workers, killed together at a moment."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.trials import ROOT

LIMIT_S = 900
"""A run takes ten seconds, unless it gets nothing but idle processor time."""

PUBLISHING_S = 0.2
"""A generation is published and committed, or a run of the history published, within that."""

_ENDED_WITHIN_S = 30
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that starts with less processor time: nothing here runs for long."""


class SparkJob:
    """One run; the JVM and the workers are in the session that it leads."""

    def __init__(self, process, log):
        self._process = process
        self._log = log
        self._began = time.monotonic()

    @classmethod
    @asynccontextmanager
    async def running(cls, log, *arguments):
        """Yield a run; whatever of it is alive afterwards is killed."""
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "sharemesh_spark", *map(str, arguments),
                stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, cwd=ROOT, env=os.environ | {"JAVA_TOOL_OPTIONS": _JAVA},
            )  # fmt: skip
        job = cls(process, log)
        try:
            yield job
        finally:
            await job.kill()

    @property
    def seconds(self):
        return time.monotonic() - self._began

    @property
    def ended(self):
        return self._process.returncode is not None

    async def finished(self):
        """Wait for the end; return the exit code, and what was said."""
        code = await asyncio.wait_for(self._process.wait(), LIMIT_S)
        return code, self._log.read_text(errors="replace")[-2_000:]

    async def kill(self):
        """SIGKILL to every process at once: they are stopped first, so that none sees the others.

        Workers are in a process group of their own, hence the session.
        """
        deadline = time.monotonic() + _ENDED_WITHIN_S
        while living := _session(self._process.pid):
            assert time.monotonic() < deadline, f"processes {living} do not die"
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in living:
                    _send(pid, number)
            await asyncio.sleep(0.01)
        await self._process.wait()


def _send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _session(leader):
    """Return the living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state not in "ZX":
            found.append(int(path.parent.name))
    return found


@dataclass(frozen=True, slots=True)
class Usual:
    """How a run goes that nobody disturbs, in seconds."""

    first_file_s: float
    end_s: float


async def measured(job, written):
    """Let a run end; return how long it took to its first file and to its end."""
    first = None
    while not job.ended and job.seconds < LIMIT_S:
        if first is None and written():
            first = job.seconds
        await asyncio.sleep(0.01)
    end = job.seconds
    code, said = await job.finished()
    assert code == 0, said
    return Usual(first if first is not None else end, end)


async def killed(job, rng, usual, publishing):
    """Kill at a random moment; return which kind of moment it was, None if the job was faster.

    One in three at any moment, one while files are written, and one around publishing: a moment
    that is short, so that chance alone would hardly meet it.
    """
    kind = rng.choice(("any moment", "writing", "publishing"))
    low = {"any moment": 0.0, "writing": usual.first_file_s, "publishing": None}[kind]
    share = rng.random()
    at = None if low is None else low + share * (usual.end_s - low)
    while not job.ended and job.seconds < LIMIT_S:
        if at is None and publishing():
            at = job.seconds + share * PUBLISHING_S
        if at is not None and job.seconds >= at:
            await job.kill()
            return kind
        await asyncio.sleep(0.002)
    code, said = await job.finished()
    assert code == 0, said
    return None
