"""Paths of the repository that pages name exist; dated reports may name what was there then."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reports"),
]
TOP = "services|operator|spark|tests|deploy|charts|examples|images|protos|docs|requirements"
PATH = re.compile(rf"`((?:(?:{TOP})/[\w./*-]*\w\*?|\w+(?:/\w+)+\.py))/?(?:::\w+)?`")
"""From the top, or the last part of the path of a module: `serve/run.py`."""
PACKAGES = ("", "services/sharemesh/", "operator/", "spark/", "tests/")


@cache
def tracked() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(listed.stdout.splitlines())


def exists(path: str) -> bool:
    if "*" in path:
        return any(Path(each).match(path) for each in tracked())
    return any(
        each == path or each.startswith(f"{path}/") or each.endswith(f"/{path}")
        for each in tracked()
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_path_that_a_page_names_exists(page):
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    assert [path for path in sorted(named) if not exists(path)] == []


def test_a_path_that_does_not_exist_is_found():
    assert exists("tests/docs")
    assert exists("charts/*/values.yaml")
    assert not exists("services/sharemesh/nothing.py")
    assert len([path for page in PAGES for path in PATH.findall(page.read_text())]) > 30


def rooms() -> list[tuple[str, str]]:
    """Return each room of ARCHITECTURE with each file where one starts to read it."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("| room | what it is for | where to start reading |\n")[2].partition(
        "\n\n"
    )[0]
    cells = [line.strip("|").split(" | ") for line in table.splitlines()[1:]]
    return [
        (room, file)
        for rooms, _, start in cells
        for file in re.findall(r"`([\w./*]+)`", start)
        for room in [" ".join(re.findall(r"`([\w./]+)`", rooms))]
        if file != "up"
    ]


@pytest.mark.parametrize(("room", "file"), rooms())
def test_a_room_has_the_file_where_one_starts_to_read(room, file):
    places = tuple(f"{package}{each.rstrip('/')}/" for each in room.split() for package in PACKAGES)
    found = [each for each in tracked() if each.startswith(places) and Path(each).match(file)]
    assert found or exists(file)
