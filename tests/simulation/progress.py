"""Seeds that were run at one commit: what a long run leaves for the next one to go on from."""

import json
import subprocess
from collections import Counter
from pathlib import Path

from tests.simulation.run import Outcome
from tests.simulation.world import Options

FOLDER = Path("build/simulation")


class NoCommitError(Exception):
    """Outcomes belong to a commit, and the work tree is not at one."""


def commit() -> str:
    """Return the commit of the work tree.

    Raises:
        NoCommitError: This is no work tree, or something in it is not committed: then seeds that
            were run before would count for code that they never saw.
    """
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    if changed:
        first = changed.splitlines()[0].strip()
        raise NoCommitError(
            f"seeds are resumed by commit, and the tree at {head} has changes ({first}): commit "
            "them, or run without RESUME=1 (--resume)"
        )
    return head


def _git(*arguments: str) -> str:
    try:
        result = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoCommitError(
            f"seeds are resumed by commit, and git does not tell it ({error}): run in a clone, or "
            "without RESUME=1 (--resume)"
        ) from error
    return result.stdout.strip()


class Progress:
    """One line of JSON a seed in ``build/simulation/COMMIT-WORKLOAD.jsonl``."""

    def __init__(self, options: Options) -> None:
        engine = "" if options.engine == "embedded" else f"{options.engine}-"
        self.path = FOLDER / f"{commit()}-{engine}{options.workload}.jsonl"
        self.done: dict[int, Outcome] = {}
        if self.path.exists():
            with self.path.open("r+b") as file:
                whole, ended, _torn = file.read().rpartition(b"\n")
                file.truncate(len(whole) + len(ended))  # a killed run may have torn the last line
            for line in whole.splitlines():
                outcome = _read(line)
                self.done[outcome.seed] = outcome

    def add(self, outcome: Outcome) -> None:
        """Keep the outcome of a seed."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.done[outcome.seed] = outcome
        entry = {
            "seed": outcome.seed,
            "violations": list(outcome.violations),
            "hash": outcome.event_hash,
            "virtual_s": outcome.virtual_s,
            "counters": outcome.counters,
        }
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def _read(line: bytes) -> Outcome:
    entry = json.loads(line)
    return Outcome(
        seed=entry["seed"],
        violations=tuple(entry["violations"]),
        event_hash=entry["hash"],
        counters=Counter(entry["counters"]),
        virtual_s=entry["virtual_s"],
    )
