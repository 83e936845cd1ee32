"""Prints what the base install and some extras of pyproject.toml need, one requirement a line."""

import sys
import tomllib
from pathlib import Path

NEARBY = (Path(__file__).parent / "pyproject.toml", Path(__file__).parents[1] / "pyproject.toml")


def requirements(*extras: str) -> list[str]:
    """Return the requirements, without those that are extras of this project again."""
    source = next(path for path in NEARBY if path.exists())
    project = tomllib.loads(source.read_text())["project"]
    needed = list(project["dependencies"])
    for extra in extras:
        needed += project["optional-dependencies"][extra]
    return sorted({name for name in needed if not name.startswith("sharemesh")})


if __name__ == "__main__":
    print("\n".join(requirements(*sys.argv[1:])))
