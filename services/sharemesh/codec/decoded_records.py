"""Records as protobuf, for clients without a RecordBatch library, to record batches and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharemesh.codec.batch_frame import CONTROL, HEADER_BYTES, frame_of, frame_size, frame_start
from sharemesh.codec.guarded_records import UNDECODABLE, LibraryRecord, guarded_records
from sharemesh.codec.plain_batch import Opened, TooLargeError, opened_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.v1.common_pb2 import DecodedRecord, Header

DECODED_ITEMS_MAX = 200_000
"""Records and headers of one answer in the decoded form (BND-34): each becomes an object of some
100 bytes, and a batch of 1 MiB without compression has no more than 150,000."""

LOOKED_AT = 500
"""Records that are passed over before that is told."""

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


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Offsets of one batch, both included, that have no readable record, and why."""

    first_offset: int
    last_offset: int
    refusal: RefusedError


class DecodedItems:
    """Counts what one answer holds.

    Attributes:
        count: Records and headers so far.
    """

    def __init__(self, most: int = DECODED_ITEMS_MAX) -> None:
        self._most = most
        self.count = 0

    def add(self, record: LibraryRecord) -> None:
        """Count a record with its headers.

        Raises:
            TooLargeError: There is no room for it.
        """
        count = self.count + 1 + len(record.headers)
        if count > self._most:
            raise TooLargeError(f"the answer would have more than {self._most} records and headers")
        self.count = count


def decode_records(
    records: bytes,
    acquired: Sequence[AcquiredRange],
    on_undecodable: Callable[[Undecodable], None],
    *,
    opened: Callable[[int, memoryview], Opened] = lambda _, batch: opened_batch(batch),
    items: DecodedItems | None = None,
    make: Callable[..., DecodedRecord] = DecodedRecord,
) -> Iterator[DecodedRecord | None]:
    """Yield the records of these batches that lie in the acquired ranges (spec CL-10).

    None is yielded for each ``LOOKED_AT`` others that were looked at. ``acquired`` is sorted and
    disjoint. Control batches hold no records for applications (spec ISO-4); offsets without a
    record are gaps, to be acknowledged with type GAP. A damaged batch concerns nothing but its own
    records that are not whole (BND-15): CORRUPT_MESSAGE if they cannot be decoded,
    MESSAGE_TOO_LARGE if they are too large, or too many for ``items``.

    Args:
        records: Whole batches.
        acquired: Which offsets to decode.
        on_undecodable: Is told of offsets that have no readable record.
        opened: Opens a batch, which is named by its base offset; may raise as ``opened_batch``.
        items: What the answer holds already.
        make: Makes a record where it shall stand: large ones are not copied again.

    Raises:
        RefusedError: CORRUPT_MESSAGE if these are no whole batches.
    """
    counted, begin = items or DecodedItems(), 0
    for batch, first, last in _batches(records):
        while begin < len(acquired) and acquired[begin][1] < first:
            begin += 1
        ranges = _up_to(last, acquired, begin)
        unread = first
        try:
            for record, delivery_count in _records(opened, batch, first, last, ranges):
                if record is None:
                    yield None
                    continue
                counted.add(record)
                decoded = _decoded(record, delivery_count, make)
                unread = record.offset + 1
                yield decoded
        except (TooLargeError, *UNDECODABLE) as error:
            refusal = _refusal(error)
            for each in ranges:
                if each[1] >= unread:
                    bounds = max(each[0], unread), min(each[1], last)
                    on_undecodable(Undecodable(*bounds, refusal))


def _up_to(last: int, acquired: Sequence[AcquiredRange], begin: int) -> Sequence[AcquiredRange]:
    """Return the ranges from ``begin`` on that begin at an offset or before."""
    end = begin
    while end < len(acquired) and acquired[end][0] <= last:
        end += 1
    return acquired[begin:end]


def _records(
    opened: Callable[[int, memoryview], Opened],
    batch: memoryview,
    first: int,
    last: int,
    ranges: Sequence[AcquiredRange],
) -> Iterator[tuple[LibraryRecord | None, int]]:
    """Yield the acquired records of a batch with their delivery counts, up to the last of them.

    A record of a damaged batch may claim any offset: it ends there, and others keep their own.
    """
    if not ranges:
        return
    at, expected, passed = 0, first, 0
    for record in guarded_records(opened(first, batch)):
        if not expected <= record.offset <= last:
            raise CorruptRecordException(f"a record has offset {record.offset}")
        expected = record.offset + 1
        while at < len(ranges) and ranges[at][1] < record.offset:
            at += 1
        if at == len(ranges):
            return
        if ranges[at][0] <= record.offset:
            yield record, ranges[at][2]
        else:
            passed += 1
            if passed % LOOKED_AT == 0:
                yield None, 0


def _decoded(
    record: LibraryRecord, delivery_count: int, make: Callable[..., DecodedRecord]
) -> DecodedRecord:
    return make(
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
