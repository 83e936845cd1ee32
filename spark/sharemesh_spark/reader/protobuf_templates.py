"""Values of one shape as a table: the same fields, each of the same length, so strided columns.

A log has few shapes: tags, lengths and the lengths of numbers differ seldom, texts and numbers
differ always. A shape is learnt from one value, byte by byte; the others of its length are held
against it eight bytes at a time, so each byte that says what follows is checked in each value.
Then a field is a column of bytes, read only on demand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sharemesh.domain.share_state.snapshot_parts import SnapshotParts
from sharemesh_spark.reader.protobuf_columns import (
    BATCH_FIELDS,
    FIELDS,
    LENGTH_DELIMITED,
    REPEATED,
    SHORT,
    TEXTS,
    UNKNOWN_NUMBERS,
    Batches,
    Texts,
)
from sharemesh_spark.reader.record_layout import RecordLayout
from sharemesh_spark.reader.varints import Bytes, Ints, Mask, Words

ROWS_MIN = 8
"""Fewer values of one shape are read faster field by field, with the others."""

SHAPES_OF_LENGTH_MAX = 24
"""Shapes remembered for one length; a log with more is read field by field beyond them."""

VALUE_BYTES_MAX = 1_024
_WORD = 8
_BLOCK_ROWS = 1_024  # what is made on the way stays in the first caches
_LONGEST = 10
_LONG_OF_32 = 5
_NAMES = {number: name for name, number in FIELDS}
_BATCH_NAMES = {number: name for name, number in BATCH_FIELDS}
_FIXED = frozenset({"kind", "format_version"})
_LOW_BITS = (1 << 64) - 1
_NOTHING: Ints = np.zeros(0, dtype=np.int64)

Table = npt.NDArray[np.uint8]


class FieldPlace(NamedTuple):
    """Bytes of a value; ``constant`` is the number there if it is part of the shape."""

    at: int
    length: int
    constant: int | None = None


class _IrregularError(Exception):
    """The value is not as this project writes it; others read it."""


@dataclass(frozen=True, slots=True)
class ValueTemplate:
    """Where fields lie in values of one shape, and which bits make the shape."""

    numbers: Mapping[str, FieldPlace]
    texts: Mapping[str, FieldPlace]
    repeated: Mapping[str, Sequence[Mapping[str, FieldPlace]]]
    mask: Words
    """The bits of each eight bytes of a value that count."""
    wanted: Words
    """What these bits are."""

    mask_bits: int
    wanted_bits: int

    def is_of(self, value: int) -> bool:
        """Return whether a value of this shape's length, as one little-endian number, has it."""
        return value & self.mask_bits == self.wanted_bits

    def matches(self, words: Words) -> Mask:
        """Return which rows of a table of values have this shape."""
        width = words.shape[1]
        wrong = np.zeros((len(words), width + -width % _WORD), dtype=bool)
        for first in range(0, len(words), _BLOCK_ROWS):
            some = slice(first, first + _BLOCK_ROWS)
            np.not_equal(words[some] & self.mask, self.wanted, out=wrong[some, :width])
        eights = wrong.view(np.uint64)
        found: Mask = np.bitwise_or.reduce([*eights.T]) == 0
        return found


