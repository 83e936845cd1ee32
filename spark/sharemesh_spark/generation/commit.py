"""Commits a generation shard by shard (CommitGeneration), and removes what others left."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from sharemesh_spark.cluster_calls import Request, Response
from sharemesh_spark.generation.generation_files import FOLDER, MANIFEST, Manifest, mark_committed

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


Commit = Callable[[Request], Response]


class NotCommittedError(Exception):
    """A coordinator refused the generation; the older one stays valid in its shard."""


def commit(
    data: Path, manifest: Manifest, ask: Commit, *, history: Mapping[int, int] | None = None
) -> list[int]:
    """Commit every shard that holds anything, in order, and return which ones those are.

    The first shard decides between two jobs at once: the second one is refused there and stops,
    so that generations do not interleave.

    Args:
        data: The data directory.
        manifest: Of a generation that is published and proven.
        ask: Sends a request to the coordinator of its shard.
        history: How far the history table has come, by shard; shards left out have none.

    Raises:
        NotCommittedError: The message says what the coordinator said.
    """
    done: list[int] = []
    for shard in manifest.shards:
        if shard.end_offset == 0:
            continue
        request = Request(
            shard=shard.shard,
            generation_id=manifest.generation_id,
            previous_generation_id=shard.previous_generation_id,
            end_offset=shard.end_offset,
            path=f"{FOLDER}/{manifest.generation_id}/{MANIFEST}",
            content_hash=bytes.fromhex(shard.content_hash),
            format_version=manifest.format_version,
        )
        if history is not None and shard.shard in history:
            request.history_end_offset = history[shard.shard]
        answer = ask(request)
        if answer.error_code:
            raise NotCommittedError(
                f"shard {shard.shard}: {answer.error_message} (error {answer.error_code}); "
                f"shards {done or 'none'} were committed before"
            )
        done.append(shard.shard)
    if done:
        mark_committed(data, manifest.generation_id)
    return done
