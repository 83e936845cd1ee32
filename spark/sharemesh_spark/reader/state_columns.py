"""State records of a log part as columns, each made when it is first read.

Values of which many have one shape are read as tables (``protobuf_templates``), the others are
walked field by field (``protobuf_columns``). A value in another order, with unknown fields or of no
bytes is read by the codec and written again, so that what can be read is the same as for the
coordinator.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from sharemesh.codec.state_record import (
    FORMAT_VERSION,
    UnreadableRecordError,
    decode_record,
    encode_key,
    encode_value,
)
from sharemesh.domain.share_state.records import SnapshotPart
from sharemesh.domain.share_state.snapshot_parts import SnapshotParts
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from sharemesh_spark.reader.protobuf_columns import (
    BATCH_FIELDS,
    FIELDS,
    REPEATED,
    TEXTS,
    Batches,
    Texts,
    Walked,
)
from sharemesh_spark.reader.protobuf_templates import ValueTemplates
from sharemesh_spark.reader.record_layout import RecordLayout
from sharemesh_spark.reader.varints import Bytes, Ints, Mask

KIND_SNAPSHOT = int(ShareStateRecord.KIND_SNAPSHOT)
KIND_UPDATE = int(ShareStateRecord.KIND_UPDATE)
KIND_TOMBSTONE = int(ShareStateRecord.KIND_TOMBSTONE)
KIND_GENERATION = int(ShareStateRecord.KIND_GENERATION)
KIND_EPOCH_FLOOR = int(ShareStateRecord.KIND_EPOCH_FLOOR)
KIND_NAMES = ("", "snapshot", "update", "tombstone", "generation", "epochfloor")

_INLINE_BYTES = 12
_NUMBERS = [name for name, _ in FIELDS if name not in REPEATED | TEXTS]


class UnreadableValueError(Exception):
    """A value is no state record; the message names the offset."""


class Part(Protocol):
    """Some records of a window, read in one of two ways."""

    rows: Ints
    """Their numbers in the window, ascending."""

    def number(self, name: str) -> Ints:
        """Return a number of each record."""
        ...

    def text(self, name: str) -> Texts:
        """Return where a text of each record lies."""
        ...

    def batches(self, name: str) -> Batches:
        """Return the state batches of the records."""
        ...


class _Numbers(Mapping[str, Ints]):
    """Numbers of all records of a window by name."""

    def __init__(self, parts: Sequence[Part], count: int) -> None:
        self._parts = parts
        self._count = count
        self._made: dict[str, Ints] = {}

    def __getitem__(self, name: str) -> Ints:
        found = self._made.get(name)
        if found is None:
            if name not in _NUMBERS:
                raise KeyError(name)
            each = [(part.rows, part.number(name)) for part in self._parts]
            found = self._made[name] = _together(each, self._count)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_NUMBERS)

    def __len__(self) -> int:
        return len(_NUMBERS)


class StateColumns:
    """Records of known kinds as columns; numbers that a record does not have are 0."""

    def __init__(self, buffer: Bytes, places: RecordLayout, parts: Sequence[Part]) -> None:
        """``parts`` together hold each record once."""
        self.buffer = buffer
        self.places = places
        self.numbers: Mapping[str, Ints] = _Numbers(parts, len(places))
        self._parts = parts

    def __len__(self) -> int:
        return len(self.places)

    @property
    def kind(self) -> Ints:
        """A number of ``ShareStateRecord.Kind``."""
        return self.numbers["kind"]

    @cached_property
    def batches(self) -> Batches:
        """The state batches of each record."""
        return self._batches("state_batches")

    @cached_property
    def changed(self) -> Batches:
        """What the request behind each snapshot changed."""
        return self._batches("changed_batches")

    def key_texts(self, rows: Ints) -> pa.Array:
        """Return the log keys of these records (binary view, no copy)."""
        return binary_view(self.buffer, self.places.key_at[rows], self.places.key_length[rows])

    def text(self, name: str) -> pa.Array:
        """Return a field of bytes (binary view, no copy)."""
        parts = [(part.rows, part.text(name)) for part in self._parts]
        at = _together([(rows, texts.at) for rows, texts in parts], len(self))
        length = _together([(rows, texts.length) for rows, texts in parts], len(self))
        return binary_view(self.buffer, at, length)

    def key_bytes(self, row: int) -> bytes:
        """Return the log key of one record."""
        return _slice(self.buffer, self.places.key_at[row], self.places.key_length[row])

    def value_bytes(self, row: int) -> bytes:
        """Return the value of one record."""
        return _slice(self.buffer, self.places.value_at[row], self.places.value_length[row])

    def _batches(self, name: str) -> Batches:
        parts = [(part.rows, part.batches(name)) for part in self._parts]
        if len(parts) == 1:
            return parts[0][1]
        counts = _together([(rows, np.diff(each.splits)) for rows, each in parts], len(self))
        splits = np.concatenate([[0], np.cumsum(counts)])
        # Where the batches of each part go: behind the split of their record, in their order.
        places = [
            np.repeat(splits[rows] - each.splits[:-1], np.diff(each.splits))
            + np.arange(each.splits[-1])
            for rows, each in parts
        ]
        columns = {
            column: _together(
                [
                    (place, getattr(each, column))
                    for place, (_, each) in zip(places, parts, strict=True)
                ],
                int(splits[-1]),
            )
            for column, _ in BATCH_FIELDS
        }
        return Batches(splits=splits, **columns)


def _together(parts: Sequence[tuple[Ints, Ints]], count: int) -> Ints:
    """Return what is given for some places each as one column."""
    if len(parts) == 1:
        return parts[0][1]
    result = np.empty(count, dtype=np.int64)
    for rows, values in parts:
        result[rows] = values
    return result


def state_columns(
    buffer: Bytes, places: RecordLayout, shapes: ValueTemplates | None = None
) -> StateColumns:
    """Read the values; kinds and versions that are not known here are left out (spec SC-22).

    ``shapes`` remembers what was found in earlier windows.

    Raises:
        UnreadableValueError: A value is no state record.
    """
    shapes = shapes or ValueTemplates()
    if not len(places):
        return StateColumns(buffer, places, ())
    shaped, rest = shapes.tables(buffer, places)
    parts: list[Part] = list(shaped)
    if rest.size:
        walked = Walked(buffer, places.selected(rest), rest)
        if walked.odd.size:
            buffer, places = _rewritten(buffer, places, rest[walked.odd], shapes.parts)
            walked = Walked(buffer, places.selected(rest), rest)
        if walked.odd.size:
            offset = places.offset[rest[walked.odd[0]]]
            raise UnreadableValueError(f"offset {offset}: not a state record")
        parts.append(walked)
    known = [_known(part) for part in parts]
    if all(each.all() for each in known):
        return StateColumns(buffer, places, parts)
    chosen = [part.rows[each] for part, each in zip(parts, known, strict=True)]
    return state_columns(buffer, places.selected(np.sort(np.concatenate(chosen))), shapes)


def _known(part: Part) -> Mask:
    kind = part.number("kind")
    found: Mask = (
        (kind >= KIND_SNAPSHOT)
        & (kind <= KIND_EPOCH_FLOOR)
        & (part.number("format_version") <= FORMAT_VERSION)
    )
    return found


def _rewritten(
    buffer: Bytes, places: RecordLayout, odd: Ints, parts: SnapshotParts
) -> tuple[Bytes, RecordLayout]:
    """Return a buffer and places in which the codec has written odd values again.

    The last part of a snapshot in parts becomes the whole of it, the others are left out (WIN-12).
    """
    more, starts, lengths = bytearray(), [], []
    places = replace(places, key_at=places.key_at.copy(), key_length=places.key_length.copy())
    for row in odd.tolist():
        key = _slice(buffer, places.key_at[row], places.key_length[row])
        length = int(places.value_length[row])
        value = _slice(buffer, places.value_at[row], length) if length >= 0 else None
        try:
            record = decode_record(key, value)
        except UnreadableRecordError as error:
            raise UnreadableValueError(f"offset {places.offset[row]}: {error}") from error
        if isinstance(record, SnapshotPart):
            whole = parts.take(record, int(places.offset[row]))
            record = None if whole is None else whole[0]
            if record is not None:
                name = encode_key(record)
                places.key_at[row], places.key_length[row] = buffer.size + len(more), len(name)
                more += name
        again = _UNKNOWN if record is None else encode_value(record)
        starts.append(buffer.size + len(more))
        lengths.append(len(again))
        more += again
    value_at, value_length = places.value_at.copy(), places.value_length.copy()
    value_at[odd], value_length[odd] = starts, lengths
    longer = Bytes(buffer.octets[: buffer.size].tobytes() + bytes(more))
    return longer, replace(places, value_at=value_at, value_length=value_length)


_UNKNOWN = ShareStateRecord(format_version=FORMAT_VERSION + 1).SerializeToString()


def binary_view(buffer: Bytes, at: Ints, length: Ints) -> pa.Array:
    """Return byte strings of a buffer as an Arrow array of views, without copying long ones."""
    views = np.empty((len(at), 2), dtype=np.uint64)
    front = buffer.words(at)
    short = length <= _INLINE_BYTES
    bits = np.minimum(length, 4).astype(np.uint64) * np.uint64(8)
    prefix = front & ((np.uint64(1) << bits) - np.uint64(1))
    views[:, 0] = length.astype(np.uint64) | (prefix << np.uint64(32))
    views[:, 1] = at.astype(np.uint64) << np.uint64(32)  # buffer 0
    if short.any():
        rows = np.flatnonzero(short)
        rest = np.maximum(length[rows] - 4, 0).astype(np.uint64) * np.uint64(8)
        tail = buffer.words(at[rows] + 4)
        keep = np.where(
            rest == 64,
            np.uint64(0xFFFFFFFFFFFFFFFF),
            (np.uint64(1) << (rest % np.uint64(64))) - np.uint64(1),
        )
        views[rows, 1] = tail & keep
    buffers = [None, pa.py_buffer(views), pa.py_buffer(buffer.octets)]
    return pa.Array.from_buffers(pa.binary_view(), len(at), buffers)


def _slice(buffer: Bytes, at: int, length: int) -> bytes:
    return buffer.octets[int(at) : int(at) + int(length)].tobytes()
