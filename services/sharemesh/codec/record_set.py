"""Building and opening record batches: keys and values in, RecordBatch v2 bytes out, and back."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharemesh.codec.batch_frame import MAGIC
from sharemesh.codec.guarded_records import UNDECODABLE, guarded_records
from sharemesh.codec.plain_batch import opened_batch

COMPRESSION = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PlainRecord = TypeVar("PlainRecord", bound=tuple[Any, ...])

_BUILDER_BYTES_MAX = 2**31 - 1


class RecordSetError(ValueError):
    """The records of a batch cannot be decoded; the message says why."""


class Record(NamedTuple):
    """One decoded record."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
    *,
    timestamp_ms: int,
    compression: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """Return one record batch with base offset 0; ``place_frame`` gives it its place.

    Args:
        records: (key, value, headers) of each, at least one.
        timestamp_ms: Given to every record.
        compression: A value of ``COMPRESSION``.
        producer_id: −1, or the idempotent producer's, with its epoch and base sequence.
        producer_epoch: See ``producer_id``.
        base_sequence: See ``producer_id``.
        is_transactional: Whether the batch belongs to a transaction.
    """
    builder = DefaultRecordBatchBuilder(
        MAGIC,
        compression,
        is_transactional,
        producer_id,
        producer_epoch,
        base_sequence,
        _BUILDER_BYTES_MAX,
    )
    append = builder.append
    for index, (key, value, headers) in enumerate(records):
        append(index, timestamp_ms, key, value, list(headers))
    built = builder.build()
    return built if isinstance(built, bytearray) else bytearray(built)


def build_plain_batch(records: Sequence[tuple[bytes | None, bytes | None, int]]) -> bytearray:
    """Return one record batch with base offset 0, of records without headers, for shard logs.

    Args:
        records: (key, value, timestamp in ms) of each, at least one.
    """
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, _BUILDER_BYTES_MAX)
    append = builder.append
    headers: list[tuple[str, bytes | None]] = []
    for index, (key, value, timestamp_ms) in enumerate(records):
        append(index, timestamp_ms, key, value, headers)
    built = builder.build()
    return built if isinstance(built, bytearray) else bytearray(built)


def decode_records(batch: bytes | bytearray | memoryview) -> Iterator[Record]:
    """Yield the records of one whole batch, its checksum already checked.

    Raises:
        RecordSetError: Compression unknown, the records do not parse, or are too large without
            compression (``plain_batch.PLAIN_BATCH_BYTES_MAX``): whole ones before are yielded.
    """
    try:
        for record in guarded_records(opened_batch(batch)):
            yield Record(
                record.offset, record.timestamp or 0, record.key, record.value, record.headers
            )
    except UNDECODABLE as error:
        raise RecordSetError(f"records of the batch cannot be decoded: {error}") from error


def raw_records(batch: bytes) -> list[Any]:
    """Return the records of one whole batch as the library has them, for the client's hot path.

    They have ``offset``, ``timestamp``, ``key``, ``value`` and ``headers``.

    Args:
        batch: A whole record batch, its checksum already checked.

    Raises:
        RecordSetError: Compression unknown, or the records do not parse.
    """
    try:
        return list(DefaultRecordBatch(batch))
    except UNDECODABLE as error:
        raise RecordSetError(str(error) or type(error).__name__) from error


def raw_columns(batch: bytes, *names: str) -> list[list[Any]]:
    """Return columns of one whole batch, in the order of ``names``.

    No record stays: Python's search for cycles would walk over each.

    Args:
        batch: A whole record batch, its checksum already checked.
        names: Of fields, as ``raw_records`` has them.

    Raises:
        RecordSetError: Compression unknown, or the records do not parse.
    """
    try:
        if len(names) == 1:
            return [list(map(attrgetter(*names), DefaultRecordBatch(batch)))]
        rows = map(attrgetter(*names), DefaultRecordBatch(batch))
        return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    except UNDECODABLE as error:
        raise RecordSetError(str(error) or type(error).__name__) from error


def decode_records_as(
    batch: bytes | bytearray | memoryview, record_type: type[PlainRecord]
) -> list[PlainRecord]:
    """Return every record of one whole batch as ``record_type``.

    The fastest way, for replays: a named tuple's own constructor would cost twice as much.

    Args:
        batch: A whole record batch, its checksum already checked.
        record_type: A named tuple with the fields key, value, offset and timestamp in ms.

    Raises:
        RecordSetError: The records do not parse.
    """
    new = tuple.__new__
    try:
        return [
            new(record_type, (record.key, record.value, record.offset, record.timestamp))
            for record in DefaultRecordBatch(batch)
        ]
    except UNDECODABLE as error:
        raise RecordSetError(f"records of the batch cannot be decoded: {error}") from error


def decode_plain_records(
    batch: bytes | bytearray | memoryview,
) -> list[tuple[bytes | None, bytes | None, int, int]]:
    """Return (key, value, offset, timestamp in ms) of every record of one whole batch.

    The fast way for shard logs, which have no headers.

    Raises:
        RecordSetError: The records do not parse.
    """
    try:
        return [
            (record.key, record.value, record.offset, record.timestamp)
            for record in DefaultRecordBatch(batch)
        ]
    except UNDECODABLE as error:
        raise RecordSetError(f"records of the batch cannot be decoded: {error}") from error
