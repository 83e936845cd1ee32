"""``sharemesh up restart``: end one process of a local cluster in good order; ``up`` starts it."""

import argparse
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.entry import INTERRUPTED
from sharemesh.cli.formatting import nearest
from sharemesh.cli.session import CommandError
from sharemesh.serve.exit_codes import StartError
from sharemesh.serve.settings.flags import add_config_flags
from sharemesh.serve.settings.settings import read_file, serve_settings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh.serve.supervise.data_lock import DirectoryLock
from sharemesh.serve.supervise.run_file import LOGS, RUN_FILE

POLL_S = 0.1
WAIT_S = 60

_EXAMPLES = """examples:
  sharemesh up restart share-leader-1
  sharemesh up restart etcd --data-directory /var/lib/sharemesh"""


def register(actions: "argparse._SubParsersAction[Any]") -> None:
    """Add the action to ``up``."""
    parser = actions.add_parser(
        "restart",
        help="restart one process of the cluster that runs here",
        description="The process hands over what it leads and ends, and 'sharemesh up' starts it "
        "again: a node that was drained takes part again.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
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
    goes_on = f"it goes on by itself: see sharemesh cluster and {directory / LOGS}"
    try:
        after = _restarted(directory, args.node, before["pid"], args.wait)
    except KeyboardInterrupt:
        raise CommandError(f"{args.node} is being restarted; {goes_on}", code=INTERRUPTED) from None
    if after is None:
        raise CommandError(f"{args.node} is not ready after {args.wait} s; {goes_on}")
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
        return  # somebody has it
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
