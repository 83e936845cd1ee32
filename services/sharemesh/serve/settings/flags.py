"""Command-line flags, one for each setting; this module imports little."""

import argparse
from pathlib import Path
from typing import Any

from sharemesh.serve.settings.fields import names_of
from sharemesh.serve.settings.settings import ServeSettings


def add_flags(parser: argparse.ArgumentParser, record: type[Any], *, leave_out: str = "") -> None:
    """Add a flag for each setting of a record class but those in ``leave_out`` (commas)."""
    for each in record.__dataclass_fields__.values():
        if each.name not in names_of(record) or each.name in leave_out.split(","):
            continue
        shown = "" if each.default in (None, "", ()) else f" (default: {each.default})"
        parser.add_argument(
            "--" + each.name.replace("_", "-"),
            dest=each.name,
            default=None,
            metavar="VALUE",
            help=each.metadata["documentation"] + shown,
        )


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--config FILE`` and ``--set NAME=VALUE``."""
    parser.add_argument("--config", type=Path, default=None, help="TOML or YAML file")
    parser.add_argument(
        "--set",
        dest="configs",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="setting of the cluster by Kafka's name, for example group.share.max.size=100",
    )


def add_serve_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``serve`` to a parser."""
    add_config_flags(parser)
    parser.add_argument(
        "--parent-pid", type=int, default=None, help="end when this process ends (supervisors)"
    )
    parser.add_argument(
        "--report-descriptor", type=int, default=None, help="tell leases and readiness there"
    )
    parser.add_argument(
        "--guard",
        action="store_true",
        help="run the role as a child and revoke its lease if it dies (containers)",
    )
    add_flags(parser, ServeSettings)
