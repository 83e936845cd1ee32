"""``python -m sharemesh_operator``: one replica of the operator."""

import asyncio
import logging
import os
import signal
import sys
from random import SystemRandom

from sharemesh.backends.local.clock import SystemClock
from sharemesh.ports.coordination import Coordination
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.supervise import parent_death_signal
from sharemesh.serve.supervise.child_protocol import Report, Reporter, ReportKind
from sharemesh.serve.supervise.guard import run_guarded
from sharemesh.telemetry.logs import set_up_logs
from sharemesh_operator.settings import OperatorSettings, operator_settings

GUARD = "--guard"


async def _run(settings: OperatorSettings) -> None:
    # A guard does not need it, and starts sooner.
    from sharemesh_operator.operator_process import OperatorProcess

    reporter = Reporter(settings.report_descriptor)

    def on_lease(lease_id: int) -> None:
        if settings.report_descriptor is not None:
            reporter.tell(Report(ReportKind.LEASE, lease_id=lease_id))

    process = OperatorProcess(settings, os.environ, on_lease)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, process.stop)
    await process.run()


async def _guard(settings: OperatorSettings, arguments: list[str]) -> int:
    """Run the operator as a child; if it dies, the other replica need not wait for its lease."""
    clock = SystemClock()

    def connect() -> Coordination:
        from sharemesh.serve.process.coordination import connect_etcd

        return connect_etcd(
            settings.serve_settings(), settings.etcd_addresses, clock=clock, rng=SystemRandom()
        )

    def command(descriptor: int) -> list[str]:
        child = [sys.executable, "-m", "sharemesh_operator", *arguments]
        return [*child, f"--parent-pid={os.getpid()}", f"--report-descriptor={descriptor}"]

    return await run_guarded("operator", command, connect, clock)


def main() -> int:
    """Run the operator until it is told to stop; return its exit code."""
    try:
        settings = operator_settings(sys.argv[1:], os.environ)
        if settings.parent_pid is not None:
            parent_death_signal.die_with(settings.parent_pid)
        set_up_logs(
            log_format=settings.log_format,
            level=settings.log_level,
            origin={"operator": settings.identity},
        )
        if settings.guard:
            return asyncio.run(_guard(settings, [a for a in sys.argv[1:] if a != GUARD]))
        logging.getLogger("kopf").setLevel(logging.WARNING)  # it speaks of every object it sees
        asyncio.run(_run(settings))
    except StartError as error:
        print(f"sharemesh-operator: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"sharemesh-operator: {error}", file=sys.stderr)
        return ExitCode.FAILED
    return ExitCode.STOPPED


if __name__ == "__main__":
    sys.exit(main())
