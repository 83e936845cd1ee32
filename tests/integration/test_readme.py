"""The README's shortest useful path, pasted line by line against a cluster of real processes."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from sharemesh.serve.settings.settings import UpSettings
from tests.cli.local_up import local_up

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PATH_SECTION = README.partition("## The shortest useful path")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PATH_SECTION, re.MULTILINE | re.DOTALL)
SHELL = [text for language, text in BLOCKS if not language]
PYTHON = [text for language, text in BLOCKS if language == "python"]
ACTIVATE = ". .venv/bin/activate"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with local_up(tmp_path_factory.mktemp("readme") / "data") as up:
        yield up


def run(up, command: list[str], directory: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": path, "SHAREMESH_BOOTSTRAP": up.bootstrap},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_shell_lines_and_python_do_what_the_text_says(up, tmp_path) -> None:
    start, use = SHELL
    assert start.splitlines() == [ACTIVATE, "sharemesh up"], "local_up stands for this block"
    lines = use.splitlines()
    assert lines[0] == ACTIVATE, "the tests' own environment stands for this line"
    out = [run(up, ["bash", "-euo", "pipefail", "-c", line], tmp_path) for line in lines[1:]]
    created, produced, consumed, described, cluster = out
    assert "orders created with 4 partitions" in created
    assert "2 records confirmed" in produced
    assert sorted(consumed.splitlines()) == [
        '{"id": "a1", "amount": 10}',
        '{"id": "b2", "amount": 20}',
    ]
    assert "group billing" in described
    assert "orders" in described
    assert cluster.count("running") == 8

    (script,) = PYTHON
    said = run(
        up, [sys.executable, "-c", script.replace(default_address(), up.bootstrap)], tmp_path
    )
    assert said == 'b\'{"id": "c3", "amount": 30}\' 1\n'


def default_address() -> str:
    defaults = {field.name: field.default for field in fields(UpSettings)}
    return f"{defaults['host']}:{defaults['base_port']}"


def test_the_address_in_the_python_text_is_where_up_listens() -> None:
    addresses = re.findall(r"127\.0\.0\.1:\d+|localhost:\d+", README)
    assert set(addresses) == {default_address()}


def test_every_file_that_the_readme_names_is_there() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
