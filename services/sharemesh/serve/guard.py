"""The first process of a container: runs the role as its child and revokes its lease if it dies.

So a crash is noticed in milliseconds, not when the lease runs out. The exit code is the child's;
restarting is the container runtime's.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from random import SystemRandom

from sharemesh.backends.local.clock import SystemClock
from sharemesh.serve.coordination import connect_etcd
from sharemesh.serve.exits import Exit
from sharemesh.serve.leases import revoke_leases
from sharemesh.serve.process import ManagedProcess, ProcessPlan, ProcessState, ProcessStatus
from sharemesh.serve.role_command import child_command
from sharemesh.serve.settings import ServeSettings

_SIGNALLED = 128


async def guard(settings: ServeSettings) -> int:
    """Run one role process once; forward SIGTERM and SIGINT to it; return its exit code."""
    clock = SystemClock()
    coordination = None
    if not settings.in_memory:
        coordination = connect_etcd(
            settings, settings.etcd_endpoints, clock=clock, rng=SystemRandom()
        )

    async def ended(status: ProcessStatus) -> None:
        if coordination is not None:
            await revoke_leases(coordination, status)

    def command(_status: ProcessStatus, descriptor: int) -> Sequence[str]:
        return child_command(settings, descriptor)

    over = asyncio.Event()

    def changed(status: ProcessStatus) -> None:
        if status.state in {ProcessState.STOPPED, ProcessState.FAILED}:
            over.set()

    child = ManagedProcess(
        ProcessStatus(settings.role, settings.role, 0),
        ProcessPlan(command=command, log=None, ended=ended, restarts=False),
        clock,
        changed,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _forward(child, number))
    child.start()
    try:
        await over.wait()
    finally:
        await child.stop(0)
        if coordination is not None:
            await coordination.close()
    code = child.status.exit_code
    if code is None:
        return Exit.FAILED
    return _SIGNALLED - code if code < 0 else code


def _forward(child: ManagedProcess, number: signal.Signals) -> Callable[[], None]:
    def forward() -> None:
        try:
            child.signal(number)
        except ProcessLookupError:
            return  # it ended by itself just now

    return forward