class _Learner:
    """Reads one value byte by byte."""

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.mask = bytearray(len(value))
        self.numbers: dict[str, FieldPlace] = {}
        self.texts: dict[str, FieldPlace] = {}
        self.repeated: dict[str, list[Mapping[str, FieldPlace]]] = {}
        self._read_record()

    def shape(self) -> ValueTemplate:
        whole = -len(self.value) % _WORD
        mask_bits = int.from_bytes(self.mask, "little")
        wanted_bits = int.from_bytes(self.value, "little") & mask_bits
        mask, wanted = (
            np.frombuffer(bits.to_bytes(len(self.value) + whole, "little"), dtype="<u8")
            for bits in (mask_bits, wanted_bits)
        )
        return ValueTemplate(
            self.numbers, self.texts, self.repeated, mask, wanted, mask_bits, wanted_bits
        )

    def _read_record(self) -> None:
        at, before = 0, 0
        while at < len(self.value):
            tag, at = self._said(at)
            number, wire_type = tag >> 3, tag & 7
            name = _NAMES.get(number, "")
            again = name in REPEATED and number == before
            if number < before or (number == before and not again) or not name:
                raise _IrregularError
            before = number
            if name in REPEATED or name in TEXTS:
                at = self._read_delimited(name, wire_type, at)
            else:
                self.numbers[name], at = self._number(name, wire_type, at)

    def _read_delimited(self, name: str, wire_type: int, at: int) -> int:
        length, body = self._said(at)
        end = body + length
        if wire_type != LENGTH_DELIMITED or end > len(self.value):
            raise _IrregularError
        if name in TEXTS:
            self.texts[name] = FieldPlace(body, length)
        else:
            self.repeated.setdefault(name, []).append(self._read_batch(body, end))
        return end

    def _read_batch(self, at: int, end: int) -> Mapping[str, FieldPlace]:
        found: dict[str, FieldPlace] = {}
        before = 0
        while at < end:
            tag, at = self._said(at)
            number = tag >> 3
            name = _BATCH_NAMES.get(number, "")
            if number <= before or not name:
                raise _IrregularError
            before = number
            found[name], at = self._number(name, tag & 7, at)
        if at != end:
            raise _IrregularError
        return found

    def _number(self, name: str, wire_type: int, at: int) -> tuple[FieldPlace, int]:
        value, end = self._varint(at)
        # Where a number may have more bits than its field, protobuf drops them.
        too_long = name in SHORT and end - at >= _LONG_OF_32 and not -(1 << 31) <= value < 0
        if wire_type != 0 or too_long:
            raise _IrregularError
        # Ten bytes are a negative number, which is nearly always -1: a part of the shape.
        fixed = name in _FIXED or end - at == _LONGEST
        for place in range(at, end):
            self.mask[place] = 0xFF if fixed else 0x80
        return FieldPlace(at, end - at, value if fixed else None), end

    def _said(self, at: int) -> tuple[int, int]:
        """Return a tag or a length, which is part of the shape, and where it ends."""
        value, end = self._varint(at)
        self.mask[at:end] = b"\xff" * (end - at)
        return value, end

    def _varint(self, at: int) -> tuple[int, int]:
        value = 0
        for index in range(_LONGEST):
            if at + index >= len(self.value):
                break
            octet = self.value[at + index]
            value |= (octet & 0x7F) << (7 * index)
            if octet < 0x80:
                value &= _LOW_BITS
                return value - (value >> 63 << 64), at + index + 1
        raise _IrregularError


def shape_of(value: bytes) -> ValueTemplate | None:
    """Return the shape of a value, None if it is not written as this project writes."""
    try:
        return _Learner(value).shape()
    except _IrregularError:
        return None


