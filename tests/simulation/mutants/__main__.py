"""`python -m tests.simulation.mutants`: each planted bug, and the seed that caught it."""

import argparse
import contextlib
import os
import sys

from tests.simulation.engines.names import ENGINES
from tests.simulation.invariants import INVARIANTS
from tests.simulation.mutants.logs import PLANTED
from tests.simulation.mutants.plan import MUTANTS, PLANTED_IN
from tests.simulation.patching import Patches
from tests.simulation.processes import in_processes, prepare
from tests.simulation.run import Outcome, run_seed
from tests.simulation.workloads.names import WORKLOADS
from tests.simulation.world import Options

OWN_FAULTS = ("unhandled: ", "unheard: ", "the run ended with ")
"""How violations begin that say no more than that something failed, the mutant itself perhaps."""


def _run(task: tuple[str, int, Options]) -> Outcome:
    name, seed, options = task
    patches = Patches()
    if name:
        MUTANTS[name](patches)
    return run_seed(seed, options, patches=patches, stop_early=True)


class Control:
    """The same seeds without a mutant: one that complains there too catches nothing."""

    def __init__(self) -> None:
        self._violations: dict[tuple[int, Options], int] = {}

    def is_clean(self, seed: int, options: Options) -> bool:
        """Return whether the product alone passes this seed."""
        if (seed, options) not in self._violations:
            [outcome] = in_processes(_run, [("", seed, options)], 1)
            self.heard(outcome, options)
        return not self._violations[seed, options]

    def heard(self, outcome: Outcome, options: Options) -> None:
        """Take a seed that was run without a mutant."""
        self._violations[outcome.seed, options] = len(outcome.violations)

    def __str__(self) -> str:
        clean = sum(1 for found in self._violations.values() if not found)
        return f"{clean} of {len(self._violations)} seeds clean"


def _stated(options_of: dict[str, Options], jobs: int, control: Control) -> dict[str, Outcome]:
    """Run every bug on the seed that is stated for it, all side by side; return what was caught."""
    tasks = [(name, PLANTED_IN[name].seed, options) for name, options in options_of.items()]
    alone = dict.fromkeys(("", seed, options) for _, seed, options in tasks)
    caught: dict[str, Outcome] = {}
    ordered = [*alone, *tasks]
    for (name, _, options), outcome in zip(ordered, in_processes(_run, ordered, jobs), strict=True):
        if not name:
            control.heard(outcome, options)
        elif _is_seen(outcome) and control.is_clean(outcome.seed, options):
            caught[name] = outcome
    return caught


def _first_caught(
    name: str, seeds: int, options: Options, jobs: int, control: Control
) -> Outcome | None:
    tasks = [(name, seed, options) for seed in range(1, seeds + 1)]
    with contextlib.closing(in_processes(_run, tasks, jobs)) as outcomes:
        return next(
            (each for each in outcomes if _is_seen(each) and control.is_clean(each.seed, options)),
            None,
        )


def _is_seen(outcome: Outcome) -> bool:
    if not outcome.violations:
        return False
    first = outcome.violations[0]
    return PLANTED in first or not first.startswith(OWN_FAULTS)


def main() -> int:
    """Return 1 if a planted bug was not caught, or an invariant was the first for none of all."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("--seeds", type=int, default=200, help="at most, for each")
    parser.add_argument("--only", choices=sorted(MUTANTS), nargs="*")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), help="not each one's own")
    parser.add_argument("--engine", choices=sorted(ENGINES), help="those of this engine only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    missed = 0
    named: set[int] = set()
    prepare()
    control = Control()
    options_of = {
        name: Options(args.workload or PLANTED_IN[name].workload, PLANTED_IN[name].engine)
        for name in args.only or MUTANTS
        if args.engine in (None, PLANTED_IN[name].engine)
    }
    stated = {} if args.workload else _stated(options_of, args.jobs, control)
    for name, options in options_of.items():
        workload = options.workload
        caught = stated.get(name) or _first_caught(name, args.seeds, options, args.jobs, control)
        missed += caught is None
        if caught is None:
            print(f"{name}: {workload}: NOT CAUGHT in {args.seeds} seeds", flush=True)
        else:
            what = caught.violations[0][:160]
            named |= {each.number for each in INVARIANTS if each.mark in caught.violations[0]}
            print(f"{name}: {workload} {caught.seed}: {what}", flush=True)
    idle = {each.number for each in INVARIANTS if each.exists} - named
    print(f"caught first by invariants {sorted(named)}, not by {sorted(idle) or 'none'}")
    print(f"mutants={len(options_of)} missed={missed} control={control}", flush=True)
    is_whole = not args.only and not args.workload and not args.engine
    return 1 if missed or (is_whole and idle) else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
