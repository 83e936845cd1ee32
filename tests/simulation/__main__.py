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


class Campaign:
    """Seeds of one workload, and what an earlier run kept of them."""

    def __init__(self, args: argparse.Namespace, workload: str) -> None:
        self.options = Options(workload=workload, engine=args.engine)
        self.seeds = _seeds(args, workload)
        self.progress = Progress(self.options) if args.resume else None
        self._known = {} if self.progress is None else dict(self.progress.done)

    def left(self) -> list[tuple[int, Options]]:
        """Return what is still to be run."""
        return [(seed, self.options) for seed in self.seeds if seed not in self._known]

    def outcomes(self, ran: Iterator[Outcome]) -> Iterator[tuple[Outcome, bool]]:
        """Yield what each seed gave, in order, and whether it was run now."""
        for seed in self.seeds:
            outcome = self._known.get(seed)
            if outcome is not None:
                yield outcome, False
                continue
            outcome = next(ran)
            if self.progress is not None:
                self.progress.add(outcome)
            yield outcome, True


def _ran(campaigns: list[Campaign], jobs: int) -> Iterator[Outcome]:
    """Run what is left of all campaigns side by side; yield in order."""
    left = [task for campaign in campaigns for task in campaign.left()]
    if len(left) == 1 and campaigns[0].progress is None:
        yield run_seed(*left[0], verbose=True)
        return
    if left:
        prepare()
    yield from in_processes(_run, left, jobs)


def _carried_out(campaign: Campaign, ran: Iterator[Outcome], args: argparse.Namespace) -> bool:
    """Say what the seeds of a campaign gave; return whether they prove what they are for."""
    options, seeds = campaign.options, campaign.seeds
    print(f"simulation: seeds {_told(seeds)}, {options}", flush=True)
    engine = "" if options.engine == "embedded" else f" ENGINE={options.engine}"
    began = time.monotonic()
    totals, ran_s = Totals(options), 0.0
    if campaign.progress is not None:
        kept = len(seeds) - len(campaign.left())
        print(f"{kept} of them are in {campaign.progress.path} already", flush=True)
    for outcome, is_new in campaign.outcomes(ran):
        totals.add(outcome)
        ran_s += outcome.virtual_s if is_new else 0.0
        for line in outcome.lines[-STORY_TAIL:] if len(seeds) > 1 else ():
            print(f"  {line}")
        for text in outcome.violations:
            print(f"seed {outcome.seed}: {text}", flush=True)
        if outcome.violations:
            where = f"WORKLOAD={options.workload}{engine}"
            print(f"replay: make simulate SEED={outcome.seed} {where}", flush=True)
    took_s, hours = time.monotonic() - began, ran_s / 3_600
    print(f"{hours:.1f} virtual hours in {took_s:.0f} s, {hours / took_s * 60:.1f} a minute")
    print(*totals.lines(everything=args.counters or len(seeds) == 1), sep="\n")
    missed = totals.missed()
    if missed:
        print(f"never reached, so that this run proves too little: {', '.join(missed)}")
    print(totals.last_line, flush=True)
    return not totals.broken and not missed


def main() -> int:
    """Run the seeds; 1 if a promise was broken, 2 if they cannot be run so."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=_some, default=20, help="how many of each workload")
    parser.add_argument("--start", type=int, default=1, help="the first one")
    parser.add_argument("--seed", type=int, help="this one only, with its event log")
    parser.add_argument(
        "--workload", choices=sorted(WORKLOADS), default=["mixed"], nargs="+", metavar="WORKLOAD"
    )
    parser.add_argument("--engine", choices=sorted(ENGINES), default="embedded")
    parser.add_argument("--jobs", type=_some, default=os.cpu_count() or 1)
    parser.add_argument("--counters", action="store_true", help="print all counters")
    parser.add_argument("--resume", action="store_true", help="leave out what this commit ran")
    parser.add_argument("--regressions", action="store_true", help="add the seeds that found bugs")
    args = parser.parse_args()
    for workload in args.workload:
        if workload in ON_KAFKA_ONLY and args.engine != "kafka":
            parser.error(f"the workload {workload} is about brokers: add --engine kafka")
    try:
        campaigns = [Campaign(args, workload) for workload in args.workload]
    except NoCommitError as error:
        print(error, file=sys.stderr)
        return 2
    ran = _ran(campaigns, args.jobs)
    proofs = [_carried_out(campaign, ran, args) for campaign in campaigns]
    return 0 if all(proofs) else 1


def _some(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return number


def _told(seeds: list[int]) -> str:
    is_range = seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}..{seeds[-1]}" if is_range else ", ".join(map(str, seeds))


def _seeds(args: argparse.Namespace, workload: str) -> list[int]:
    """Return which seeds of a workload are asked for, in order."""
    if args.seed is not None:
        return [args.seed]
    seeds = list(range(args.start, args.start + args.seeds))
    if args.regressions:
        found = [each.seed for each in REGRESSIONS if each.workload == workload]
        seeds = [*(seed for seed in found if seed not in seeds), *seeds]
    return seeds


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # killed tasks must not be collected: their finally blocks would run
