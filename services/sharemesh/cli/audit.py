"""``sharemesh audit``: who was refused what, who changed what, from the audit files (AUD-11)."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event

from sharemesh.audit.events import AuditDecision, utc
from sharemesh.backends.local.clock import SystemClock
from sharemesh.cli.audit_files import AuditFields, AuditReader
from sharemesh.cli.command_parser import Commands
from sharemesh.cli.formatting import cell, counted, json_line
from sharemesh.cli.offset_plan import timestamp_ms
from sharemesh.cli.session import DATA_VARIABLE, DEFAULT_DATA_DIRECTORY, CommandError

_EXAMPLES = """examples:
  sharemesh audit
  sharemesh audit --decision refused --principal User:bob --since 2h
  sharemesh audit --rpc AlterConfigs --json
  sharemesh audit --follow
  sharemesh audit /var/lib/sharemesh

Only files are read: run it where they lie, as the user of the processes. Of containers that write
to stdout, name a file with what they wrote."""
_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PAUSE_S = 0.5


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "audit", help="show refusals and changes from the audit log", epilog=_EXAMPLES
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="data directories, directories of audit files, or files "
        f"(default: ${DATA_VARIABLE}, else {DEFAULT_DATA_DIRECTORY})",
    )
    parser.add_argument("--principal", metavar="P", help="only this one, such as User:bob")
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="from 30s, 10m, 2h or 1d ago on, or from YYYY-MM-DDThh:mm:ss.sss (UTC) on",
    )
    parser.add_argument("--decision", choices=[str(each) for each in AuditDecision])
    parser.add_argument("--rpc", metavar="NAME", help="Service/Method, or the method alone")
    parser.add_argument("--follow", action="store_true", help="go on with new ones, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace, *, pause: Callable[[], object] | None = None) -> int:
    """Print what is asked for; return the exit code."""
    since = _since(args.since, SystemClock().wall_ms()) if args.since else ""
    default = os.environ.get(DATA_VARIABLE, DEFAULT_DATA_DIRECTORY)
    reader = AuditReader([Path(each) for each in args.paths or [default]])
    try:
        _print(reader.events(), args, since)
        while args.follow:
            sys.stdout.flush()
            (pause or _pause)()
            _print(reader.news(), args, since)
    finally:
        reader.close()
        if reader.odd:
            print(
                f"sharemesh: {counted(reader.odd, 'line')} passed over: not of an audit log",
                file=sys.stderr,
            )
    return 0


def _pause() -> None:
    Event().wait(_PAUSE_S)


def _print(events: Iterable[AuditFields], args: argparse.Namespace, since: str) -> None:
    for each in events:
        if _wanted(each, args, since):
            print(json_line(each) if args.json else _text(each))


def _wanted(event: AuditFields, args: argparse.Namespace, since: str) -> bool:
    rpc = str(event.get("rpc", ""))
    return (
        str(event["time"]) >= since
        and args.principal in (None, event.get("principal"))
        and args.decision in (None, event.get("decision"))
        and args.rpc in (None, rpc, rpc.rpartition("/")[2])
    )


def _since(text: str, now_ms: int) -> str:
    """Return a time as the lines have it.

    Raises:
        CommandError: It is neither how long ago nor a time.
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return utc(max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]]))
    try:
        return utc(timestamp_ms(text))
    except CommandError as error:
        raise CommandError(f"--since {error}, or how long ago, such as 10m", code=2) from error


def _text(event: AuditFields) -> str:
    """Return one line for a person; whatever a file holds, it controls no terminal."""
    words = [cell(event.get(name)) for name in ("time", "node", "decision", "principal", "rpc")]
    if event.get("operation"):
        words.append(str(event["operation"]).upper())
    words += [_resource(each) for each in event.get("resources") or ()]
    if event.get("more_resources"):
        words.append(f"and {event['more_resources']} more")
    if event.get("error"):
        words.append(str(event["error"]))
    if event.get("repeated"):
        words.append(
            f"({event['repeated']} times more, {event.get('first')} to {event.get('last')})"
        )
    if event.get("peer"):
        words.append(f"from {event['peer']}")
    return cell("  ".join(words))


def _resource(resource: object) -> str:
    if not isinstance(resource, dict):
        return str(resource)
    change = f" ({resource['change']})" if resource.get("change") else ""
    return f"{resource.get('type')}:{resource.get('name')}{change}"
