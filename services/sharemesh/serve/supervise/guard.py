"""The first process of a container: runs the role as its child and revokes its lease if it dies.

So a crash is noticed in milliseconds, not when the lease runs out. The exit code is the child's;
restarting is the container runtime's.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from random import SystemRandom

from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.serve.exit_codes import ExitCode
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.supervise.child_process import (
    ManagedProcess,
    ProcessPlan,
    ProcessState,
    ProcessStatus,
)
from sharemesh.serve.supervise.child_protocol import child_command

REVOKE_TIMEOUT_MS = 2_000

_log = logging.getLogger(__name__)


async def revoke_leases(coordination: Coordination, status: ProcessStatus) -> None:
    """Revoke every lease that a process reported; one that cannot be revoked runs out."""
    leases, status.lease_ids = status.lease_ids, []
    for lease_id in leases:
        try:
            async with asyncio.timeout(REVOKE_TIMEOUT_MS / 1_000):
                await coordination.revoke(lease_id)
        except (CoordinationError, TimeoutError) as error:
            _log.warning(
                "lease not revoked; it runs out by itself",
                extra={"child": status.name, "lease_id": f"{lease_id:x}", "error": error},
            )


_SIGNALLED = 128


async def guard(settings: ServeSettings) -> int:
    """Run one role process once; forward SIGTERM and SIGINT to it; return its exit code.

    Raises:
        StartError: SETTINGS; a certificate file for etcd cannot be read.
    """
    clock = SystemClock()

    def connect() -> Coordination:
        from sharemesh.serve.process.coordination import connect_etcd

        return connect_etcd(settings, settings.etcd_endpoints, clock=clock, rng=SystemRandom())

    return await run_guarded(
        settings.role,
        lambda descriptor: child_command(settings, descriptor),
        None if settings.in_memory else connect,
        clock,
    )


async def run_guarded(
    name: str,
    command: Callable[[int], Sequence[str]],
    connect: Callable[[], Coordination] | None,
    clock: Clock,
) -> int:
    """Run a program once as a child that reports its leases; return its exit code.

    Args:
        name: What logs call it.
        command: Given the descriptor for reports, returns the command line.
        connect: Returns where the leases of a child that ended are revoked; None: nowhere. It is
            called when the child is on its way, which need not wait for what this imports.
        clock: For the supervision.
    """
    coordination: Coordination | None = None
    begun, over = asyncio.Event(), asyncio.Event()

    async def ended(status: ProcessStatus) -> None:
        if coordination is not None:
            await revoke_leases(coordination, status)

    def changed(status: ProcessStatus) -> None:
        begun.set()
        if status.state in {ProcessState.STOPPED, ProcessState.FAILED}:
            over.set()

    child = ManagedProcess(
        ProcessStatus(name, name, 0),
        ProcessPlan(
            command=lambda _status, descriptor: command(descriptor),
            log=None,
            ended=ended,
            restarts=False,
        ),
        clock,
        changed,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _forward(child, number))
    child.start()
    try:
        await begun.wait()
        coordination = connect() if connect is not None else None
        await over.wait()
    finally:
        await child.stop(0)
        if coordination is not None:
            await coordination.close()
    code = child.status.exit_code
    if code is None:
        return ExitCode.FAILED
    return _SIGNALLED - code if code < 0 else code


def _forward(child: ManagedProcess, number: signal.Signals) -> Callable[[], None]:
    def forward() -> None:
        try:
            child.signal(number)
        except ProcessLookupError:
            return  # it ended by itself just now

    return forward
