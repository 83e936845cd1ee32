"""`make faults [PART=p] [N=n]`: runs the trials of a part and exits 1 on any violation."""

import argparse
import asyncio
import importlib
import os
import signal
import sys

# Before gRPC is imported: trials start processes, and its handlers at a fork only complain.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from tests.faults.trials import run_part

PARTS = ("mesh", "storage", "failover", "etcd", "client", "hostile")


def main() -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("part", nargs="?", choices=PARTS, help="default: all parts")
    parser.add_argument(
        "--trials", type=int, help="trials of each fault instead of the full number"
    )
    parser.add_argument("--fault", help="only the faults whose names contain this")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    args = parser.parse_args()
    # As Ctrl-C: a run that is ended takes the processes that it started with it.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    violations = 0
    for part in [args.part] if args.part else PARTS:
        faults = importlib.import_module(f"tests.faults.{part}").FAULTS
        faults = [fault for fault in faults if (args.fault or "") in fault.name]
        violations += asyncio.run(run_part(part, faults, trials=args.trials, seed=args.seed))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
