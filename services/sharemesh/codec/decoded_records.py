"""Records as protobuf, for clients without a RecordBatch library, to record batches and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharemesh.codec.batch_frame import CONTROL, HEADER_BYTES, frame_of, frame_size, frame_start
from sharemesh.codec.guarded_records import UNDECODABLE
from sharemesh.codec.plain_batch import TooLargeError, plain_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.v1.common_pb2 import DecodedRecord, Header

DECODED_BYTES_MAX = 32 * 1024 * 1024
"""Keys and values of the records of one answer in the decoded form."""

_MAGIC = 2
_NO_PRODUCER = -1
_NO_LIMIT = 2**31 - 1
AcquiredRange = tuple[int, int, int]
"""First offset, last offset (both included) and delivery count."""


class RecordEncoder:
    """One uncompressed RecordBatch v2, made record by record, from offset 0 on."""

    def __init__(self, *, default_timestamp_ms: int) -> None:
        """A record whose timestamp is 0 gets ``default_timestamp_ms``."""
        self._builder = DefaultRecordBatchBuilder(
            _MAGIC, 0, 0, _NO_PRODUCER, _NO_PRODUCER, _NO_PRODUCER, _NO_LIMIT
        )
        self._default_timestamp_ms = default_timestamp_ms
        self._count = 0

    def append(self, records: Iterable[DecodedRecord]) -> None:
        """Add records in order.

        ``offset`` and ``delivery_count`` of the records are ignored. Key and value may be absent
        (null).

        Raises:
            RefusedError: INVALID_RECORD for a negative timestamp.
        """
        for count, record in enumerate(records, self._count):
            timestamp_ms = record.timestamp or self._default_timestamp_ms
            if timestamp_ms < 0:
                raise RefusedError(
                    ErrorCode.INVALID_RECORD,
                    f"record {count} has timestamp {timestamp_ms}; send milliseconds since the "
                    "epoch, or 0 for the time of arrival",
                )
            self._builder.append(
                count,
                timestamp_ms,
                record.key if record.HasField("key") else None,
                record.value if record.HasField("value") else None,
                [(h.key, h.value if h.HasField("value") else None) for h in record.headers],
            )
            self._count = count + 1

    def finish(self) -> bytes:
        """Return the batch.

        Raises:
            RefusedError: INVALID_RECORD for no records at all.
        """
        if not self._count:
            raise RefusedError(ErrorCode.INVALID_RECORD, "there is no record to produce")
        return bytes(self._builder.build())


def encode_records(records: Iterable[DecodedRecord], *, default_timestamp_ms: int) -> bytes:
    """Return one batch with these records; see ``RecordEncoder``, also for what it raises."""
    encoder = RecordEncoder(default_timestamp_ms=default_timestamp_ms)
    encoder.append(records)
    return encoder.finish()


class _LogRecord(Protocol):
    """What aiokafka's readers tell of a record, with and without its C extension."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Offsets of one batch, both included, that have no readable record, and why."""

    first_offset: int
    last_offset: int
    refusal: RefusedError


def decode_records(
    records: bytes,
    acquired: Sequence[AcquiredRange],
    *,
    bytes_max: int = DECODED_BYTES_MAX,
    on_undecodable: Callable[[Undecodable], None] | None = None,
) -> list[DecodedRecord]:
    """Return the records of these batches that lie in the acquired ranges (spec CL-10).

    ``acquired`` is sorted and disjoint. Control batches hold no records for applications
    (spec ISO-4); offsets without a record are gaps, to be acknowledged with type GAP. With
    ``on_undecodable`` a damaged batch concerns nothing but its own records that are not whole
    (BND-15); else it is raised.

    Raises:
        RefusedError: CORRUPT_MESSAGE if a batch cannot be decoded, MESSAGE_TOO_LARGE if one, or
            all that is returned, takes too many bytes (``bytes_max``, without headers).
    """
    decoded: list[DecodedRecord] = []
    left, begin = bytes_max, 0
    for batch, first, last in _batches(records):
        while begin < len(acquired) and acquired[begin][1] < first:
            begin += 1
        ranges = _up_to(last, acquired, begin)
        try:
            for record, delivery_count in _records(batch, first, last, ranges):
                left -= len(record.key or b"") + len(record.value or b"")
                if left < 0:
                    raise _too_large(f"the records take more than {bytes_max} bytes")
                decoded.append(_decoded(record, delivery_count))
        except (TooLargeError, *UNDECODABLE) as error:
            refusal = _refusal(error)
            if on_undecodable is None:
                raise refusal from error
            unread = max(first, decoded[-1].offset + 1 if decoded else first)
            for each in ranges:
                if each[1] >= unread:
                    bounds = max(each[0], unread), min(each[1], last)
                    on_undecodable(Undecodable(*bounds, refusal))
    return decoded


def _up_to(last: int, acquired: Sequence[AcquiredRange], begin: int) -> Sequence[AcquiredRange]:
    """Return the ranges from ``begin`` on that begin at an offset or before."""
    end = begin
    while end < len(acquired) and acquired[end][0] <= last:
        end += 1
    return acquired[begin:end]


def _records(
    batch: memoryview, first: int, last: int, ranges: Sequence[AcquiredRange]
) -> Iterator[tuple[_LogRecord, int]]:
    """Yield the acquired records of a batch with their delivery counts.

    A record of a damaged batch may claim any offset: it ends there, and others keep their own.
    """
    if not ranges:
        return
    at, expected = 0, first
    for record in DefaultRecordBatch(plain_batch(batch)):
        if not expected <= record.offset <= last:
            raise CorruptRecordException(f"a record has offset {record.offset}")
        expected = record.offset + 1
        while at < len(ranges) and ranges[at][1] < record.offset:
            at += 1
        if at < len(ranges) and ranges[at][0] <= record.offset:
            yield record, ranges[at][2]


def _decoded(record: _LogRecord, delivery_count: int) -> DecodedRecord:
    return DecodedRecord(
        offset=record.offset,
        timestamp=record.timestamp or 0,
        key=record.key,
        value=record.value,
        headers=[Header(key=k, value=v) for k, v in record.headers],
        delivery_count=delivery_count,
    )


def _refusal(error: Exception) -> RefusedError:
    if isinstance(error, TooLargeError):
        return _too_large(str(error))
    return RefusedError(
        ErrorCode.CORRUPT_MESSAGE,
        f"a record batch cannot be decoded ({error}); consume it in the opaque format, "
        "or reject its offsets",
    )


def _too_large(problem: str) -> RefusedError:
    return RefusedError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{problem}: fetch fewer, consume them in the opaque format, or reject their offsets",
    )


def _batches(records: bytes) -> Iterator[tuple[memoryview, int, int]]:
    """Yield the batches that hold records for applications, with their first and last offset."""
    view = memoryview(records)
    at = 0
    while at + HEADER_BYTES <= len(view):
        size = frame_size(view[at:])
        if not HEADER_BYTES <= size <= len(view) - at:
            raise RefusedError(
                ErrorCode.CORRUPT_MESSAGE, f"a record batch of {size} bytes at byte {at}"
            )
        frame = frame_of(view[at : at + size], frame_start(view, at))
        if not frame.attributes & CONTROL:
            yield view[at : at + size], frame.base_offset, frame.end_offset - 1
        at += size
