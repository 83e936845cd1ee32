"""What commands share: where the cluster is, how results are shown, and how a command ends.

``add_admin_action`` gives a command that asks the cluster its options, session and admin client.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from sharemesh.cli.command_parser import CommandParser, Commands
from sharemesh.cli.formatting import json_line, nearest, table_lines
from sharemesh.cli.interrupts import INTERRUPTED
from sharemesh.client import AdminClient
from sharemesh.client.config import ADMIN_SETTINGS
from sharemesh.client.config_sources import FILE_VARIABLE, from_environment, from_file, those_of
from sharemesh.client.errors import (
    GroupIdNotFoundError,
    SharemeshError,
    UnknownTopicOrPartitionError,
)
from sharemesh.domain.printable import escaped
from sharemesh.serve.supervise.data_directory import RUN_FILE


class CommandError(Exception):
    """The command cannot continue; the message is one clear sentence that says what to do."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


DEFAULT_ADDRESS = "127.0.0.1:9400"
BOOTSTRAP_VARIABLE = "SHAREMESH_BOOTSTRAP"
DATA_VARIABLE = "SHAREMESH_DATA_DIRECTORY"
DEFAULT_DATA_DIRECTORY = "sharemesh-data"
DEFAULT_TIMEOUT_MS = 30_000
_NOT_FOUND = (GroupIdNotFoundError, UnknownTopicOrPartitionError)


def connection_flags() -> argparse.ArgumentParser:
    """Return the options that commands of a cluster have in common."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        help=f"any processes of the cluster (default: ${BOOTSTRAP_VARIABLE}, else what 'sharemesh "
        f"up' wrote into {DEFAULT_DATA_DIRECTORY}/{RUN_FILE}, else {DEFAULT_ADDRESS})",
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="file of name=value lines, for example TLS files; wins over variables "
        f"SHAREMESH_NAME and the file of ${FILE_VARIABLE}",
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with a bearer token, for example one that Kubernetes projects; read again when "
        "it changes (needs security.protocol=ssl)",
    )
    group.add_argument(
        "--timeout",
        type=int,
        default=DEFAULT_TIMEOUT_MS,
        metavar="MS",
        help="longest wait for the cluster (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    return parser


def connection_before(parser: CommandParser) -> None:
    """Let these options stand before the name of the command, too."""
    parser.carry("--bootstrap", "--command-config", "--token-file", "--timeout", flags=("--json",))


def actions_of(parser: CommandParser) -> Commands:
    """Let a command have actions, one of which must be named."""
    connection_before(parser)
    return parser.commands(dest="action", required=True, metavar="ACTION")


def bootstrap_of(given: str | None) -> str:
    """Return the addresses to connect to: given, running local cluster, default."""
    return given or _of_local_cluster() or DEFAULT_ADDRESS


def _run_file() -> Path:
    return Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA_DIRECTORY)) / RUN_FILE


def _of_local_cluster() -> str:
    try:
        found = json.loads(_run_file().read_text(encoding="utf-8"))["bootstrap"]
    except (OSError, ValueError, KeyError, TypeError):
        found = []
    return ",".join(found)


def origin_of_address(args: argparse.Namespace) -> str:
    """Return where the address comes from that nobody answers at, if the command did not name it.

    The words begin with a blank; they are empty where the address was given.
    """
    if getattr(args, "bootstrap", None):
        return ""
    if "bootstrap.servers" in _given(args):
        return f" (the address is that of ${BOOTSTRAP_VARIABLE}, or of a configuration file)"
    if _of_local_cluster():
        return f" (the address is that of {_run_file()}, which 'sharemesh up' wrote)"
    return (
        " (the address is the default: 'sharemesh up' starts a cluster there, "
        "--bootstrap HOST:PORT names another one)"
    )


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of variables and files, the more special ones over the others."""
    settings: dict[str, Any] = those_of(ADMIN_SETTINGS, from_environment())
    settings.pop("default.api.timeout.ms", None)  # --timeout says it
    if args.command_config:
        settings.update(from_file(Path(args.command_config)))
    if args.token_file:
        settings["sasl.token.location"] = args.token_file
    return settings


