"""`make faults [PART=p] [N=n]`: runs the trials of a part and exits 1 on any violation."""

import argparse
import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Coroutine

# Before gRPC is imported: trials start processes, and its handlers at a fork only complain.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from tests.faults.trials import named, run_part

PARTS = (
    *("mesh", "storage", "failover", "etcd", "client", "delivery", "hostile", "kafka", "listener"),
)
"""Run when no part is named."""

ALONE = ("spark",)
"""Only run when named: each trial starts Spark twice."""


def main() -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("part", nargs="?", choices=PARTS + ALONE, help="default: all but spark")
    parser.add_argument(
        "--trials", type=int, help="trials of each fault instead of the full number"
    )
    parser.add_argument("--fault", help="only the faults whose names contain this")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    args = parser.parse_args()
    violations = 0
    for part in [args.part] if args.part else PARTS:
        faults = importlib.import_module(f"tests.faults.{part}").FAULTS
        faults = named(faults, args.fault or "")
        run = run_part(part, faults, trials=args.trials, seed=args.seed)
        try:
            violations += asyncio.run(_ended_by_sigterm(run))
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
    return 1 if violations else 0


async def _ended_by_sigterm(run: Coroutine[None, None, int]) -> int:
    """Await trials; SIGTERM cancels them, so that they end the processes that they started."""
    task = asyncio.ensure_future(run)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


if __name__ == "__main__":
    sys.exit(main())
