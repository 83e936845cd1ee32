"""Snapshots of record logs: what a start would else have to scan whole segments for (LOG-17).

A snapshot belongs to one segment and says, as of one committed offset in it, what the batches up
to there mean: the index of that segment, all idempotent producers of the log, open transactions,
and the transactions whose abort marker lies in the segment. So it also keeps producers whose
batches retention has deleted. It is used only if its segment is on the chain, it lies within what
the chain takes of that segment, and its checksum fits; without one the segment is scanned.

Layout: magic, checksum of the rest, the fixed fields, then (little-endian, 8 bytes each) the
offsets, positions and times of the index, open transactions, aborted ones, and producers.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sharemesh.backends.embedded.owned.offset_index import OffsetIndex, SegmentIndex
from sharemesh.backends.embedded.owned.segments import Segment
from sharemesh.backends.embedded.records.producers import (
    AbortedTxn,
    AppendedBatch,
    ProducerEntry,
    Producers,
    Transactions,
)
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.segment import SegmentName
from sharemesh.ports.disk import Disk

SNAPSHOT_BYTES_MAX = 64 * 1024 * 1024

_MAGIC = b"shmsnap1"
_HEAD = struct.Struct("<8sI")
# epoch, base offset, offset, position, newest time, interval, highest producer id, counts
_FIXED = struct.Struct("<qqqqqqqqqqq")
_PRODUCER = struct.Struct("<qqq")  # id, epoch, batches
_WRITTEN = struct.Struct("<qqqq")
_OPEN = struct.Struct("<qq")
_ABORTED = struct.Struct("<qqq")


@dataclass(slots=True)
class RecordLogSnapshot:
    """A snapshot that was read; ``producers`` are decoded when they are asked for."""

    index: SegmentIndex
    open_transactions: dict[int, int]
    aborted: list[AbortedTxn]
    highest_producer_id: int
    producer_count: int
    producer_bytes: memoryview

    def producers(self) -> Producers:
        """Return all producers of the log as of the snapshot."""
        producers = Producers()
        producers.saw_id(self.highest_producer_id)
        producers.restore_transactions(self.open_transactions)
        at = 0
        for _ in range(self.producer_count):
            producer_id, epoch, count = _PRODUCER.unpack_from(self.producer_bytes, at)
            at += _PRODUCER.size
            end = at + _WRITTEN.size * count
            rows = _WRITTEN.iter_unpack(self.producer_bytes[at:end])
            at = end
            producers.restore(
                producer_id, ProducerEntry(epoch, tuple(AppendedBatch(*row) for row in rows))
            )
        return producers


def write_snapshot(
    disk: Disk,
    path: str,
    segment: Segment,
    index: OffsetIndex,
    producers: Producers,
    transactions: Transactions,
) -> None:
    """Write the snapshot of ``segment`` as of its end, durably. Blocks.

    Raises:
        OSError: It is not there, or the one before it still is.
    """
    known = index.segments[-1] if index.segments else None
    if known is None or known.segment is not segment:
        known = SegmentIndex(segment, index.interval_bytes, segment.base_offset)
    data = _encode(segment, known, producers, transactions)
    if len(data) <= SNAPSHOT_BYTES_MAX:
        disk.write_small(f"{path}/{segment.name.snapshot_name}", data)


def read_snapshot(
    disk: Disk, path: str, segment: Segment, *, interval_bytes: int
) -> RecordLogSnapshot | None:
    """Return the snapshot of a segment, or None if there is none that may be used. Blocks."""
    try:
        data = disk.read(f"{path}/{segment.name.snapshot_name}", 0, SNAPSHOT_BYTES_MAX)
    except FileNotFoundError:
        return None
    if len(data) < _HEAD.size + _FIXED.size:
        return None
    magic, checksum = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or crc32c(body) != checksum:
        return None
    return _decode(body, segment, interval_bytes)


def _encode(
    segment: Segment, index: SegmentIndex, producers: Producers, transactions: Transactions
) -> bytes:
    is_open = transactions.open()
    aborted = transactions.aborted_from(segment.base_offset)
    every = list(producers.all())
    pieces = [
        _FIXED.pack(
            segment.name.epoch,
            segment.name.base_offset,
            segment.end_offset,
            segment.end_position,
            index.max_timestamp_ms,
            index.interval_bytes,
            producers.highest_id,
            len(index.offsets),
            len(is_open),
            len(aborted),
            len(every),
        )
    ]
    for column in (index.offsets, index.positions, index.earlier_max_ms):
        pieces.append(struct.pack(f"<{len(column)}q", *column))
    pieces += [_OPEN.pack(*each) for each in is_open.items()]
    pieces += [_ABORTED.pack(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted]
    for producer_id, producer in every:
        pieces.append(_PRODUCER.pack(producer_id, producer.epoch, len(producer.batches)))
        pieces += [_WRITTEN.pack(*batch) for batch in producer.batches]
    body = b"".join(pieces)
    return _HEAD.pack(_MAGIC, crc32c(body)) + body


def _decode(body: memoryview, segment: Segment, interval_bytes: int) -> RecordLogSnapshot | None:
    epoch, base, offset, position, max_ms, interval, highest, entries, opened, aborted, count = (
        _FIXED.unpack_from(body)
    )
    if (
        SegmentName(epoch, base) != segment.name
        or offset > segment.end_offset
        or position > segment.end_position
    ):
        return None
    at = _FIXED.size
    index = SegmentIndex(segment, interval_bytes or interval, offset, position, max_ms)
    for column in (index.offsets, index.positions, index.earlier_max_ms):
        column.extend(struct.unpack_from(f"<{entries}q", body, at))
        at += 8 * entries
    is_open = {row[0]: row[1] for row in _rows(_OPEN, body, at, opened)}
    at += _OPEN.size * opened
    ended = [AbortedTxn(*row) for row in _rows(_ABORTED, body, at, aborted)]
    at += _ABORTED.size * aborted
    return RecordLogSnapshot(index, is_open, ended, highest, count, body[at:])


def _rows(row: struct.Struct, body: memoryview, at: int, count: int) -> Iterator[tuple[int, ...]]:
    yield from row.iter_unpack(body[at : at + row.size * count])
