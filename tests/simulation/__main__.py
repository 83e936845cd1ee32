"""`python -m tests.simulation`: many seeds, or one seed with its story."""

import argparse
import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.simulation.faults import FAULTS
from tests.simulation.invariants import INVARIANTS, told
from tests.simulation.processes import in_processes, prepare
from tests.simulation.progress import Progress
from tests.simulation.regressions import REGRESSIONS
from tests.simulation.run import Outcome, run_seed
from tests.simulation.workloads.names import WORKLOADS
from tests.simulation.world import Options

STORY_TAIL = 40
RARE = (
    "fenced commit",
    "log epoch ended by the disk",
    "predecessor cut, tail appended again",
    "loaded from a generation",
    "log start moved by retention",
    "disk jobs between operations of another",
    "redelivered",
    "locks expired",
    "locks renewed",
    "late acknowledgements",
    "drains under load",
    "admin trim",
    "admin reset",
    "admin temporary topic",
    "admin new partition",
    "admin group settings",
    *(f"fault {name}" for name in FAULTS),
)
NEEDED = (*RARE, *(each.counter for each in INVARIANTS if each.exists))
RARE_SEEDS_MIN = 100  # a run of so many seeds must have reached every rare state
COVERED = {"virtual minutes": 10, "faults": 5, "acknowledgements": 2_000}  # by each mixed seed


def _run(task: tuple[int, Options]) -> Outcome:
    return run_seed(*task)


def _outcomes(seeds: list[int], options: Options, jobs: int) -> Iterator[Outcome]:
    if len(seeds) == 1:
        yield run_seed(seeds[0], options, verbose=True)
        return
    prepare()
    yield from in_processes(_run, [(seed, options) for seed in seeds], jobs)


def main() -> int:
    """Run the seeds; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--start", type=int, default=1, help="the first one")
    parser.add_argument("--seed", type=int, help="this one only, with its story")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="mixed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--counters", action="store_true", help="print all counters")
    parser.add_argument("--resume", action="store_true", help="leave out what this commit ran")
    parser.add_argument("--regressions", action="store_true", help="add the seeds that found bugs")
    args = parser.parse_args()
    options = Options(workload=args.workload)
    progress = Progress(args.workload) if args.resume else None
    seeds = _seeds(args, progress)
    if not seeds:
        print(f"nothing left to run: {progress}")
        return 0
    print(f"simulation: seeds {seeds[0]}..{seeds[-1]}, {options}", flush=True)
    began = time.monotonic()
    fewest: dict[str, int] = {}
    total: Counter[str] = Counter()
    digest = hashlib.blake2b(digest_size=8)
    virtual_s, broken, texts = 0.0, [], list[str]()
    for outcome in _outcomes(seeds, options, args.jobs):
        total.update(outcome.counters)
        if progress is not None:
            progress.add(outcome)
        covered = {**outcome.counters, "virtual minutes": int(outcome.virtual_s / 60)}
        fewest = {n: min(fewest.get(n, 1 << 30), covered.get(n, 0)) for n in COVERED}
        digest.update(outcome.event_hash.encode())
        virtual_s += outcome.virtual_s
        if outcome.violations:
            broken.append(outcome.seed)
            texts += outcome.violations
            for line in outcome.lines[-STORY_TAIL:] if len(seeds) > 1 else ():
                print(f"  {line}")
            for text in outcome.violations:
                print(f"seed {outcome.seed}: {text}", flush=True)
            print(f"replay: make simulate SEED={outcome.seed} WORKLOAD={args.workload}")
    wall_s = time.monotonic() - began
    _report(total, seeds, virtual_s, wall_s, everything=args.counters or len(seeds) == 1)
    print("invariants:", *told(total, texts), sep="\n")
    print(f"fewest in one seed: {fewest}; broken seeds: {broken or 'none'}")
    if progress is not None:
        print(progress)
    missed: list[str] = []
    if args.workload == "mixed":
        missed += [name for name in NEEDED if not total[name] and len(seeds) >= RARE_SEEDS_MIN]
        missed += [f"{n} {least}" for n, least in COVERED.items() if fewest[n] < least]
    if missed:
        print(f"never reached, so that this run proves too little: {', '.join(missed)}")
    violations = len(broken)
    print(f"seeds={len(seeds)} violations={violations} hash={digest.hexdigest()}", flush=True)
    return 1 if broken or missed else 0


def _seeds(args: argparse.Namespace, progress: Progress | None) -> list[int]:
    """Return which seeds are to run, in order."""
    if args.seed is not None:
        return [args.seed]
    seeds = list(range(args.start, args.start + args.seeds))
    if args.regressions:
        found = [each.seed for each in REGRESSIONS if each.workload == args.workload]
        seeds = [*(seed for seed in found if seed not in seeds), *seeds]
    return [seed for seed in seeds if progress is None or seed not in progress.done]


def _report(
    total: Counter[str], seeds: list[int], virtual_s: float, wall_s: float, *, everything: bool
) -> None:
    count = len(seeds)
    hours = virtual_s / 3_600
    print(f"{hours:.1f} virtual hours in {wall_s:.0f} s, {hours / wall_s * 60:.1f} a minute")
    print(
        f"per seed {virtual_s / count / 60:.1f} virtual minutes, "
        f"{total['faults'] / count:.1f} faults, "
        f"{total['acknowledgements'] / count:.0f} acknowledgements"
    )
    for name in sorted(total) if everything else RARE:
        print(f"  {total[name]:9d}  {name}")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # killed tasks must not be collected: their finally blocks would run
