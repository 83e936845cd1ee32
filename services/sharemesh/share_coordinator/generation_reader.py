"""Reads generations from disk: the one room of the coordinator that knows their files (DESIGN 5).

A generation is a folder ``generations/<id>`` with ``manifest.json`` and Parquet files; it counts
only if a pointer record in the shard's own log names it. Its content must have the pointer's hash.
"""

import json
from typing import Any

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.content_hash import content_hash
from sharemesh.domain.share_state.fold import Floors, ShareState
from sharemesh.domain.share_state.records import Generation
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError

FOLDER = "generations"
MANIFEST = "manifest.json"
COMMITTED = "COMMITTED"
_NUMBERS = (
    "snapshot_epoch",
    "state_epoch",
    "leader_epoch",
    "leader_epoch_max",
    "start_offset",
    "delivery_complete_count",
    "create_timestamp_ms",
    "write_timestamp_ms",
    "initial_start_offset",
)

States = dict[SharePartitionKey, ShareState]


class GenerationReader:
    """Generations below the data directory that ``disk`` shows."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def any(self) -> bool:
        """Whether there is a folder of generations with anything in it."""
        return bool(await self._disk.run(lambda: self._disk.list(FOLDER)))

    async def hinted_end(self, shard: int) -> int | None:
        """Return where the newest generation that is marked as committed ends; a first guess."""
        return await self._disk.run(lambda: self._hinted_end(shard))

    async def read(self, pointer: Generation, shard: int) -> tuple[States, Floors]:
        """Return the content of the generation that a pointer names.

        Raises:
            CorruptLogError: Files are missing or differ from what was committed.
        """
        try:
            states, floors = await self._disk.run(lambda: self._read(pointer, shard))
        except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
            raise CorruptLogError(
                f"generation {pointer.generation_id} of shard {shard} cannot be read "
                f"({pointer.path}: {error}); restore it from a backup of the data directory",
                file=pointer.path,
            ) from error
        if content_hash(states, floors) != pointer.content_hash:
            raise CorruptLogError(
                f"generation {pointer.generation_id} of shard {shard} is not what was committed "
                f"({pointer.path}: another content hash); restore it from a backup",
                file=pointer.path,
            )
        return states, floors

    def _hinted_end(self, shard: int) -> int | None:
        for name in sorted(self._disk.list(FOLDER), reverse=True):
            if COMMITTED not in self._disk.list(f"{FOLDER}/{name}"):
                continue
            try:
                about = _shard_of(self._manifest(f"{FOLDER}/{name}/{MANIFEST}"), shard)
                return int(about["end_offset"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # only a hint: the log itself says what is committed
        return None

    def _manifest(self, path: str) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self._disk.read(path))
        return manifest

    def _read(self, pointer: Generation, shard: int) -> tuple[States, Floors]:
        import pyarrow as pa  # only needed where generations are used
        import pyarrow.parquet as pq

        about = _shard_of(self._manifest(pointer.path), shard)
        folder = pointer.path.rpartition("/")[0]
        states: States = {}
        floors = Floors()
        for name in about["files"]:
            data = self._disk.read(f"{folder}/{name}")
            for row in pq.ParquetFile(pa.BufferReader(data)).read().to_pylist():
                if row["shard"] != shard:
                    continue
                if row["kind"] == "floors":
                    floors = Floors(row["state_epoch"], row["leader_epoch"])
                else:
                    states[_key(row)] = _state(row)
        return states, floors


def _shard_of(manifest: dict[str, Any], shard: int) -> dict[str, Any]:
    about: dict[str, Any]
    [about] = [each for each in manifest["shards"] if each["shard"] == shard]
    return about


def _key(row: dict[str, Any]) -> SharePartitionKey:
    return SharePartitionKey(GroupId(row["group_id"]), TopicId(row["topic_id"]), row["partition"])


def _state(row: dict[str, Any]) -> ShareState:
    batches = tuple(
        StateBatch(each["first"], each["last"], DeliveryState(each["state"]), each["count"])
        for each in row["batches"]
    )
    return ShareState(batches=batches, **{name: row[name] for name in _NUMBERS})
