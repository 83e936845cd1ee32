"""Columns in NumPy, and unsigned varints (protobuf, Kafka records) of many places at once."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

PADDING_BYTES = 16
"""How many bytes must follow the last place that is read."""

_HIGH = np.uint64(0x8080808080808080)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
_FOLLOWED = np.uint64(0x80)
_SEVEN = np.uint64(0x7F)
_SECOND = np.uint64(0x3F80)
_STEPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


class Columns:
    """A dataclass whose fields are arrays of one length."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._columns()[0])

    def _columns(self) -> list[Any]:
        return [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type]

    def selected(self, rows: Ints | Mask | slice) -> Self:
        """Return the rows with these indexes, or where the mask is true."""
        return type(self)(*(column[rows] for column in self._columns()))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one part after the other."""
        return cls(*map(np.concatenate, zip(*(part._columns() for part in parts), strict=True)))


class Bytes:
    """A buffer that is read at many positions at once."""

    def __init__(self, data: bytes | memoryview, low: int = 0, high: int | None = None) -> None:
        """Only ``[low, high)`` counts; it is copied if there is no room behind it."""
        high = len(data) if high is None else high
        self.size = high - low
        whole = np.frombuffer(data, dtype=np.uint8)
        if high + PADDING_BYTES <= len(data):
            self.octets = whole[low : high + PADDING_BYTES]
        else:
            self.octets = np.zeros(self.size + PADDING_BYTES, dtype=np.uint8)
            self.octets[: self.size] = whole[low:high]
        # Eight bytes from any position. Opaque items need no alignment: half the cost of numbers.
        self._eights: Any = np.ndarray(
            (self.size + PADDING_BYTES - 8,), "V8", self.octets.data, strides=(1,)
        )
        self._twos: Any = np.ndarray(
            (self.size + PADDING_BYTES - 8,), "V2", self.octets.data, strides=(1,)
        )

    def words(self, at: Ints) -> Words:
        """Return the eight bytes from each position, the first one lowest."""
        found: Words = self._eights[np.minimum(at, self.size)].view("<u8")
        return found

    def table(self, at: Ints, width: int) -> npt.NDArray[np.uint8]:
        """Return ``width`` bytes from each position, a row each; a copy.

        All must lie in the buffer, but for the last ``PADDING_BYTES`` of a row.
        """
        rows: Any = np.ndarray(
            (self.size + PADDING_BYTES - width + 1,), f"V{width}", self.octets.data, strides=(1,)
        )
        found: npt.NDArray[np.uint8] = rows[at].view(np.uint8).reshape(len(at), width)
        return found

    def pairs(self, at: Ints) -> npt.NDArray[np.uint16]:
        """Return the two bytes from each position, the first one lowest."""
        found: npt.NDArray[np.uint16] = self._twos[np.minimum(at, self.size)].view("<u2")
        return found

    def varints(self, at: Ints) -> tuple[Words, Ints]:
        """Return the value at each position and the position behind it.

        Positions beyond the buffer read as its last bytes; the caller checks ends.
        """
        words = self.words(at)
        short = short_varints(words)
        if short is not None:
            return short[0], at + short[1]
        stop = ~words & _HIGH
        below = (stop & (~stop + _ONE)) - _ONE  # all bits below the first byte without a follower
        values = words & below & _LOW
        for low, high, shift in _STEPS:
            values = (values & low) | ((values & high) >> shift)
        lengths = (np.bitwise_count(below).astype(np.int64) + 1) >> 3
        long = np.flatnonzero(stop == 0)
        if long.size:
            self._finish(at, long, values, lengths)
        return values, at + lengths

    def _finish(self, at: Ints, long: Ints, values: Words, lengths: Ints) -> None:
        tail = self.words(at[long] + 8)
        ninth, tenth = tail & np.uint64(0xFF), (tail >> np.uint64(8)) & np.uint64(0xFF)
        more = ninth >= np.uint64(0x80)
        top = np.where(more, tenth & _ONE, np.uint64(0))
        values[long] |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (top << np.uint64(63))
        lengths[long] = np.where(more, 10, 9)


def short_varints(words: Words) -> tuple[Words, Any] | None:
    """Return values and lengths (an array, or 1) of varints at the low end of words.

    Only if each has at most two bytes, as most fields have: a fifth of the general cost.
    """
    followed = words & _FOLLOWED
    if not followed.any():
        return words & _SEVEN, 1
    if (followed & (words >> _EIGHT)).any():
        return None
    more = followed >> np.uint64(7)
    return (words & _SEVEN) | ((words >> _ONE & _SECOND) * more), more.view(np.int64) + 1


def zigzag(values: Words) -> Ints:
    """Return signed numbers of Kafka's zigzag form."""
    signed: Any = (values >> _ONE) ^ (~(values & _ONE) + _ONE)
    result: Ints = signed.view(np.int64)
    return result
