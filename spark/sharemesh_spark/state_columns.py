"""State records of a log part as columns: the protobuf values parsed field by field in NumPy.

All values are walked side by side: for each field, in the order in which it is written, those
that have it are read at once. A value in another order, with unknown fields or of no bytes is
read by the codec and written anew, so that what can be read is the same as for the coordinator.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sharemesh.codec.state_record import (
    FORMAT_VERSION,
    UnreadableRecordError,
    decode_record,
    encode_value,
)
from sharemesh.domain.share_state.records import UNKNOWN_START_OFFSET
from sharemesh.v1.common_pb2 import StateBatch
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from sharemesh_spark.record_places import RecordPlaces
from sharemesh_spark.varints import Bytes, Ints, Words, short_varints

KIND_SNAPSHOT = int(ShareStateRecord.KIND_SNAPSHOT)
KIND_UPDATE = int(ShareStateRecord.KIND_UPDATE)
KIND_TOMBSTONE = int(ShareStateRecord.KIND_TOMBSTONE)
KIND_GENERATION = int(ShareStateRecord.KIND_GENERATION)
KIND_EPOCH_FLOOR = int(ShareStateRecord.KIND_EPOCH_FLOOR)
KIND_NAMES = ("", "snapshot", "update", "tombstone", "generation", "epochfloor")

_LENGTH_DELIMITED = 2


def _fields_of(by_number: Mapping[int, Any]) -> list[tuple[str, int]]:
    """Return names and numbers in the order in which fields are written."""
    return [(field.name, number) for number, field in sorted(by_number.items())]


_FIELDS = _fields_of(ShareStateRecord.DESCRIPTOR.fields_by_number)
_REPEATED = frozenset({"state_batches", "changed_batches"})
_TEXTS = frozenset({"group_id", "topic_id", "member_id", "trace_id", "span_id", "generation"})
_BATCH_FIELDS = _fields_of(StateBatch.DESCRIPTOR.fields_by_number)
_BITS = np.uint64(0xFFFF)
_INLINE_BYTES = 12


class UnreadableValueError(Exception):
    """A value is no state record; the message names the offset."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Byte strings within a buffer, one a record; absent ones have the length 0."""

    at: Ints
    length: Ints


@dataclass(frozen=True, slots=True)
class Batches:
    """State batches of all records, in order: those of record n are [splits[n], splits[n+1])."""

    splits: Ints
    first_offset: Ints
    last_offset: Ints
    delivery_state: Ints
    delivery_count: Ints
    cause: Ints


@dataclass(frozen=True, slots=True)
class StateColumns:
    """Records of known kinds as columns; numbers that a record does not have are 0."""

    buffer: Bytes
    places: RecordPlaces
    numbers: dict[str, Ints]
    texts: dict[str, Texts]
    batches: Batches
    changed: Batches

    def __len__(self) -> int:
        return len(self.places)

    @property
    def kind(self) -> Ints:
        """A number of ``ShareStateRecord.Kind``."""
        return self.numbers["kind"]

    def key_texts(self, rows: Ints) -> pa.Array:
        """Return the log keys of these records (binary view, no copy)."""
        return binary_view(self.buffer, self.places.key_at[rows], self.places.key_length[rows])

    def text(self, name: str) -> pa.Array:
        """Return a field of bytes (binary view, no copy)."""
        texts = self.texts[name]
        return binary_view(self.buffer, texts.at, texts.length)

    def key_bytes(self, row: int) -> bytes:
        """Return the log key of one record."""
        return _slice(self.buffer, self.places.key_at[row], self.places.key_length[row])

    def value_bytes(self, row: int) -> bytes:
        """Return the value of one record."""
        return _slice(self.buffer, self.places.value_at[row], self.places.value_length[row])


def state_columns(buffer: Bytes, places: RecordPlaces) -> StateColumns:
    """Parse the values; kinds and versions that are not known here are left out (spec SC-22).

    Raises:
        UnreadableValueError: A value is no state record.
    """
    parsed = _Parsed(buffer, places)
    if parsed.odd.size:
        buffer, places = _rewritten(buffer, places, parsed.odd)
        parsed = _Parsed(buffer, places)
    if parsed.odd.size:
        raise UnreadableValueError(f"offset {places.offset[parsed.odd[0]]}: not a state record")
    kind = parsed.numbers["kind"]
    known = (
        (kind >= KIND_SNAPSHOT)
        & (kind <= KIND_EPOCH_FLOOR)
        & (parsed.numbers["format_version"] <= FORMAT_VERSION)
    )
    if known.all():
        return parsed.columns()
    chosen = np.flatnonzero(known)
    return state_columns(buffer, places.selected(chosen))


