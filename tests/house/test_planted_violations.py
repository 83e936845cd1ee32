"""The checks bite: a planted violation of each kind fails the tool that should see it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture
def copy(tmp_path):
    """A copy of the sources that a violation may be planted in."""
    for name in ("services", "operator", "spark"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = ":".join(str(copy / name) for name in ("services", "operator", "spark"))
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=copy,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "HOME": str(copy)},
        check=False,
    )


LAYER_FAULTS = {
    "a domain that reads the clock": ("domain/planted_fault.py", "import time\n", "domain"),
    "a domain with an event loop": ("domain/delivery_state.py", "import asyncio\n", "domain"),
    "a service that knows a back end": (
        "share_leader/planted.py",
        "import sharemesh.backends.local.clock\n",
        "services and clients know ports",
    ),
    "a service that imports gRPC": (
        "persister/planted.py",
        "import grpc\n",
        "services and clients",
    ),
    "a service that imports a service": (
        "share_coordinator/planted.py",
        "import sharemesh.group_coordinator\n",
        "every room has one floor",
    ),
    "an import back up": (
        "ports/planted.py",
        "import sharemesh.client\n",
        "every room has one floor",
    ),
    "a new room without a floor": ("attic/__init__.py", '"""Planted."""\n', "not listed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", LAYER_FAULTS)
def test_a_planted_import_breaks_the_layer_contract(copy, fault):
    name, text, _ = LAYER_FAULTS[fault]
    path = copy / "services/sharemesh" / name
    path.parent.mkdir(exist_ok=True)
    old = path.read_text() if path.exists() else '"""Planted."""\n'
    path.write_text(old + text if "__init__" not in name else text)
    done = run(copy, "lint-imports", "--no-cache")
    assert done.returncode != 0, f"{fault} passed:\n{done.stdout}"


@pytest.mark.slow
def test_the_untouched_copy_keeps_the_contract(copy):
    done = run(copy, "lint-imports", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_planted_type_error_fails_mypy(copy):
    path = copy / "services/sharemesh/domain/delivery_state.py"
    path.write_text(path.read_text() + '\n\ndef planted() -> int:\n    return "text"\n')
    done = run(copy, "mypy", "--no-incremental", "--follow-imports=silent", str(path))
    assert done.returncode != 0
    assert "Incompatible return value" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "line",
    ["import os, sys", "import time\ntime.sleep(1)", "def no_types(a):\n    return a"],
    ids=["two imports a line", "a banned clock", "no annotations"],
)
def test_a_planted_line_fails_the_style_check(copy, line):
    path = copy / "services/sharemesh/cluster/planted.py"
    path.write_text(f'"""Planted."""\n\n{line}\n')
    done = run(copy, "ruff", "check", "--no-cache", str(path))
    assert done.returncode != 0, done.stdout
