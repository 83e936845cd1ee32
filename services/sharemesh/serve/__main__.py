"""``python -m sharemesh.serve --role R``: what a container runs."""

import argparse
import os
import sys

from sharemesh.serve.run import serve
from sharemesh.serve.settings.sources import add_serve_flags


def main() -> int:
    """Run one role process."""
    parser = argparse.ArgumentParser(
        prog="sharemesh serve", description="Run one role of a Sharemesh cluster."
    )
    add_serve_flags(parser)
    return serve(parser.parse_args(), os.environ)


if __name__ == "__main__":
    sys.exit(main())
