"""``sharemesh serve``: one process from its command line to its exit code."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from sharemesh.rpc.polling import poll_in_one_thread
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.process.memory import bound_heap, tune_interpreter
from sharemesh.serve.settings.kafka_settings import check_kafka_listener_is_on
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.settings.sources import read_file, serve_settings
from sharemesh.serve.supervise.child_protocol import Report, Reporter, ReportKind
from sharemesh.serve.supervise.data_directory import keep_files_private
from sharemesh.serve.supervise.guard import guard
from sharemesh.serve.supervise.parent_death_signal import die_with
from sharemesh.tasks import cancel_and_wait
from sharemesh.telemetry.logs import set_up_logs

if TYPE_CHECKING:
    from sharemesh.serve.role_process import RoleProcess

_log = logging.getLogger(__name__)


def serve(flags: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Run one process until it is told to stop; return its exit code."""
    keep_files_private()
    if flags.parent_pid is not None:
        die_with(flags.parent_pid)
    reporter = Reporter(flags.report_descriptor)
    try:
        given = {name: value for name, value in vars(flags).items() if value is not None}
        settings = serve_settings(given, environment, read_file(flags.config))
        check_kafka_listener_is_on(settings)
        set_up_logs(
            log_format=settings.log_format,
            level=settings.log_level,
            origin={"role": settings.role, "node": settings.node_id},
        )
        if flags.guard:
            return asyncio.run(guard(settings))
        return run_loop(_serve(settings, reporter))
    except StartError as error:
        reporter.tell(Report(ReportKind.FAILED, exit_code=error.code, message=error.message))
        print(f"sharemesh: {error.message}", file=sys.stderr)  # noqa: T201 - for a person
        return error.code
    except Exception as error:
        _log.exception("ended by an unexpected error")
        message = f"ended by an unexpected error: {type(error).__name__}: {error}"
        reporter.tell(Report(ReportKind.FAILED, exit_code=ExitCode.FAILED, message=message))
        return ExitCode.FAILED


def run_loop(work: Coroutine[Any, Any, int]) -> int:
    """Run the program's one coroutine; on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        factory = asyncio.new_event_loop
    else:
        factory = uvloop.new_event_loop
    tune_interpreter()
    bound_heap()
    poll_in_one_thread()
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


async def _serve(settings: ServeSettings, reporter: Reporter) -> int:
    # a guard needs none of it, and starts sooner
    from sharemesh.rpc.event_wakes import take_events_together
    from sharemesh.serve.role_process import RoleProcess

    take_events_together()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def told_to_stop() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop)
    process = RoleProcess(settings, reporter)
    try:
        node = await process.start()
    except BaseException:
        await process.stop(drain=False)
        raise
    if settings.in_memory:
        _log.warning(
            "single process: coordination is in memory, topics and groups end with this process"
        )
    _log.info("ready", extra={"address": node.address, "pid": os.getpid()})
    why = await _until_told_or_broken(process, stop)
    if why:
        reporter.tell(Report(ReportKind.FAILED, exit_code=ExitCode.FAILED, message=why))
        _log.error("ending: %s; a supervisor starts this process again", why)
        await process.stop(drain=False)
        return ExitCode.FAILED
    _log.info("stopping")
    stopping = asyncio.ensure_future(process.stop(drain=True))
    hurried = asyncio.ensure_future(hurry.wait())
    await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        await cancel_and_wait(stopping)
        await process.stop(drain=False)
    else:
        stopping.result()
    hurried.cancel()
    _log.info("stopped")
    return ExitCode.STOPPED


async def _until_told_or_broken(process: "RoleProcess", stop: asyncio.Event) -> str:
    """Return once told to stop (an empty text), or what broke."""
    told = asyncio.ensure_future(stop.wait())
    broken = asyncio.ensure_future(process.broken())
    try:
        await asyncio.wait({told, broken}, return_when=asyncio.FIRST_COMPLETED)
        return broken.result() if broken.done() else ""
    finally:
        told.cancel()
        broken.cancel()
