"""The header of a Kafka RecordBatch v2: what the server reads; records stay opaque (spec LOG-1)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """Fields of one record batch as stored; offsets inclusive, times in ms."""

    base_offset: int
    last_offset: int
    size_bytes: int  # whole batch, header included
    leader_epoch: int
    record_count: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    is_abort_marker: bool = False
