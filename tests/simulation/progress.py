"""Seeds that were run at one commit: what a long run leaves for the next one to go on from."""

import json
import subprocess
from pathlib import Path

from tests.simulation.run import Outcome

FOLDER = Path("build/simulation")


def commit() -> str:
    """Return the commit of the work tree, with a mark if something in it is not committed."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return f"{head}-changed" if changed else head


def _git(*arguments: str) -> str:
    result = subprocess.run(
        ["git", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.strip() or ("unknown" if result.returncode else "")


class Progress:
    """One line of JSON a seed in ``build/simulation/COMMIT-WORKLOAD.jsonl``."""

    def __init__(self, workload: str) -> None:
        self.path = FOLDER / f"{commit()}-{workload}.jsonl"
        self.done: dict[int, bool] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                entry = json.loads(line)
                self.done[entry["seed"]] = not entry["violations"]

    def add(self, outcome: Outcome) -> None:
        """Keep the outcome of a seed."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.done[outcome.seed] = not outcome.violations
        entry = {
            "seed": outcome.seed,
            "violations": list(outcome.violations),
            "hash": outcome.event_hash,
        }
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def __str__(self) -> str:
        bad = sorted(seed for seed, clean in self.done.items() if not clean)
        return f"{self.path}: {len(self.done)} seeds, violations in {bad or 'none'}"
