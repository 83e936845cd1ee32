"""``sharemesh up`` and ``serve``: a whole cluster on this machine, or one role process.

Their packages are not part of a client's installation: each command imports them when it runs.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import nearest
from sharemesh.cli.interrupts import INTERRUPTED
from sharemesh.cli.session import CommandError
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.settings import LOGS, ServeSettings, UpSettings
from sharemesh.serve.settings.sources import (
    add_config_flags,
    add_flags,
    add_serve_flags,
    read_file,
    serve_settings,
    up_settings,
)
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.data_directory import (
    RUN_FILE,
    DirectoryLock,
    keep_files_private,
)

if TYPE_CHECKING:
    from sharemesh.cli.up_display import PlainDisplay
    from sharemesh.serve.supervise.local_cluster import LocalCluster

_EXAMPLES = """examples:
  sharemesh up
  sharemesh up --data-directory /var/lib/sharemesh --share-leaders 4
  sharemesh up --config cluster.toml --json
  sharemesh up --kafka broker-1:9092,broker-2:9092
  sharemesh up --kafka 127.0.0.1:9092 --kafka-single-replica true
  sharemesh up --kafka-listener 127.0.0.1:9092
  sharemesh up restart share-leader-1"""
_SERVE_EXAMPLES = """examples:
  sharemesh serve
  sharemesh serve --role share-leader --etcd-endpoints 127.0.0.1:2379 --data-directory data"""
_RESTART_EXAMPLES = """examples:
  sharemesh up restart share-leader-1
  sharemesh up restart etcd --data-directory /var/lib/sharemesh"""
SET_BY_UP = (
    "role,node_id,listen_host,listen_port,kafka_listener_host,kafka_listener_port,"
    "kafka_listener_advertised_port,kafka_listener_advertised_port_base"
)
"""Settings that each process gets from its place in the cluster."""

POLL_S = 0.1
WAIT_S = 60


def register(commands: Commands) -> None:
    """Add the commands to the command line."""
    up = commands.add_parser(
        "up",
        help="run a whole cluster on this machine",
        description="Start etcd and all roles as processes, keep them running, stop on Ctrl-C.",
        epilog=_EXAMPLES,
    )
    add_config_flags(up)
    shown = up.add_mutually_exclusive_group()
    shown.add_argument("--plain", action="store_true", help="print lines instead of a table")
    shown.add_argument("--json", action="store_true", help="print a JSON object for each change")
    up.add_argument(
        "--kafka",
        metavar="HOST:PORT[,…]",
        help="keep records, states and groups in the Kafka cluster of these brokers; on a single "
        "one it needs --kafka-single-replica true",
    )
    add_flags(up, UpSettings)
    add_flags(up, ServeSettings, leave_out=SET_BY_UP)
    up.set_defaults(run=_run)
    _register_restart(up.commands(metavar="ACTION"))
    serve = commands.add_parser(
        "serve", help="run one role process of a cluster", epilog=_SERVE_EXAMPLES
    )
    add_serve_flags(serve)
    serve.set_defaults(run=_serve)


def _register_restart(actions: Commands) -> None:
    """Add the action to ``up``."""
    parser = actions.add_parser(
        "restart",
        help="restart one process of the cluster that runs here",
        description="The process hands over what it leads and ends, and 'sharemesh up' starts it "
        "again: a node that was drained takes part again.",
        epilog=_RESTART_EXAMPLES,
    )
    parser.add_argument("node", metavar="NODE", help="as `sharemesh cluster` names it, or etcd")
    parser.add_argument("--data-directory", metavar="DIRECTORY", help="as 'sharemesh up' has it")
    add_config_flags(parser)
    parser.add_argument(
        "--wait",
        type=int,
        default=WAIT_S,
        metavar="S",
        help="seconds until it must be ready (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=_restart)


@contextmanager
def _packages_of(extra: str, command: str) -> Iterator[None]:
    """Name what has to be installed where a package is missing."""
    try:
        yield
    except ImportError as missing:
        raise CommandError(
            f"'sharemesh {command}' needs more: pip install 'sharemesh[{extra}]' ({missing})"
        ) from missing


def _serve(args: argparse.Namespace) -> int:
    with _packages_of("server", "serve"):
        from sharemesh.serve.run import serve
    return serve(args, os.environ)


def _run(args: argparse.Namespace) -> int:
    with _packages_of("local", "up"):
        from sharemesh.cli.up_display import JsonDisplay, PlainDisplay, TableDisplay
        from sharemesh.serve.supervise.local_cluster import LocalCluster
    keep_files_private()
    try:
        file = read_file(args.config)
        given = {name: value for name, value in vars(args).items() if value is not None}
        if args.kafka is not None:
            given |= {"storage": "kafka", "kafka_bootstrap_servers": args.kafka}
        given["role"] = "all"  # each process gets its own; etcd may still have to be started
        serve = serve_settings(given, os.environ, file)
        up = up_settings(given, file)
        display: PlainDisplay
        if args.json:
            display = JsonDisplay()
        else:
            plain = args.plain or not sys.stdout.isatty()
            display = PlainDisplay() if plain else TableDisplay()
        cluster = LocalCluster(serve, up, clock=SystemClock(), on_change=display.changed)
        # The standard loop: it starts children by vfork, which no library hooks into.
        return asyncio.run(_up(cluster, display))
    except StartError as error:
        print(f"sharemesh: {error.message}", file=sys.stderr)
        return error.code


async def _up(cluster: "LocalCluster", display: "PlainDisplay") -> int:
    stop = asyncio.Event()

    def asked_to_stop() -> None:
        if stop.is_set():
            cluster.hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop)
    with display.shown(cluster):
        starting = asyncio.ensure_future(cluster.start())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                display.ready(cluster)
                await stopped
                display.say("stopping; Ctrl-C again to hurry")
            else:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
        finally:
            stopped.cancel()
            await cluster.stop()
        display.say("stopped")
    return ExitCode.STOPPED


def _restart(args: argparse.Namespace) -> int:
    """Restart the process and wait until it is ready; return the exit code."""
    directory = _directory(args)
    _check_running(directory)
    before = _process(directory, args.node)
    try:
        os.kill(before["pid"], signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has ended by itself, and is started again
    except PermissionError as error:
        raise CommandError(f"{args.node} belongs to another user: {error.strerror}") from error
    continues = f"it continues by itself: see sharemesh cluster and {directory / LOGS}"
    try:
        after = _restarted(directory, args.node, before["pid"], args.wait)
    except KeyboardInterrupt:
        raise CommandError(
            f"{args.node} is being restarted; {continues}", code=INTERRUPTED
        ) from None
    if after is None:
        raise CommandError(f"{args.node} is not ready after {args.wait} s; {continues}")
    if args.json:
        print(json.dumps({"node": args.node, "pid": after["pid"], "address": after["address"]}))
    else:
        print(f"{args.node} is ready again: pid {after['pid']}, address {after['address']}")
    return 0


def _directory(args: argparse.Namespace) -> Path:
    """Return the data directory as ``up`` finds it: option, variable, file, default."""
    given = {"role": "all", "data_directory": args.data_directory}
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return serve_settings(given, os.environ, read_file(args.config)).data_directory.resolve()
    except StartError as error:
        raise CommandError(error.message, code=error.code) from error


def _check_running(directory: Path) -> None:
    try:
        with DirectoryLock(directory):
            pass
    except StartError:
        return  # taken
    except OSError as error:
        raise CommandError(f"cannot read {directory}: {error.strerror}") from error
    raise CommandError(
        f"no 'sharemesh up' runs on {directory}; give --data-directory as it was given one"
    )


def _processes(directory: Path) -> dict[str, Mapping[str, Any]]:
    try:
        found = json.loads((directory / RUN_FILE).read_text(encoding="utf-8"))["processes"]
        return {each["name"]: each for each in found}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"cannot read {directory / RUN_FILE}: {error}") from error


def _process(directory: Path, name: str) -> Mapping[str, Any]:
    known = _processes(directory)
    if name not in known:
        raise CommandError(
            f"no process {name!r}{nearest(name, known)} (there are: {', '.join(known)})", code=2
        )
    if not known[name]["pid"]:
        raise CommandError(f"{name} is {known[name]['state']}, not running: wait for it")
    return known[name]


def _restarted(directory: Path, name: str, pid: int, wait_s: int) -> Mapping[str, Any] | None:
    """Return the process once it is ready under another pid; None if it is not in time."""
    clock = SystemClock()
    deadline_ms = clock.now_ms() + wait_s * 1_000
    while clock.now_ms() < deadline_ms:
        now = _processes(directory)[name]
        if now["pid"] not in (0, pid) and now["state"] == ProcessState.READY:
            return now
        Event().wait(POLL_S)
    return None
