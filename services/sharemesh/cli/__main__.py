"""``sharemesh``: the command line; this module imports nothing that takes time."""

import sys
from collections.abc import Sequence

from sharemesh.cli.interrupts import load


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return load("sharemesh.cli.commands")(argv)


if __name__ == "__main__":
    sys.exit(main())
