"""Programs of Debian that a test needs: installed where there are none, as root."""

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import TypeVar

import pytest

_INSTALL_TIMEOUT_S = 300
Found = TypeVar("Found")


def found_or_installed(package: str, find: Callable[[], Found | None]) -> Found:
    """Return what ``find`` does; installs the package first if need be.

    Where it can neither be found nor installed the test is skipped, except in CI.
    """
    found = find()
    if found is None and os.getuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        for command in (["apt-get", "update", "-qq"], install):
            subprocess.run(
                command,
                check=True,
                env=quiet,
                timeout=_INSTALL_TIMEOUT_S,
                stdout=subprocess.DEVNULL,
            )
        found = find()
    if found is None:
        reason = f"this needs programs that are not here: install Debian's package {package}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason} (as root: apt-get install {package})")
        pytest.skip(reason)
    return found
