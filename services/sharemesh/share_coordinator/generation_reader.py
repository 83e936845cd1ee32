"""Reads generations from disk: the one room of the coordinator that knows their files (LOG-19).

A generation is a folder ``generations/<id>`` with ``manifest.json`` and Parquet files; it counts
only if a pointer record in the shard's own log names it. Its content must have the pointer's hash.
"""

import json
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.content_hash import NUMBERS, content_hash
from sharemesh.domain.share_state.fold import Floors, ShareState
from sharemesh.domain.share_state.records import Generation
from sharemesh.domain.state_batch import StateBatch
from sharemesh.ports.disk import Disk
from sharemesh.ports.shard_log import CorruptLogError

FOLDER = "generations"
MANIFEST = "manifest.json"
COMMITTED = "COMMITTED"
if TYPE_CHECKING:
    import pyarrow as pa

_UNSPECIFIED = Cause.UNSPECIFIED
_STATES_BY_NUMBER = {int(state): state for state in DeliveryState}

_KEY = ("group_id", "topic_id", "partition")

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
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        about = _shard_of(self._manifest(pointer.path), shard)
        folder = pointer.path.rpartition("/")[0]
        states: States = {}
        floors = Floors()
        for name in about["files"]:
            data = self._disk.read(f"{folder}/{name}")
            table = pq.ParquetFile(pa.BufferReader(data)).read()
            own = table.filter(pc.equal(table["shard"], shard))
            is_state = pc.equal(own["kind"], "state")
            for row in own.filter(pc.invert(is_state)).to_pylist():
                floors = Floors(row["state_epoch"], row["leader_epoch"])
            states.update(_states(own.filter(is_state).combine_chunks()))
        return states, floors


def _shard_of(manifest: dict[str, Any], shard: int) -> dict[str, Any]:
    about: dict[str, Any]
    [about] = [each for each in manifest["shards"] if each["shard"] == shard]
    return about


def _states(table: "pa.Table") -> Iterator[tuple[SharePartitionKey, ShareState]]:
    """Yield the states of a table, column by column: row by row takes five times as long."""
    keys = zip(*(table[name].to_pylist() for name in _KEY), strict=True)
    numbers = zip(*(table[name].to_pylist() for name in NUMBERS), strict=True)
    splits, batches = _batches(table)
    for row, ((group_id, topic_id, partition), values) in enumerate(
        zip(keys, numbers, strict=True)
    ):
        state = ShareState(
            batches=tuple(batches[splits[row] : splits[row + 1]]),
            **dict(zip(NUMBERS, values, strict=True)),
        )
        yield SharePartitionKey(GroupId(group_id), TopicId(topic_id), partition), state


def _batches(table: "pa.Table") -> tuple[list[int], list[StateBatch]]:
    """Return all batches of a table, and where those of each row begin."""
    splits = [0]
    made: list[StateBatch] = []
    for chunk in table["batches"].chunks:
        base = splits[-1] - chunk.offsets[0].as_py() if len(chunk) else 0
        splits += [base + offset for offset in chunk.offsets.to_pylist()[1:]]
        fields = chunk.flatten()
        first, last, number, count = (
            _integers(fields.field(name)) for name in ("first", "last", "state", "count")
        )
        states = map(_STATES_BY_NUMBER.__getitem__, number)
        made += map(StateBatch._make, zip(first, last, states, count, repeat(_UNSPECIFIED)))
    return splits, made


def _integers(column: "pa.Array") -> list[int]:
    """Return the values of an Arrow array of integers without nulls, straight out of its buffer."""
    if column.null_count:
        raise ValueError("a state batch has a field without a value")
    if not len(column):
        return []
    kind: Literal["i", "q"] = "q" if column.type.bit_width == 64 else "i"
    values = memoryview(column.buffers()[1]).cast("B").cast(kind)
    return list(values[column.offset : column.offset + len(column)])