class Shaped:
    """Records of one shape."""

    def __init__(
        self,
        shape: ValueTemplate,
        rows: Ints,
        table: Table,
        value_at: Ints,
        fits: Mask | None = None,
    ) -> None:
        """``table`` has a value in each row; ``value_at`` says where it lies.

        ``fits`` says which of them are meant, None: all.
        """
        self.rows = rows if fits is None else rows[fits]
        self._shape = shape
        self._whole_table = table
        self._value_at = value_at if fits is None else value_at[fits]
        self._fits = fits

    @cached_property
    def _table(self) -> Table:
        return self._whole_table if self._fits is None else self._whole_table[self._fits]

    def number(self, name: str) -> Ints:
        """Return a number of each record."""
        place = self._shape.numbers.get(name)
        return self._read(place, UNKNOWN_NUMBERS.get(name, 0))

    def text(self, name: str) -> Texts:
        """Return where a text of each record lies."""
        place = self._shape.texts.get(name)
        if place is None:
            nothing = np.zeros(len(self.rows), dtype=np.int64)
            return Texts(nothing, nothing)
        return Texts(self._value_at + place.at, np.full(len(self.rows), place.length))

    def batches(self, name: str) -> Batches:
        """Return the state batches of the records."""
        each = self._shape.repeated.get(name, ())
        splits = np.arange(len(self.rows) + 1) * len(each)
        if not each:
            return Batches(splits, *[_NOTHING] * len(BATCH_FIELDS))
        columns = []
        for column, _ in BATCH_FIELDS:
            table = np.empty((len(self.rows), len(each)), dtype=np.int64)
            for number, places in enumerate(each):
                table[:, number] = self._read(places.get(column), 0)
            columns.append(table.ravel())
        return Batches(splits, *columns)

    def _read(self, place: FieldPlace | None, missing: int) -> Ints:
        if place is None or place.constant is not None:
            value = missing if place is None or place.constant is None else place.constant
            return np.full(len(self.rows), value, dtype=np.int64)
        low = np.uint8(0x7F)
        found = (self._table[:, place.at] & low).astype(np.int64)
        for index in range(1, place.length):
            octets = (self._table[:, place.at + index] & low).astype(np.int64)
            found |= octets << (7 * index)
        return found


class ValueTemplates:
    """The shapes of a log, learnt while its windows pass by."""

    def __init__(self, rows_min: int = ROWS_MIN) -> None:
        """Fewer than ``rows_min`` values of one shape are left to others to read."""
        self._rows_min = rows_min
        self._of_length: dict[int, list[ValueTemplate]] = {}
        self.parts = SnapshotParts()
        """Snapshots of which not all parts passed by yet."""

    def tables(self, buffer: Bytes, places: RecordLayout) -> tuple[list[Shaped], Ints]:
        """Return the records of common shapes, a table each, and the numbers of the others."""
        length = places.value_length
        order = np.argsort(np.clip(length, 0, VALUE_BYTES_MAX + 1).astype(np.uint16), kind="stable")
        by_length = length[order]
        begins = np.flatnonzero(np.diff(by_length, prepend=-2))
        found: list[Shaped] = []
        rest: list[Ints] = []
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
            rows = order[begin:end]
            if 0 < by_length[begin] <= VALUE_BYTES_MAX:
                rows = self._of_one_length(buffer, places, rows, found)
            rest.append(rows)
        others = np.concatenate(rest) if rest else _NOTHING
        return found, np.sort(others)

    def _of_one_length(
        self, buffer: Bytes, places: RecordLayout, rows: Ints, found: list[Shaped]
    ) -> Ints:
        """Add tables of these records to ``found``; return the records that are in none."""
        length = int(places.value_length[rows[0]])
        value_at = places.value_at[rows]
        if len(rows) < self._rows_min or int(value_at.max()) + length > buffer.size:
            return rows
        table = buffer.table(value_at, length + -length % _WORD)
        few: list[Ints] = []
        while len(rows) >= self._rows_min:
            shape = self._shape_of(table[0, :length].tobytes())
            if shape is None:
                break
            fits = shape.matches(table.view("<u8"))
            count = np.count_nonzero(fits)
            if count == len(rows):
                found.append(Shaped(shape, rows, table, value_at))
                rows = _NOTHING
                break
            if count >= self._rows_min:
                found.append(Shaped(shape, rows, table, value_at, fits))
            else:
                few.append(rows[fits])
            fails = ~fits
            rows, table, value_at = rows[fails], table[fails], value_at[fails]
        return np.concatenate([*few, rows]) if few else rows

    def _shape_of(self, value: bytes) -> ValueTemplate | None:
        """Return the shape of a value, known or new; None if it has none, or too many are known."""
        known = self._of_length.setdefault(len(value), [])
        number = int.from_bytes(value, "little")
        for shape in known:
            if shape.is_of(number):
                return shape
        if len(known) == SHAPES_OF_LENGTH_MAX:
            return None
        learnt = shape_of(value)
        if learnt is not None:
            known.append(learnt)
        return learnt
