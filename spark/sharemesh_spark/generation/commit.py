"""Commits a generation, shard by shard, through `ShareCoordinator.CommitGeneration` (DESIGN 5)."""

from collections.abc import Callable, Mapping
from pathlib import Path

from sharemesh_spark.cluster_calls import Request, Response
from sharemesh_spark.generation.generation_files import FOLDER, MANIFEST, Manifest, mark_committed

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
