"""`python -m deploy.lock`: requirements/*.lock, every package that is installed, with its hashes.

`make setup` and the images install by these files and by nothing else. One resolution holds for
every platform and every supported Python; setup.lock is resolved first, and the others take their
versions from it.
"""

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
OLDEST_PYTHON = "3.11"


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock file: the base install with some extras and dependency groups."""

    name: str
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    base: bool = True
    """Whether the dependencies of the base install are in it, too."""

    @property
    def path(self) -> Path:
        """Where it is."""
        return FOLDER / f"{self.name}.lock"


ALL = Lock("setup", extras=("demo", "operator", "docs"), groups=("dev",))
LOCKS = (
    ALL,
    Lock("build", groups=("build",), base=False),
    Lock("jre", extras=("jre",)),
    Lock("audit", groups=("audit",), base=False),
    Lock("sharemesh", extras=("server", "operator")),
    Lock("sharemesh-spark", extras=("server", "spark")),
)


def command(lock: Lock, *, upgrade: bool) -> list[str]:
    """Return uv's command line for a lock file."""
    return [
        *(str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet"),
        *("--universal", "--python-version", OLDEST_PYTHON, "--fork-strategy", "fewest"),
        *("--generate-hashes", "--custom-compile-command", "make lock"),
        *(word for extra in lock.extras for word in ("--extra", extra)),
        *(word for group in lock.groups for word in ("--group", group)),
        *("--output-file", str(lock.path.relative_to(ROOT))),
        *(("--upgrade",) if upgrade else ()),
        *(("pyproject.toml",) if lock.base else ()),
    ]


def main() -> int:
    """Write all lock files."""
    parser = argparse.ArgumentParser(prog="python -m deploy.lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest that fits")
    args = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for lock in LOCKS:
        if lock is not ALL:  # uv prefers the versions that stand in the file it writes
            shutil.copyfile(ALL.path, lock.path)
        subprocess.run(
            command(lock, upgrade=args.upgrade and lock is ALL),
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        print(lock.path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
