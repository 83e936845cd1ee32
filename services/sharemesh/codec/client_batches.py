"""Record batches as a client makes and reads them: RecordBatch v2, any compression."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharemesh.codec.batch_frame import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    with_producer,
)
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import COMPRESSION, RecordSetError, raw_records

Headers = Sequence[tuple[str, bytes | None]]


class ProducerState(NamedTuple):
    """Identity of an idempotent producer and the sequence of the batch's first record."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


_NOBODY = ProducerState(-1, -1, -1)
_NO_HEADERS: list[tuple[str, bytes | None]] = []


class BatchWriter:
    """Collects records of one partition into one batch of at most ``limit_bytes``.

    The first record always fits: the service judges its size.
    """

    def __init__(self, compression: str, limit_bytes: int) -> None:
        self._builder = DefaultRecordBatchBuilder(
            MAGIC,
            COMPRESSION[compression],
            0,
            *_NOBODY,
            limit_bytes,
        )
        self._append = self._builder.append
        self._built = b""
        self.count = 0

    @property
    def size_bytes(self) -> int:
        """Bytes so far, before compression."""
        return int(self._builder.size())

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> bool:
        """Add a record; False if the batch has no room for it."""
        listed = list(headers) if headers else _NO_HEADERS
        added = self._append(self.count, timestamp_ms, key, value, listed)
        if added is None:
            return False
        self.count += 1
        return True

    def extend(self, timestamp_ms: int, values: Sequence[bytes], start: int) -> int:
        """Add records that have a value only, ``values`` from ``start`` on, while there is room.

        Return how many were added.
        """
        append = self._append
        first = number = self.count
        for value in islice(values, start, None) if start else values:
            if append(number, timestamp_ms, None, value, _NO_HEADERS) is None:
                break
            number += 1
        self.count = number
        return number - first

    def finish(self, producer: ProducerState | None) -> bytes:
        """Return the batch; base offset 0. Nothing may be added afterwards.

        It may be finished again, under another identity.
        """
        state = producer or _NOBODY
        if not self._built:
            self._builder.set_producer_state(*state)
            self._built = bytes(self._builder.build())
            return self._built
        return with_producer(self._built, *state)


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """One batch as its header shows it; ``corrupt`` says why it cannot be read, or is "".

    Offsets are included on both sides. ``is_dense``: each of them has a record. ``data`` is the
    whole batch, its checksum checked if that was asked for; empty if it is corrupt. ``decoded`` are
    columns by name, of who decodes them, so that others who have a part need not do it again.
    """

    base_offset: int
    last_offset: int
    is_control: bool
    is_dense: bool
    corrupt: str
    data: bytes
    decoded: dict[str, list[Any]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """One batch: offsets included on both sides; ``corrupt`` says why it cannot be read, or is "".

    ``records`` have ``offset``, ``timestamp``, ``key``, ``value`` and ``headers``.
    """

    base_offset: int
    last_offset: int
    is_control: bool
    corrupt: str
    records: Sequence[Any]


def find_batches(data: bytes, *, check_crc: bool) -> Iterator[FoundBatch]:
    """Yield the batches of ``data`` in order; a corrupt one does not hide those after it.

    A cut last batch is yielded as corrupt if its header is whole, else left out.
    """
    view = memoryview(data)
    at = 0
    end = len(data)
    while at + HEADER_BYTES <= end:
        header = HEADER.unpack_from(data, at)
        base_offset, length, _, magic, crc, attributes, delta = header[:7]
        size = length + LENGTH_PREFIX_BYTES
        last_offset = base_offset + max(delta, 0)
        if magic != MAGIC:
            yield _corrupt(base_offset, last_offset, f"magic {magic} instead of 2")
        elif size < HEADER_BYTES or at + size > end:
            yield _corrupt(base_offset, last_offset, "cut short")
            return
        elif check_crc and crc32c(view[at + CRC_START : at + size]) != crc:
            yield _corrupt(base_offset, last_offset, "checksum does not match")
        else:
            yield FoundBatch(
                base_offset,
                last_offset,
                is_control=bool(attributes & CONTROL),
                is_dense=header[-1] == delta + 1,
                corrupt="",
                data=data if size == end else bytes(view[at : at + size]),
            )
        at += max(size, HEADER_BYTES)


def read_batches(data: bytes, *, check_crc: bool) -> Iterator[ReadBatch]:
    """Yield what ``find_batches`` finds, with the records."""
    for found in find_batches(data, check_crc=check_crc):
        corrupt, records = found.corrupt, []
        if not corrupt and not found.is_control:
            try:
                records = raw_records(found.data)
            except RecordSetError as error:
                corrupt = str(error)
        yield ReadBatch(found.base_offset, found.last_offset, found.is_control, corrupt, records)


def _corrupt(base_offset: int, last_offset: int, why: str) -> FoundBatch:
    return FoundBatch(
        base_offset, last_offset, is_control=False, is_dense=False, corrupt=why, data=b""
    )
