"""``python -m sharemesh.serve --role R``: what a container runs."""

import argparse
import os
import sys

from sharemesh.serve.flags import add_serve_flags
from sharemesh.serve.run import serve


def main() -> int:
    """Run one role process."""
    parser = argparse.ArgumentParser(
        prog="sharemesh serve", description="Run one role of a Sharemesh cluster."
    )
    add_serve_flags(parser)
    return serve(parser.parse_args(), os.environ)


if __name__ == "__main__":
    sys.exit(main())
