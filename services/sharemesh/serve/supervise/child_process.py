"""One child process, kept running: started, watched, restarted with back-off, stopped."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO

from sharemesh.backoff import Backoff
from sharemesh.ports.clock import Clock
from sharemesh.serve.exit_codes import ExitCode
from sharemesh.serve.supervise.child_protocol import (
    MAX_LINE_BYTES,
    Report,
    ReportKind,
    parse_report,
)
from sharemesh.tasks import cancel_and_wait

_log = logging.getLogger(__name__)

BACKOFF_FIRST_MS = 100
BACKOFF_LAST_MS = 5_000
STEADY_MS = 20_000
"""After being ready for this long a process counts as healthy: its back-off is reset."""

KILL_WAIT_MS = 5_000


class ProcessState(StrEnum):
    """Where a process is in its life."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(slots=True)
class ProcessStatus:
    """What is known of a process now."""

    name: str
    role: str
    index: int
    node_id: str = ""
    state: ProcessState = ProcessState.STARTING
    pid: int = 0
    host: str = ""
    port: int = 0
    restarts: int = 0
    exit_code: int | None = None
    message: str = ""
    lease_ids: list[int] = field(default_factory=list)
    kafka: str = ""
    """Where clients of Kafka reach it; empty: nowhere, or not ready yet."""

    @property
    def address(self) -> str:
        """``host:port``, or empty before the process was ready."""
        return f"{self.host}:{self.port}" if self.port else ""


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """How to start a process.

    Attributes:
        command: Given the status (a restarted process takes its old port again) and the
            descriptor for reports, returns the command line.
        log: File that standard output and error are appended to; None: those of this process.
        environment: Variables over those of this process.
        ready: Waits until a process that sends no reports is ready; None: it reports.
        ended: Called after each end, before a restart (revokes leases).
        restarts: Whether to start it again when it ends.
    """

    command: Callable[[ProcessStatus, int], Sequence[str]]
    log: Path | None
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], Awaitable[None]] | None = None
    ended: Callable[[ProcessStatus], Awaitable[None]] | None = None
    restarts: bool = True


class ManagedProcess:
    """Supervises one process until told to stop."""

    def __init__(
        self,
        status: ProcessStatus,
        plan: ProcessPlan,
        clock: Clock,
        on_change: Callable[[ProcessStatus], None],
    ) -> None:
        self.status = status
        self._plan = plan
        self._clock = clock
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def start(self) -> None:
        """Start the process and the task that keeps it running."""
        self._stop.clear()
        self._task = asyncio.create_task(self._keep_running(), name=f"keep {self.status.name}")

    def signal(self, number: signal.Signals) -> int:
        """Send a signal to the running process and return its pid.

        Raises:
            ProcessLookupError: It is not running now.
        """
        process = self._process
        if process is None or process.returncode is not None:
            raise ProcessLookupError(f"{self.status.name} is not running")
        _send(process, number)
        return process.pid

    async def stop(self, timeout_ms: int) -> None:
        """End the process: SIGTERM, and SIGKILL after ``timeout_ms``; 0 kills at once."""
        self._stop.set()
        if self._task is None:
            return
        if not self._task.done():
            self._change(ProcessState.STOPPING)
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGTERM if timeout_ms > 0 else signal.SIGKILL)
        _, late = await asyncio.wait([self._task], timeout=timeout_ms / 1_000)
        if late:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            _, late = await asyncio.wait([self._task], timeout=KILL_WAIT_MS / 1_000)
        if late:
            self._task.cancel()
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """Hurry a stop that is under way."""
        self._stop.set()
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)

    async def _keep_running(self) -> None:
        try:
            await self._run_again_and_again()
        except Exception as error:  # a fault of the supervisor itself must not pass unseen
            _log.exception("supervision failed", extra={"child": self.status.name})
            self.status.message = f"supervision failed: {error!r}"
            self._change(ProcessState.FAILED)

    async def _run_again_and_again(self) -> None:
        backoff = Backoff(BACKOFF_FIRST_MS, BACKOFF_LAST_MS)
        while not self._stop.is_set():
            started_ms = self._clock.now_ms()
            code = await self._run_once()
            if self._stop.is_set() or not self._plan.restarts:
                break
            if _is_permanent(code):
                self._change(ProcessState.FAILED)
                return
            if self._clock.now_ms() - started_ms >= STEADY_MS:
                backoff.reset()
            self.status.restarts += 1
            self._change(ProcessState.RESTARTING)
            await self._pause(backoff.next_ms())
        self._change(ProcessState.STOPPED)

    async def _run_once(self) -> int:
        """Run the process to its end and return its exit code."""
        status = self.status
        status.message = ""
        reading, writing = os.pipe()
        try:
            with self._output() as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._plan.command(status, writing),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(writing,),
                    env={**os.environ, **self._plan.environment},
                    start_new_session=True,  # Ctrl-C is for the supervisor alone
                )
        except OSError as error:
            os.close(reading)
            status.message = f"cannot start: {error}"
            return ExitCode.FAILED
        finally:
            os.close(writing)
        process = self._process
        status.pid = process.pid
        if self._stop.is_set():
            _send(process, signal.SIGTERM)
        else:
            self._change(ProcessState.STARTING)
        reports = asyncio.create_task(self._read_reports(reading))
        ready = asyncio.create_task(self._wait_ready()) if self._plan.ready else None
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            _send(process, signal.SIGKILL)
            code = await process.wait()
            raise
        finally:
            await _ended(reports, ready)
            status.exit_code = process.returncode
            status.pid = 0
            if self._plan.ended is not None:
                await self._plan.ended(status)
        _log.debug("process ended", extra={"child": status.name, "exit_code": code})
        return code

    def _output(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        return contextlib.nullcontext() if self._plan.log is None else self._plan.log.open("ab")

    async def _wait_ready(self) -> None:
        assert self._plan.ready is not None
        await self._plan.ready()
        if not self._stop.is_set():
            self._change(ProcessState.READY)

    async def _read_reports(self, descriptor: int) -> None:
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
        )
        try:
            while line := await reader.readline():
                report = parse_report(line)
                if report is not None:
                    self._heard(report)
        finally:
            transport.close()

    def _heard(self, report: Report) -> None:
        status = self.status
        if report.kind is ReportKind.LEASE:
            status.lease_ids.append(report.lease_id)
        elif report.kind is ReportKind.FAILED:
            status.message = report.message
        elif report.kind is ReportKind.READY:
            status.host, status.port, status.node_id = report.host, report.port, report.node_id
            status.kafka = report.kafka
            if not self._stop.is_set():
                self._change(ProcessState.READY)

    async def _pause(self, duration_ms: int) -> None:
        sleep = asyncio.create_task(self._clock.sleep_ms(duration_ms))
        wake = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({sleep, wake}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            wake.cancel()

    def _change(self, state: ProcessState) -> None:
        self.status.state = state
        self._on_change(self.status)


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal; ``send_signal`` would reap a dead child, and its exit code be lost.

    A process that is gone gets none.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


async def _ended(reports: asyncio.Task[None], ready: asyncio.Task[None] | None) -> None:
    """Read the remaining reports of an ended process, and stop waiting for ready."""
    if ready is not None:
        await cancel_and_wait(ready)
    _, late = await asyncio.wait([reports], timeout=1.0)
    for task in late:
        task.cancel()
    await asyncio.gather(reports, return_exceptions=True)


def _is_permanent(code: int) -> bool:
    return code in {exit_code.value for exit_code in ExitCode if exit_code.permanent}
