"""House rules that a machine can check."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "services": "sharemesh",
    "operator": "sharemesh_operator",
    "spark": "sharemesh_spark",
}
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 80
NAMES_THAT_SAY_NOTHING = {"utils", "helpers", "misc", "manager", "base"}


def sources() -> list[Path]:
    found = [p for top, package in PACKAGES.items() for p in (ROOT / top / package).rglob("*.py")]
    return sorted(p for p in found if "sharemesh/v1" not in p.as_posix())


def tracked_texts() -> list[tuple[Path, str]]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    texts = []
    for name in filter(None, listed):
        path = ROOT / name
        if path.suffix in {".gz", ".png", ".zip", ".bin"} or not path.is_file():
            continue
        try:
            texts.append((path, path.read_text()))
        except UnicodeDecodeError:
            continue
    return texts


@pytest.mark.parametrize("top", PACKAGES)
def test_a_top_folder_holds_its_package_and_nothing_importable(top):
    # It lies on sys.path in a development install: operator/__init__.py would shadow a module.
    assert not (ROOT / top / "__init__.py").exists()
    assert not list((ROOT / top).glob("*.py"))


def test_the_standard_operator_module_stays_importable_from_the_repository_root():
    code = "import operator; assert hasattr(operator, 'itemgetter')"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_module_fits_a_sitting_and_a_function_a_screen(path):
    text = path.read_text()
    assert text.count("\n") <= MODULE_LINES_MAX, f"{path}: split it by idea"
    assert path.stem not in NAMES_THAT_SAY_NOTHING, f"{path}: name it for its one idea"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < FUNCTION_LINES_MAX, (
                f"{path}:{node.lineno} {node.name}: split it"
            )


def test_the_repository_speaks_of_the_project_alone():
    forbidden = ["/wo" + "rk/", "../sha" + "red", "/tmp/ba" + "sh_"]
    offenders = [
        f"{path.relative_to(ROOT)}: {word}"
        for path, text in tracked_texts()
        for word in forbidden
        if word in text
    ]
    assert not offenders, offenders


def test_no_leftover_markers_in_tracked_text():
    words = ["TO" + "DO", "FIX" + "ME", "XX" + "X:"]
    offenders = [
        f"{path.relative_to(ROOT)}:{number}"
        for path, text in tracked_texts()
        if path.suffix in {".py", ".md", ".toml", ".proto", ".sh"}
        for number, line in enumerate(text.splitlines(), 1)
        if any(word in line for word in words)
    ]
    assert not offenders, offenders


def test_the_layer_contract_knows_every_room():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    floors = next(c for c in contracts if c["id"] == "floors")
    placed = {room.strip() for layer in floors["layers"] for room in layer.split("|")}
    rooms = {
        p.stem
        for p in (ROOT / "services/sharemesh").iterdir()
        if (p.is_dir() and (p / "__init__.py").exists()) or p.suffix == ".py"
    } - {"__init__"}
    assert rooms == placed
