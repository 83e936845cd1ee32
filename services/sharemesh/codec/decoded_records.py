"""Records as protobuf, for clients without a RecordBatch library, to record batches and back."""

from collections.abc import Iterable, Iterator, Sequence

import cramjam
from aiokafka.errors import CorruptRecordException, KafkaError
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharemesh.codec.batch_frame import HEADER_BYTES, frame_size
from sharemesh.codec.plain_batch import TooLargeError, plain_batch
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.v1.common_pb2 import DecodedRecord, Header

DECODED_BYTES_MAX = 32 * 1024 * 1024
"""Keys and values of the records of one answer in the decoded form."""

_MAGIC = 2
_NO_PRODUCER = -1
_NO_LIMIT = 2**31 - 1
_UNDECODABLE = (CorruptRecordException, KafkaError, cramjam.DecompressionError, ValueError)

AcquiredRange = tuple[int, int, int]
"""First offset, last offset (both included) and delivery count."""


def encode_records(records: Iterable[DecodedRecord], *, default_timestamp_ms: int) -> bytes:
    """Return one uncompressed RecordBatch v2 with these records, in order, from offset 0 on.

    ``offset`` and ``delivery_count`` of the records are ignored; a timestamp of 0 means
    ``default_timestamp_ms``. Key and value may be absent (null).

    Raises:
        RefusedError: INVALID_RECORD for no records at all, or a negative timestamp.
    """
    builder = DefaultRecordBatchBuilder(
        _MAGIC, 0, 0, _NO_PRODUCER, _NO_PRODUCER, _NO_PRODUCER, _NO_LIMIT
    )
    count = 0
    for count, record in enumerate(records, 1):
        timestamp_ms = record.timestamp or default_timestamp_ms
        if timestamp_ms < 0:
            raise RefusedError(
                ErrorCode.INVALID_RECORD,
                f"record {count - 1} has timestamp {timestamp_ms}; send milliseconds since the "
                "epoch, or 0 for the time of arrival",
            )
        builder.append(
            count - 1,
            timestamp_ms,
            record.key if record.HasField("key") else None,
            record.value if record.HasField("value") else None,
            [(h.key, h.value if h.HasField("value") else None) for h in record.headers],
        )
    if not count:
        raise RefusedError(ErrorCode.INVALID_RECORD, "there is no record to produce")
    return bytes(builder.build())


def decode_records(
    records: bytes, acquired: Sequence[AcquiredRange], *, bytes_max: int = DECODED_BYTES_MAX
) -> list[DecodedRecord]:
    """Return the records of these batches that lie in the acquired ranges (spec CL-10).

    ``acquired`` is sorted and disjoint. Control batches hold no records for applications
    (spec ISO-4); offsets without a record are gaps, to be acknowledged with type GAP.

    Raises:
        RefusedError: CORRUPT_MESSAGE if a batch cannot be decoded, MESSAGE_TOO_LARGE if one, or
            all that is returned, takes too many bytes (``bytes_max``, without headers).
    """
    decoded: list[DecodedRecord] = []
    ranges = iter(acquired)
    current = next(ranges, None)
    left = bytes_max
    try:
        for batch in _batches(records):
            for record in batch:
                while current is not None and record.offset > current[1]:
                    current = next(ranges, None)
                if current is None:
                    return decoded
                if record.offset >= current[0]:
                    left -= len(record.key or b"") + len(record.value or b"")
                    if left < 0:
                        raise TooLargeError(f"the records take more than {bytes_max} bytes")
                    decoded.append(
                        DecodedRecord(
                            offset=record.offset,
                            timestamp=record.timestamp or 0,
                            key=record.key,
                            value=record.value,
                            headers=[Header(key=k, value=v) for k, v in record.headers],
                            delivery_count=current[2],
                        )
                    )
    except TooLargeError as error:
        raise RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{error}: fetch fewer, consume them in the opaque format, or reject their offsets",
        ) from error
    except _UNDECODABLE as error:
        raise RefusedError(
            ErrorCode.CORRUPT_MESSAGE,
            f"a record batch cannot be decoded ({error}); consume it in the opaque format, "
            "or reject its offsets",
        ) from error
    return decoded


def _batches(records: bytes) -> Iterator[DefaultRecordBatch]:
    """Yield the batches that hold records for applications, without compression."""
    view = memoryview(records)
    at = 0
    while at + HEADER_BYTES <= len(view):
        size = frame_size(view[at:])
        if not HEADER_BYTES <= size <= len(view) - at:
            raise CorruptRecordException(f"a record batch of {size} bytes at byte {at}")
        batch = DefaultRecordBatch(plain_batch(view[at : at + size]))
        if not batch.is_control_batch:
            yield batch
        at += size
