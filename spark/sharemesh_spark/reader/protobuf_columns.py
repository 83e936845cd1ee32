"""State records of any form as columns: the protobuf values parsed field by field in NumPy.

All values are walked side by side: for each field, in the order in which it is written, those
that have it are read at once. Values of which many have one shape go a shorter way
(``protobuf_templates``); what this walk cannot read either is the codec's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from sharemesh.domain.share_state.records import UNKNOWN_START_OFFSET
from sharemesh.v1.common_pb2 import StateBatch
from sharemesh.v1.state_record_pb2 import ShareStateRecord
from sharemesh_spark.reader.record_layout import RecordLayout
from sharemesh_spark.reader.varints import Bytes, Ints, Words, short_varints

LENGTH_DELIMITED = 2
UNKNOWN_NUMBERS = {"initial_start_offset": UNKNOWN_START_OFFSET}
"""What a number is that a record does not have, where it is not 0."""


def _fields_of(by_number: Mapping[int, Any]) -> list[tuple[str, int]]:
    """Return names and numbers in the order in which fields are written."""
    return [(field.name, number) for number, field in sorted(by_number.items())]


def _short(by_name: Mapping[str, Any]) -> frozenset[str]:
    """Return the numbers of 32 bits: protobuf drops what is above."""
    kinds = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM)
    return frozenset(name for name, field in by_name.items() if field.cpp_type in kinds)


FIELDS = _fields_of(ShareStateRecord.DESCRIPTOR.fields_by_number)
REPEATED = frozenset({"state_batches", "changed_batches"})
TEXTS = frozenset(
    {"group_id", "topic_id", "member_id", "trace_id", "span_id", "generation", "archived"}
)
BATCH_FIELDS = _fields_of(StateBatch.DESCRIPTOR.fields_by_number)
SHORT = _short(ShareStateRecord.DESCRIPTOR.fields_by_name) | _short(
    StateBatch.DESCRIPTOR.fields_by_name
)
_BITS = np.uint64(0xFFFF)


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
    not_before_ms: Ints
    acquired_at_ms: Ints


class Walked:
    """Records of any form; every column is read when it is made."""

    def __init__(self, buffer: Bytes, places: RecordLayout, rows: Ints) -> None:
        """``rows`` are the numbers of the records in the window that they are part of.

        ``odd`` are the indexes of those that could not be read.
        """
        self.buffer = buffer
        self.rows = rows
        self.numbers: dict[str, Ints] = {}
        self.texts: dict[str, Texts] = {}
        self._batches: dict[str, Batches] = {}
        self.at = places.value_at.copy()
        self.end = places.value_at + np.maximum(places.value_length, 0)
        self._peek()
        for name, number in FIELDS:
            if name in REPEATED:
                self._batches[name] = self._repeated(number)
            elif name in TEXTS:
                self.texts[name] = self._text(number)
            else:
                self.numbers[name] = self._number(name, number)
        # An empty value is nothing that this project writes; the codec has the last word on it.
        self.odd = np.flatnonzero((self.at != self.end) | (places.value_length <= 0))

    def number(self, name: str) -> Ints:
        """Return a number of each record."""
        return self.numbers[name]

    def text(self, name: str) -> Texts:
        """Return where a text of each record lies."""
        return self.texts[name]

    def batches(self, name: str) -> Batches:
        """Return the state batches of the records."""
        return self._batches[name]

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
        missing = UNKNOWN_NUMBERS.get(name, 0)
        if rows.size == 0:
            return np.full(len(self.at), missing, dtype=np.int64)
        if rows.size == len(self.at):
            values, self.at = self._varints(self.at, self.words, tag_bytes)
            self._peek()
            return _number_of(name, values)
        values, at = self._varints(self.at[rows], self.words[rows], tag_bytes)
        result = np.full(len(self.at), missing, dtype=np.int64)
        result[rows] = _number_of(name, values)
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
        rows, tag_bytes = self._having(number, LENGTH_DELIMITED)
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
            rows, tag_bytes = self._having(number, LENGTH_DELIMITED)
            if rows.size == 0:
                break
            bodies, lengths = self._delimited(rows, tag_bytes)
            found.append((rows, bodies, lengths))
        if not found:
            nothing = np.zeros(0, dtype=np.int64)
            splits = np.zeros(len(self.at) + 1, dtype=np.int64)
            return Batches(splits, *[nothing] * len(BATCH_FIELDS))
        rows, bodies, lengths = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=len(self.at))
        splits = np.concatenate([[0], np.cumsum(counts)])
        return self._inner(splits, rows[order], bodies[order], lengths[order])

    def _inner(self, splits: Ints, rows: Ints, bodies: Ints, lengths: Ints) -> Batches:
        outer_at, outer_end = self.at, self.end
        self.at, self.end = bodies, bodies + lengths
        self._peek()
        numbers = [self._number(name, number) for name, number in BATCH_FIELDS]
        odd = rows[self.at != self.end]
        self.at, self.end = outer_at, outer_end
        self.at[odd] = -1  # an odd batch makes its record odd
        self._peek()
        return Batches(splits, *numbers)


def _number_of(name: str, values: Words) -> Ints:
    found = values.view(np.int64)
    return found.astype(np.int32).astype(np.int64) if name in SHORT else found