@dataclass(slots=True)
class CommandSession:
    """One command's run."""

    settings: dict[str, Any]
    as_json: bool
    timeout_ms: int
    out: Console
    err: Console

    @property
    def admin_settings(self) -> dict[str, Any]:
        """Return the settings of an admin client."""
        return {**self.settings, "default.api.timeout.ms": self.timeout_ms}

    def show(self, rows: Sequence[Mapping[str, Any]], columns: str, *, empty: str) -> None:
        """Print rows as a table, or as JSON.

        ``columns`` are keys of the rows, ``group, start_offset, member_id:MEMBER``: a heading is
        what follows the colon, else the key in capitals.
        """
        if self.as_json:
            self.show_json(rows)
            return
        if not rows:
            self.say(empty)
            return
        named = [each.partition(":") for each in columns.split(", ")]
        head, *lines = table_lines(
            [heading or key.upper().replace("_", "-") for key, _, heading in named],
            [[row.get(key) for key, _, _ in named] for row in rows],
            gap=2,
        )
        self.out.print(head, style="bold", highlight=False, markup=False, soft_wrap=True)
        for line in lines:
            self.say(line)

    def show_json(self, thing: object) -> None:
        """Print JSON on one line."""
        print(json_line(thing))

    def say(self, text: str) -> None:
        """Print a line for people; programs that read JSON get none."""
        if not self.as_json:
            self.out.print(escaped(text), highlight=False, markup=False, soft_wrap=True)

    def complain(self, text: str) -> None:
        """Print a line on stderr, where programs do not look for results."""
        self.err.print(escaped(text), highlight=False, markup=False, soft_wrap=True)

    def complain_of(
        self, name: str, error: SharemeshError, known: Callable[[], Iterable[str]]
    ) -> None:
        """Print an error; of a name that was not found with the nearest of the known ones."""
        hint = nearest(name, known()) if isinstance(error, _NOT_FOUND) else ""
        self.complain(f"sharemesh: {error}{hint}")

    def report(
        self,
        problems: Mapping[str, SharemeshError | None],
        done: str,
        known: Callable[[], Iterable[str]],
    ) -> int:
        """Print what became of each name: ``done`` with the name in it, or its error.

        Returns:
            The exit code: 1 if there is an error.
        """
        if self.as_json:
            self.show_json({name: None if e is None else str(e) for name, e in problems.items()})
        for name, error in problems.items():
            if error is None:
                self.say(done.format(name))
            else:
                self.complain_of(name, error, known)
        return any_failed(problems)


def session_of(args: argparse.Namespace) -> CommandSession:
    """Return the session of parsed arguments.

    Raises:
        ConfigError: The configuration file cannot be used.
        CommandError: The time-out is not positive.
    """
    if args.timeout < 1:
        raise CommandError(f"--timeout {args.timeout}: must be at least 1 ms", code=2)
    settings = _given(args)
    if args.bootstrap or "bootstrap.servers" not in settings:
        settings["bootstrap.servers"] = bootstrap_of(args.bootstrap)
    return CommandSession(settings, args.json, args.timeout, Console(), Console(stderr=True))


def add_action(
    actions: Commands,
    name: str,
    run: Callable[[CommandSession, argparse.Namespace], int],
    **words: Any,  # noqa: ANN401 - those of argparse
) -> CommandParser:
    """Add a command with the options of the connection; ``run`` returns its exit code."""
    parser: CommandParser = actions.add_parser(name, parents=[connection_flags()], **words)
    parser.set_defaults(run=lambda args: run(session_of(args), args))
    return parser


def add_admin_action(
    actions: Commands,
    name: str,
    run: Callable[[CommandSession, AdminClient, argparse.Namespace], int],
    **words: Any,  # noqa: ANN401 - those of argparse
) -> CommandParser:
    """Add a command that gets an admin client for as long as it runs."""

    def connected(session: CommandSession, args: argparse.Namespace) -> int:
        with AdminClient(session.admin_settings) as admin:
            return run(session, admin, args)

    return add_action(actions, name, connected, **words)


def any_failed(problems: Mapping[Any, SharemeshError | None]) -> int:
    """Return the exit code for results by name: 1 if one of them is an error."""
    return int(any(error is not None for error in problems.values()))


def ended(run: Callable[[], int], *, prefix: str) -> int:
    """Run a command and return its exit code; what ends it early is printed behind ``prefix``."""
    try:
        return run()
    except (CommandError, SharemeshError) as error:
        print(escaped(f"{prefix}: {error}"), file=sys.stderr)
        return error.code if isinstance(error, CommandError) else 1
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
