"""Settings of the embedded logs."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Bounds of every log in a data directory.

    Attributes:
        segment_bytes: A segment that would grow beyond this is followed by a new one.
        tick_bytes_max: At most this much is appended and synced at once (group commit).
        queued_bytes_max: More waiting bytes than this refuse further appends.
        batch_bytes_max: Larger record batches are refused (Kafka: ``max.message.bytes``).
        index_interval_bytes: Bytes of log for each entry of the in-memory index.
        record_reserve_bytes: Record logs refuse to grow when less than this is free.
        shard_reserve_bytes: Shard logs refuse to grow when less than this is free.
        recent_bytes_max: Committed batches of all record logs that stay in memory for readers, for
            half a minute.
        verify_open_bytes: The newest bytes of a record log whose checksums are checked before it
            opens; the rest is checked in the background.
        snapshot_every_bytes: A record log that is closed writes a snapshot if a start would
            have to scan more than this.
        fsync: False is ``durability: os``: confirmed records survive a crash of processes only.
    """

    segment_bytes: int = 64 * MIB
    tick_bytes_max: int = 16 * MIB
    queued_bytes_max: int = 64 * MIB
    batch_bytes_max: int = 1 * MIB + 12
    index_interval_bytes: int = 16 * 1024
    record_reserve_bytes: int = 16 * MIB
    shard_reserve_bytes: int = 4 * MIB
    recent_bytes_max: int = 32 * MIB
    verify_open_bytes: int = 16 * MIB
    snapshot_every_bytes: int = 1 * MIB
    fsync: bool = True
