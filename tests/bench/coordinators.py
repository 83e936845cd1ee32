"""Part coordinators: share coordinator and group coordinator (`make bench PART=coordinators`)."""

import sys

from tests.bench import coordinators_group, coordinators_state
from tests.bench.figures import write


def main() -> int:
    """Measure, write build/bench/coordinators.json, return the exit code."""
    return write("coordinators", [*coordinators_state.figures(), *coordinators_group.figures()])


if __name__ == "__main__":
    sys.exit(main())
