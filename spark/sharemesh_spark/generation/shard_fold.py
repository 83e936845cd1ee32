"""Folds one shard to the rows of a generation, with the domain's fold of a sample as the proof."""

import resource
import sys
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

from sharemesh.codec.generation import arrow_schema
from sharemesh.codec.state_record import UPDATE_PREFIX, decode_record, decode_updates
from sharemesh.domain.ids import SharePartitionKey, parse_key
from sharemesh.domain.share_state.fold import (
    Floors,
    ShareState,
    content_hash,
    fold,
    fold_floors,
    fold_updates,
)
from sharemesh.domain.share_state.records import Generation, StateSnapshot, StateUpdate, Tombstone
from sharemesh_spark.fold.combine_numpy import Runs
from sharemesh_spark.fold.vector_fold import NUMBERS, FoldRows, folded, joined, no_rows, state_at
from sharemesh_spark.generation.generation_files import (
    BaseShard,
    hinted_generation,
    read_base,
    state_batch_of,
)
from sharemesh_spark.reader.data_directory import Room, ShardImage, UnreadableLogError, read_shard
from sharemesh_spark.reader.shard_windows import windows
from sharemesh_spark.reader.state_columns import (
    KIND_EPOCH_FLOOR,
    KIND_GENERATION,
    KIND_TOMBSTONE,
    StateColumns,
)
from sharemesh_spark.reader.varints import Ints

ROWS_PER_FOLD = 1_000_000
"""Rows kept before they are folded together; this bounds the memory of a task."""

RUNS_PER_ROW = 4
"""So many state batches count as a row: snapshots of large states are few rows with many."""

PROVE_ALL_BYTES = 16 * 1024 * 1024
"""In a log up to this size every share partition is proven, in a larger one a sample."""

SAMPLE_ONE_IN = 100

HELD_UPDATES_MAX = 256
"""Updates of one proven share partition that wait to be folded together, as stored."""

HELD_BYTES_MAX = 32 * 1024 * 1024
"""The same of all share partitions of a task."""

_RESTARTS_MAX = 4
_KIB = 1024


