"""``sharemesh serve --role R``: one role process."""

import argparse
import os
from typing import Any


def register(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    from sharemesh.serve.run import add_serve_flags

    parser = subparsers.add_parser("serve", help="run one role process of a cluster")
    add_serve_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; return the exit code."""
    from sharemesh.serve.run import serve

    return serve(args, os.environ)
