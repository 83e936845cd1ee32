"""``sharemesh serve --role R``: one role process."""

import argparse
import os
from typing import Any

from sharemesh.cli.session import CommandError
from sharemesh.serve.settings.flags import add_serve_flags

_EXAMPLES = """examples:
  sharemesh serve
  sharemesh serve --role share-leader --etcd-endpoints 127.0.0.1:2379 --data-directory data"""


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "serve",
        help="run one role process of a cluster",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_serve_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; return the exit code.

    Raises:
        CommandError: The packages of the server are not installed.
    """
    try:
        from sharemesh.serve.run import serve
    except ImportError as missing:
        raise CommandError(
            f"'sharemesh serve' needs more: pip install 'sharemesh[server]' ({missing})"
        ) from missing
    return serve(args, os.environ)
