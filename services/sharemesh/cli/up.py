"""``sharemesh up``: a whole cluster on this machine."""

import argparse
import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from sharemesh.cli import up_restart
from sharemesh.cli.session import CommandError
from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.settings.flags import add_config_flags, add_flags
from sharemesh.serve.settings.settings import (
    ServeSettings,
    UpSettings,
    read_file,
    serve_settings,
    up_settings,
)

if TYPE_CHECKING:
    from sharemesh.cli.up_display import PlainDisplay
    from sharemesh.serve.supervise.local_cluster import LocalCluster


_EXAMPLES = """examples:
  sharemesh up
  sharemesh up --data-directory /var/lib/sharemesh --share-leaders 4
  sharemesh up --config cluster.toml --json
  sharemesh up restart share-leader-1"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "up",
        help="run a whole cluster on this machine",
        description="Start etcd and all roles as processes, keep them running, stop on Ctrl-C.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_flags(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--plain", action="store_true", help="print lines instead of a table")
    shown.add_argument("--json", action="store_true", help="print a JSON object for each change")
    add_flags(parser, UpSettings)
    add_flags(parser, ServeSettings, leave_out="role,node_id,listen_host,listen_port")
    parser.set_defaults(run=run)
    up_restart.register(parser.add_subparsers(metavar="ACTION"))


def run(args: argparse.Namespace) -> int:
    """Run the cluster until Ctrl-C; return the exit code.

    Raises:
        CommandError: The packages of the server are not installed.
    """
    try:
        from sharemesh.backends.local.clock import SystemClock
        from sharemesh.cli.up_display import JsonDisplay, PlainDisplay, TableDisplay
        from sharemesh.serve.supervise.local_cluster import LocalCluster
    except ImportError as missing:
        raise CommandError(
            f"'sharemesh up' needs more: pip install 'sharemesh[local]' ({missing})"
        ) from missing
    try:
        file = read_file(args.config)
        given = {name: value for name, value in vars(args).items() if value is not None}
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

    def told_to_stop() -> None:
        if stop.is_set():
            cluster.hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told_to_stop)
    with display.shown(cluster):
        starting = asyncio.ensure_future(cluster.start())
        told = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                display.ready(cluster)
                await told
                display.say("stopping; Ctrl-C again to hurry")
            else:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
        finally:
            told.cancel()
            await cluster.stop()
        display.say("stopped")
    return ExitCode.STOPPED
