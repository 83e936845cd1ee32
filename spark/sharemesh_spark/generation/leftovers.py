"""Folders that killed runs left half written: later runs remove them once they are old."""

import os
import shutil
from pathlib import Path

UNFINISHED = ".new"
"""How the names of folders end that are being written."""

LEFT_AFTER_S = 24 * 60 * 60
"""A folder in which nothing changed for so long is of no run that goes on."""


def remove_leftovers(folder: Path, *, now_s: float) -> int:
    """Remove the unfinished folders directly below ``folder`` that nobody writes any more.

    Should one be of a run that slept for so long, then that run cannot publish it.

    Args:
        folder: Where runs write; it need not exist.
        now_s: The time, in seconds since the epoch.

    Returns:
        How many folders were removed.
    """
    left = [
        path
        for path in sorted(folder.glob(f"*{UNFINISHED}"))
        if path.is_dir() and now_s - _last_change_s(path) > LEFT_AFTER_S
    ]
    for path in left:
        shutil.rmtree(path, ignore_errors=True)  # another run may be at it too
    return len(left)


def _last_change_s(folder: Path) -> float:
    """Return when anything in a folder changed last, in seconds since the epoch."""
    found = 0.0
    for parent, _, files in os.walk(folder):
        for name in (".", *files):
            try:
                found = max(found, (Path(parent) / name).stat().st_mtime)
            except FileNotFoundError:  # renamed or removed meanwhile, a file by the run itself
                continue
    return found
