"""`make bench [PART=p]`: measures parts against their baselines; exits 1 when a floor is missed."""

import argparse
import importlib
import sys
from pathlib import Path

PARTS = (
    "core",
    "produce",
    "consume-stream",
    "consume-unary",
    "ack",
    "commit",
    "fairness",
    "quota-cost",
    "client",
    "compression",
    "coordinators",
    "delivery",
    "spark",
    "memory",
    "telemetry",
    "kafka",
)
ON_REQUEST = ("peer", "listener")
"""Need a JDK, jars of Maven Central and ten minutes."""


def main() -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument(
        "part", nargs="?", choices=(*PARTS, *ON_REQUEST), help=f"default: all but {ON_REQUEST}"
    )
    args = parser.parse_args()
    (Path(__file__).parents[2] / "build").mkdir(exist_ok=True)  # a fresh clone has none
    missed = []
    for part in [args.part] if args.part else PARTS:
        print(f"== {part}", flush=True)
        if importlib.import_module(f"tests.bench.{part.replace('-', '_')}").main():
            missed.append(part)
    if missed:
        print(f"floors missed in: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
