"""``sharemesh-share-groups``: options, columns and messages of kafka-share-groups.sh (spec CLI).

This module imports nothing that takes time.
"""

import sys
from collections.abc import Sequence

from sharemesh.cli.interrupts import load


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return load("sharemesh.cli.share_groups_command")(argv)


if __name__ == "__main__":
    sys.exit(main())
