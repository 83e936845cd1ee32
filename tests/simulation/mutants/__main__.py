"""`python -m tests.simulation.mutants`: each planted bug, and the seed that caught it."""

import argparse
import contextlib
import os
import sys

from tests.simulation.mutants.planted import MUTANTS
from tests.simulation.patching import Patches
from tests.simulation.processes import in_processes, prepare
from tests.simulation.run import Outcome, run_seed
from tests.simulation.workloads.names import WORKLOADS
from tests.simulation.world import Options


def _run(task: tuple[str, int, Options]) -> Outcome:
    name, seed, options = task
    patches = Patches()
    if name:
        MUTANTS[name](patches)
    return run_seed(seed, options, patches=patches, stop_early=True)


class Control:
    """The same seeds without a mutant: one that complains there too catches nothing."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._violations: dict[int, int] = {}

    def is_clean(self, seed: int) -> bool:
        """Return whether the product alone passes this seed."""
        if seed not in self._violations:
            [outcome] = in_processes(_run, [("", seed, self._options)], 1)
            self._violations[seed] = len(outcome.violations)
        return not self._violations[seed]

    def __str__(self) -> str:
        clean = sum(1 for found in self._violations.values() if not found)
        return f"{clean} of {len(self._violations)} seeds clean"


def main() -> int:
    """Return 1 if a planted bug was not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("--seeds", type=int, default=200, help="at most, for each")
    parser.add_argument("--only", choices=sorted(MUTANTS), nargs="*")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="mixed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    missed = 0
    prepare()
    options = Options(workload=args.workload)
    control = Control(options)
    for name in args.only or MUTANTS:
        tasks = [(name, seed, options) for seed in range(1, args.seeds + 1)]
        outcomes = in_processes(_run, tasks, args.jobs)
        with contextlib.closing(outcomes):
            caught = next(
                (each for each in outcomes if each.violations and control.is_clean(each.seed)),
                None,
            )
        missed += caught is None
        if caught is None:
            print(f"{name}: NOT CAUGHT in {args.seeds} seeds", flush=True)
        else:
            print(f"{name}: seed {caught.seed}: {caught.violations[0][:160]}", flush=True)
    count = len(args.only or MUTANTS)
    print(f"mutants={count} missed={missed} control={control}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