class _Parsed:
    def __init__(self, buffer: Bytes, places: RecordPlaces) -> None:
        self.buffer = buffer
        self.places = places
        self.numbers: dict[str, Ints] = {}
        self.texts: dict[str, Texts] = {}
        self._batches: dict[str, Batches] = {}
        self.at = places.value_at.copy()
        self.end = places.value_at + np.maximum(places.value_length, 0)
        self._peek()
        for name, number in _FIELDS:
            if name in _REPEATED:
                self._batches[name] = self._repeated(number)
            elif name in _TEXTS:
                self.texts[name] = self._text(number)
            else:
                self.numbers[name] = self._number(name, number)
        # An empty value is nothing that this project writes; the codec has the last word on it.
        self.odd = np.flatnonzero((self.at != self.end) | (places.value_length <= 0))

    def columns(self) -> StateColumns:
        return StateColumns(
            self.buffer,
            self.places,
            self.numbers,
            self.texts,
            self._batches["state_batches"],
            self._batches["changed_batches"],
        )

    def _peek(self) -> None:
        """Look at the next eight bytes of each value: a tag, and mostly all of a number."""
        self.words = self.buffer.words(self.at)
        self.ahead = self.words & _BITS
        ended = self.at >= self.end
        if ended.any():
            self.ahead[ended] = 0

    def _having(self, number: int, wire_type: int) -> tuple[Ints, int]:
        tag = number << 3 | wire_type
        if tag < 0x80:
            return np.flatnonzero((self.ahead & np.uint64(0xFF)) == np.uint64(tag)), 1
        wire = np.uint64(tag & 0x7F | 0x80 | (tag >> 7) << 8)
        return np.flatnonzero(self.ahead == wire), 2

    def _number(self, name: str, number: int) -> Ints:
        rows, tag_bytes = self._having(number, 0)
        missing = UNKNOWN_START_OFFSET if name == "initial_start_offset" else 0
        if rows.size == 0:
            return np.full(len(self.at), missing, dtype=np.int64)
        if rows.size == len(self.at):
            values, self.at = self._varints(self.at, self.words, tag_bytes)
            self._peek()
            return values.view(np.int64)
        values, at = self._varints(self.at[rows], self.words[rows], tag_bytes)
        result = np.full(len(self.at), missing, dtype=np.int64)
        result[rows] = values.view(np.int64)
        self.at[rows] = at
        self._peek()
        return result

    def _varints(self, at: Ints, words: Words, tag_bytes: int) -> tuple[Words, Ints]:
        """Return the numbers behind the tags, and where they end."""
        behind = words >> np.uint64(8 * tag_bytes)
        short = short_varints(behind)
        if short is None:
            return self.buffer.varints(at + tag_bytes)
        values, lengths = short
        return values, at + (lengths + tag_bytes)

    def _text(self, number: int) -> Texts:
        at = np.zeros(len(self.at), dtype=np.int64)
        length = np.zeros(len(self.at), dtype=np.int64)
        rows, tag_bytes = self._having(number, _LENGTH_DELIMITED)
        if rows.size:
            at[rows], length[rows] = self._delimited(rows, tag_bytes)
        return Texts(at, length)

    def _delimited(self, rows: Ints, tag_bytes: int) -> tuple[Ints, Ints]:
        sizes, bodies = self._varints(self.at[rows], self.words[rows], tag_bytes)
        # A length beyond the value leaves the cursor behind its end, which makes the row odd.
        lengths = np.minimum(sizes, np.uint64(self.buffer.size)).astype(np.int64)
        self.at[rows] = bodies + lengths
        self._peek()
        return bodies, lengths

    def _repeated(self, number: int) -> Batches:
        found: list[tuple[Ints, Ints, Ints]] = []
        while True:
            rows, tag_bytes = self._having(number, _LENGTH_DELIMITED)
            if rows.size == 0:
                break
            bodies, lengths = self._delimited(rows, tag_bytes)
            found.append((rows, bodies, lengths))
        if not found:
            nothing = np.zeros(0, dtype=np.int64)
            splits = np.zeros(len(self.at) + 1, dtype=np.int64)
            return Batches(splits, nothing, nothing, nothing, nothing, nothing)
        rows, bodies, lengths = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=len(self.at))
        splits = np.concatenate([[0], np.cumsum(counts)])
        return self._inner(splits, rows[order], bodies[order], lengths[order])

    def _inner(self, splits: Ints, rows: Ints, bodies: Ints, lengths: Ints) -> Batches:
        outer_at, outer_end = self.at, self.end
        self.at, self.end = bodies, bodies + lengths
        self._peek()
        numbers = [self._number(name, number) for name, number in _BATCH_FIELDS]
        odd = rows[self.at != self.end]
        self.at, self.end = outer_at, outer_end
        self.at[odd] = -1  # an odd batch makes its record odd
        self._peek()
        return Batches(splits, *numbers)


def _rewritten(buffer: Bytes, places: RecordPlaces, odd: Ints) -> tuple[Bytes, RecordPlaces]:
    """Return a buffer and places in which the codec has written odd values anew."""
    more, starts, lengths = bytearray(), [], []
    for row in odd.tolist():
        key = _slice(buffer, places.key_at[row], places.key_length[row])
        length = int(places.value_length[row])
        value = _slice(buffer, places.value_at[row], length) if length >= 0 else None
        try:
            record = decode_record(key, value)
        except UnreadableRecordError as error:
            raise UnreadableValueError(f"offset {places.offset[row]}: {error}") from error
        anew = _UNKNOWN if record is None else encode_value(record)
        starts.append(buffer.size + len(more))
        lengths.append(len(anew))
        more += anew
    value_at, value_length = places.value_at.copy(), places.value_length.copy()
    value_at[odd], value_length[odd] = starts, lengths
    longer = Bytes(buffer.octets[: buffer.size].tobytes() + bytes(more))
    return longer, RecordPlaces(
        places.offset,
        places.timestamp_ms,
        places.key_at,
        places.key_length,
        value_at,
        value_length,
    )


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