class ShardFold:
    """States and floors of a shard while its windows pass by."""

    def __init__(self, base: BaseShard | None, *, one_in: int) -> None:
        """``one_in`` is 1 to prove all share partitions, n for one of n."""
        self.floors = Floors() if base is None else base.floors
        self.records = 0
        self.pointer: Generation | None = None
        """The newest generation record that passed by."""
        self._one_in = one_in
        self._numbers_of_keys: dict[bytes, int] = {}
        self._names: list[bytes] = []
        self._sampled = np.zeros(0, dtype=bool)
        self._parts: list[FoldRows] = []
        self._waiting = 0
        self._proof: dict[SharePartitionKey, ShareState | None] = {}
        self._proven_keys: dict[bytes, SharePartitionKey] = {}
        self._held: dict[bytes, list[bytes]] = {}
        self._held_bytes = 0
        if base is not None:
            keys = self._keys(pa.array(base.names, pa.binary()))
            self._keep(replace(base.rows, key=keys))
            for row in np.flatnonzero(self._sampled[base.rows.key]).tolist():
                self._proof[parse_key(base.names[row].decode())] = state_at(base.rows, row)

    def add(self, columns: StateColumns) -> None:
        """Fold the records of one window."""
        self.records += len(columns)
        kind = columns.kind
        for row in np.flatnonzero(kind >= KIND_TOMBSTONE).tolist():
            record = decode_record(columns.key_bytes(row), columns.value_bytes(row))
            if isinstance(record, Generation):
                self.pointer = record
            elif record is not None:
                self.floors = fold_floors(self.floors, record)
        keyed = np.flatnonzero((kind != KIND_GENERATION) & (kind != KIND_EPOCH_FLOOR))
        keys = self._keys(columns.key_texts(keyed))
        self._keep(_rows(columns, keyed, keys))
        sampled = self._sampled[keys]
        self._prove(columns, keyed[sampled], keys[sampled])

    def result(self) -> tuple[list[bytes], FoldRows, list[bytes | None]]:
        """Return key texts, states and proofs (None outside the sample), by key text.

        Raises:
            UnreadableLogError: A state is missing that the domain's fold has.
        """
        for name in list(self._held):
            self._fold_held(name)
        rows = folded(joined([no_rows(), *self._parts]))
        order = sorted(range(len(rows)), key=lambda row: self._names[rows.key[row]])
        place = np.empty(len(rows), dtype=np.int64)
        place[np.array(order, dtype=np.int64)] = np.arange(len(rows))
        chosen = np.array(order, dtype=np.int64)
        runs = rows.runs
        moved = runs.selected(np.argsort(place[runs.group], kind="stable"))
        rows = FoldRows(
            rows.key[chosen],
            {name: rows.numbers[name][chosen] for name in NUMBERS},
            replace(moved, group=place[moved.group]),
        )
        names = [self._names[key] for key in rows.key.tolist()]
        proofs = [self._proof_of(name, key) for name, key in zip(names, rows.key, strict=True)]
        expected = sum(state is not None for state in self._proof.values())
        if expected != sum(bool(proof) for proof in proofs):
            raise UnreadableLogError(
                f"the vectorised fold has not the share partitions that the domain's has "
                f"({expected} of a sample); report this as a defect"
            )
        return names, rows, proofs

    def _proof_of(self, name: bytes, key: int) -> bytes | None:
        if not self._sampled[key]:
            return None
        parsed = parse_key(name.decode())
        state = self._proof.get(parsed)
        return b"" if state is None else content_hash({parsed: state}, Floors())

    def _keys(self, texts: pa.Array) -> Ints:
        """Return the numbers of keys, new ones being given the next numbers."""
        encoded = texts.dictionary_encode()
        numbers = np.empty(len(encoded.dictionary), dtype=np.int64)
        known = self._numbers_of_keys
        before = len(known)
        for index, name in enumerate(encoded.dictionary.to_pylist()):
            number = known.get(name)
            if number is None:
                number = known[name] = len(self._names)
                self._names.append(name)
            numbers[index] = number
        if len(known) > before:
            # Evenly, not by chance: the proof is a good part of the work of a task.
            new = np.arange(before, len(known)) % self._one_in == 0
            self._sampled = np.concatenate([self._sampled, new])
        result: Ints = numbers[encoded.indices.to_numpy()]
        return result

    def _keep(self, rows: FoldRows) -> None:
        self._parts.append(rows)
        self._waiting += max(len(rows), len(rows.runs) // RUNS_PER_ROW)
        if self._waiting >= ROWS_PER_FOLD:
            self._parts = [folded(joined(self._parts))]
            self._waiting = 0

    def _prove(self, columns: StateColumns, rows: Ints, keys: Ints) -> None:
        """Fold records by the domain's rules; updates many at a time, as a coordinator's load."""
        for row, number in zip(rows.tolist(), keys.tolist(), strict=True):
            name, value = self._names[number], columns.value_bytes(row)
            if value.startswith(UPDATE_PREFIX):
                held = self._held.setdefault(name, [])
                held.append(value)
                self._held_bytes += len(value)
                if len(held) >= HELD_UPDATES_MAX or self._held_bytes >= HELD_BYTES_MAX:
                    self._fold_held(name)
                continue
            self._fold_held(name)
            record = decode_record(name, value)
            if isinstance(record, StateSnapshot | StateUpdate | Tombstone):
                key = self._proven_key(name)
                self._proof[key] = fold(self._proof.get(key), record)

    def _fold_held(self, name: bytes) -> None:
        values = self._held.pop(name, None)
        if values is not None:
            self._held_bytes -= sum(map(len, values))
            key = self._proven_key(name)
            self._proof[key] = fold_updates(self._proof.get(key), decode_updates(values))

    def _proven_key(self, name: bytes) -> SharePartitionKey:
        key = self._proven_keys.get(name)
        if key is None:
            key = self._proven_keys[name] = parse_key(name.decode())
        return key


def _rows(columns: StateColumns, keyed: Ints, keys: Ints) -> FoldRows:
    batches = columns.batches
    row = np.repeat(np.arange(len(columns)), np.diff(batches.splits))
    numbers = {name: columns.numbers[name] for name in NUMBERS}
    if len(keyed) < len(columns):
        place = np.full(len(columns), -1, dtype=np.int64)
        place[keyed] = np.arange(len(keyed))
        row = place[row]  # records without a key have no batches
        numbers = {name: column[keyed] for name, column in numbers.items()}
    return FoldRows(
        keys,
        numbers,
        Runs(
            row,
            batches.first_offset,
            batches.last_offset,
            batches.delivery_state,
            batches.delivery_count,
            batches.not_before_ms,
        ),
    )


def generation_of_shard(
    data: Path, shard: int, *, one_in: int | None = None, room: Room | None = None
) -> pa.Table:
    """Return the rows of a shard in a new generation: states, then floors.

    It folds on from the newest committed generation, if there is one.

    Raises:
        UnreadableLogError: Corruption, or the log begins behind what the generation covers.
    """
    began = process_time()
    image = read_shard(data, shard, room)
    if one_in is None:
        one_in = 1 if image.size_bytes <= PROVE_ALL_BYTES else SAMPLE_ONE_IN
    base_id, fold_ = _folded_on(data, image, one_in)
    names, rows, proofs = fold_.result()
    floors = {
        "shard": shard,
        "kind": "floors",
        "state_epoch": fold_.floors.state_epoch,
        "leader_epoch": fold_.floors.leader_epoch,
        "end_offset": image.end_offset,
        "records": fold_.records,
        "log_bytes": image.size_bytes,
        "previous_generation_id": base_id,
        "task_ms": round((process_time() - began) * 1_000),
        "task_peak_bytes": peak_memory_bytes(),
    }
    return pa.Table.from_batches(
        [
            state_batch_of(shard, names, rows, proofs),
            pa.RecordBatch.from_pylist([floors], schema=arrow_schema()),
        ]
    )


def _folded_on(data: Path, image: ShardImage, one_in: int) -> tuple[str, ShardFold]:
    """Fold from the generation that the log itself names; the hint is only a first guess."""
    base_id = hinted_generation(data) if image.end_offset else ""
    for _ in range(_RESTARTS_MAX):
        base = read_base(data, base_id, image.shard) if base_id else None
        if base is not None and base.end_offset > image.end_offset:
            base_id = ""
            continue
        begin = image.start_offset if base is None else base.end_offset
        if begin < image.start_offset:
            raise UnreadableLogError(
                f"shard {image.shard}: generation {base_id} ends at {begin}, but the log begins "
                f"at {image.start_offset}: records between them are lost"
            )
        found = ShardFold(base, one_in=one_in)
        for window in windows(image, begin):
            found.add(window)
        named = "" if found.pointer is None else found.pointer.generation_id
        if named == base_id:
            return base_id, found
        base_id = named
    raise UnreadableLogError(f"shard {image.shard}: generations change faster than they are read")


def peak_memory_bytes() -> int:
    """Return the most memory that this process has had resident."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else _KIB)
