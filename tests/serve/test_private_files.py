"""BND-4: what a cluster writes is its user's alone, whatever the umask and the directory were."""

import asyncio
import logging
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sharemesh.backends.local.disk import SystemDisk
from sharemesh.serve.supervise.data_directory import close_to_others, make_writable
from tests.faults.trials import ROOT

READY_TIMEOUT_S = 60


def open_to_others(root: Path) -> list[str]:
    """Return what below the directory somebody else could use, with its mode."""
    return [
        f"{path.relative_to(root.parent)} {stat.S_IMODE(path.stat().st_mode):o}"
        for path in (root, *sorted(root.rglob("*")))
        if path.stat().st_mode & 0o077
    ]


@pytest.fixture
def wide_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("wide_umask")
def test_bnd_4_a_disk_makes_files_and_directories_private_by_itself(tmp_path):
    disk = SystemDisk(tmp_path / "data")
    disk.make_directory("a/b")
    disk.create("a/b/segment").append(b"x")
    disk.open_slots("a/slots", 16)
    disk.write_small("small", b"x")
    disk.close()
    make_writable(tmp_path / "other")
    assert open_to_others(tmp_path / "data") == []
    assert open_to_others(tmp_path / "other") == []


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o750), (0o2777, 0o2770), (0o700, 0o700)])
def test_bnd_4_a_directory_that_others_could_enter_is_closed_to_them(tmp_path, before, after):
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(before)
    close_to_others(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == after


def test_bnd_4_a_directory_that_cannot_be_closed_is_told(tmp_path, monkeypatch, caplog):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refused)
    caplog.set_level(logging.WARNING)
    close_to_others(directory)
    assert f"chmod o= {directory}" in caplog.text


@pytest.mark.slow
async def test_bnd_4_a_process_under_a_wide_umask_writes_nothing_that_others_may_read(tmp_path):
    data = tmp_path / "data"
    command = [
        sys.executable,
        "-m",
        "sharemesh.serve",
        "--listen-port=0",
        f"--data-directory={data}",
        f"--trace-directory={data / 'traces'}",
    ]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, umask=0, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = b""
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            while b"ready" not in said:
                line = await process.stdout.readline()
                assert line, said.decode()
                said += line
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert len(list(data.rglob("*"))) > 5
    assert open_to_others(data) == []
