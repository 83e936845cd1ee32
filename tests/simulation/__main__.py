"""`python -m tests.simulation`: many seeds, or one seed with its event log."""

import argparse
import os
import sys
import time
from collections.abc import Iterator

from tests.simulation.engines.names import ENGINES
from tests.simulation.processes import in_processes, prepare
from tests.simulation.progress import NoCommitError, Progress
from tests.simulation.regressions import REGRESSIONS
from tests.simulation.run import Outcome, run_seed
from tests.simulation.totals import Totals
from tests.simulation.workloads.names import ON_KAFKA_ONLY, WORKLOADS
from tests.simulation.world import Options

STORY_TAIL = 40


def _run(task: tuple[int, Options]) -> Outcome:
    return run_seed(*task)


def _outcomes(
    seeds: list[int], options: Options, jobs: int, progress: Progress | None
) -> Iterator[Outcome]:
    """Yield what each seed gave, in order; what an earlier run kept is not run again."""
    if len(seeds) == 1 and progress is None:
        yield run_seed(seeds[0], options, verbose=True)
        return
    known = {} if progress is None else progress.done
    left = [seed for seed in seeds if seed not in known]
    if left:
        prepare()
    ran = in_processes(_run, [(seed, options) for seed in left], jobs)
    for seed in seeds:
        outcome = known.get(seed)
        if outcome is None:
            outcome = next(ran)
            if progress is not None:
                progress.add(outcome)
        yield outcome


def main() -> int:
    """Run the seeds; 1 if a promise was broken, 2 if they cannot be run so."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=_some, default=20, help="how many")
    parser.add_argument("--start", type=int, default=1, help="the first one")
    parser.add_argument("--seed", type=int, help="this one only, with its event log")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="mixed")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="embedded")
    parser.add_argument("--jobs", type=_some, default=os.cpu_count() or 1)
    parser.add_argument("--counters", action="store_true", help="print all counters")
    parser.add_argument("--resume", action="store_true", help="leave out what this commit ran")
    parser.add_argument("--regressions", action="store_true", help="add the seeds that found bugs")
    args = parser.parse_args()
    if args.workload in ON_KAFKA_ONLY and args.engine != "kafka":
        parser.error(f"the workload {args.workload} is about brokers: add --engine kafka")
    options = Options(workload=args.workload, engine=args.engine)
    try:
        progress = Progress(options) if args.resume else None
    except NoCommitError as error:
        print(error, file=sys.stderr)
        return 2
    seeds = _seeds(args)
    print(f"simulation: seeds {_told(seeds)}, {options}", flush=True)
    engine = "" if args.engine == "embedded" else f" ENGINE={args.engine}"
    began = time.monotonic()
    totals, ran_s = Totals(options), 0.0
    kept_seeds = set() if progress is None else set(progress.done)
    if progress is not None:
        kept = len(kept_seeds.intersection(seeds))
        print(f"{kept} of them are in {progress.path} already", flush=True)
    for outcome in _outcomes(seeds, options, args.jobs, progress):
        totals.add(outcome)
        ran_s += 0.0 if outcome.seed in kept_seeds else outcome.virtual_s
        for line in outcome.lines[-STORY_TAIL:] if len(seeds) > 1 else ():
            print(f"  {line}")
        for text in outcome.violations:
            print(f"seed {outcome.seed}: {text}", flush=True)
        if outcome.violations:
            where = f"WORKLOAD={args.workload}{engine}"
            print(f"replay: make simulate SEED={outcome.seed} {where}", flush=True)
    took_s, hours = time.monotonic() - began, ran_s / 3_600
    print(f"{hours:.1f} virtual hours in {took_s:.0f} s, {hours / took_s * 60:.1f} a minute")
    print(*totals.lines(everything=args.counters or len(seeds) == 1), sep="\n")
    missed = totals.missed()
    if missed:
        print(f"never reached, so that this run proves too little: {', '.join(missed)}")
    print(totals.last_line, flush=True)
    return 1 if totals.broken or missed else 0


def _some(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return number


def _told(seeds: list[int]) -> str:
    is_range = seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}..{seeds[-1]}" if is_range else ", ".join(map(str, seeds))


def _seeds(args: argparse.Namespace) -> list[int]:
    """Return which seeds are asked for, in order."""
    if args.seed is not None:
        return [args.seed]
    seeds = list(range(args.start, args.start + args.seeds))
    if args.regressions:
        found = [each.seed for each in REGRESSIONS if each.workload == args.workload]
        seeds = [*(seed for seed in found if seed not in seeds), *seeds]
    return seeds


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # killed tasks must not be collected: their finally blocks would run
