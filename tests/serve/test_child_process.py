"""One supervised process: restart with back-off, reports, permanent failures, stubborn ends."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.serve.exit_codes import ExitCode
from sharemesh.serve.supervise.child_process import (
    BACKOFF_FIRST_MS,
    BACKOFF_LAST_MS,
    ManagedProcess,
    ProcessPlan,
    ProcessState,
    ProcessStatus,
)
from sharemesh.serve.supervise.child_protocol import Report, ReportKind, parse_report


class EagerClock(SystemClock):
    """Remembers waits and does not wait."""

    def __init__(self) -> None:
        self.waits = []

    async def sleep_ms(self, duration_ms: int) -> None:
        self.waits.append(duration_ms)
        await asyncio.sleep(0)


class Watched:
    """A process that runs a Python script, and everything that was told of it."""

    def __init__(self, tmp_path, script: str, *, clock=None, **plan) -> None:
        self.changed = asyncio.Event()
        self.states = []
        self.log = tmp_path / "log"
        self.clock = clock or EagerClock()

        def command(status, descriptor):
            return (sys.executable, "-c", f"import os, sys, time\nfd = {descriptor}\n{script}")

        self.process = ManagedProcess(
            ProcessStatus("p", "role", 0),
            ProcessPlan(command=command, log=self.log, **plan),
            self.clock,
            self._changed,
        )
        self.status = self.process.status

    def _changed(self, status) -> None:
        self.states.append(status.state)
        self.changed.set()

    async def until(self, condition) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


READY = (
    'os.write(fd, b\'{"kind": "lease", "lease_id": 7}\\n{"kind": "ready", "host": "h", '
    '"port": 5, "node_id": "n"}\\n\')\n'
)


async def test_crashing_process_is_restarted_with_growing_bounded_pauses(tmp_path) -> None:
    watched = Watched(tmp_path, "sys.exit(1)")
    watched.process.start()
    await watched.until(lambda: watched.status.restarts >= 9)
    await watched.process.stop(1_000)
    waits = watched.clock.waits
    assert waits[:3] == [BACKOFF_FIRST_MS, BACKOFF_FIRST_MS * 2, BACKOFF_FIRST_MS * 4]
    assert max(waits) == BACKOFF_LAST_MS
    assert watched.status.state is ProcessState.STOPPED


@pytest.mark.parametrize("code", [code for code in ExitCode if code.permanent])
async def test_failure_that_needs_a_human_is_not_repeated(tmp_path, code) -> None:
    script = f'os.write(fd, b\'{{"kind": "failed", "message": "why"}}\\n\'); sys.exit({int(code)})'
    watched = Watched(tmp_path, script)
    watched.process.start()
    await watched.until(lambda: watched.status.state is ProcessState.FAILED)
    assert (watched.status.restarts, watched.status.exit_code) == (0, code)
    assert watched.status.message == "why"
    await watched.process.stop(1_000)
    assert watched.status.state is ProcessState.FAILED


async def test_reports_make_it_ready_and_its_output_is_kept(tmp_path) -> None:
    watched = Watched(tmp_path, f"print('hello', flush=True)\n{READY}time.sleep(60)")
    watched.process.start()
    await watched.until(lambda: watched.status.state is ProcessState.READY)
    status = watched.status
    assert (status.address, status.node_id, status.lease_ids) == ("h:5", "n", [7])
    await watched.process.stop(5_000)
    assert status.exit_code == -signal.SIGTERM
    assert watched.log.read_text() == "hello\n"
    assert watched.states == [
        ProcessState.STARTING,
        ProcessState.READY,
        ProcessState.STOPPING,
        ProcessState.STOPPED,
    ]


async def test_lease_reported_just_before_death_is_known_when_it_ended(tmp_path) -> None:
    seen = []

    async def ended(status) -> None:
        seen.append(list(status.lease_ids))
        status.lease_ids.clear()

    script = f"{READY}os.kill(os.getpid(), 9)"
    watched = Watched(tmp_path, script, ended=ended)
    watched.process.start()
    await watched.until(lambda: watched.status.restarts >= 3)
    await watched.process.stop(1_000)
    assert seen[:3] == [[7], [7], [7]]


async def test_process_that_ignores_sigterm_is_killed_after_its_time(tmp_path) -> None:
    script = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}time.sleep(60)"
    watched = Watched(tmp_path, script, clock=SystemClock())
    watched.process.start()
    await watched.until(lambda: watched.status.state is ProcessState.READY)
    began = time.monotonic()
    await watched.process.stop(200)
    assert watched.status.exit_code == -signal.SIGKILL
    assert time.monotonic() - began < 5


async def test_stop_does_not_wait_for_a_pause_before_a_restart(tmp_path) -> None:
    watched = Watched(tmp_path, "sys.exit(1)", clock=SystemClock())
    watched.process.start()
    await watched.until(lambda: watched.status.restarts >= 4)
    began = time.monotonic()
    await watched.process.stop(5_000)
    assert time.monotonic() - began < 1
    with pytest.raises(ProcessLookupError):
        watched.process.signal(signal.SIGTERM)


async def test_command_that_cannot_be_started_says_so_and_is_tried_again(tmp_path) -> None:
    watched = Watched(tmp_path / "no such directory", "pass")
    watched.process.start()
    await watched.until(lambda: watched.status.restarts >= 2)
    assert "cannot start" in watched.status.message
    before = len(list(Path("/proc/self/fd").iterdir()))
    await watched.until(lambda: watched.status.restarts >= 12)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2, "descriptors leak"
    await watched.process.stop(1_000)


async def test_a_bug_of_the_supervisor_is_a_failure_not_a_silence(tmp_path, caplog) -> None:
    async def ended(status) -> None:
        raise KeyError("bug")

    watched = Watched(tmp_path, "sys.exit(1)", ended=ended)
    watched.process.start()
    await watched.until(lambda: watched.status.state is ProcessState.FAILED)
    assert "KeyError" in watched.status.message
    await watched.process.stop(1_000)


def test_reports_survive_the_pipe_and_strange_lines_are_ignored() -> None:
    report = Report(ReportKind.READY, node_id="n", host="h", port=1, pid=2)
    assert parse_report(report.line()) == report
    for line in (b"", b"\n", b"[]", b'{"kind": "other"}', b"\xff", b'{"kind": "ready", "new": 1}'):
        assert parse_report(line) in {None, Report(ReportKind.READY)}
