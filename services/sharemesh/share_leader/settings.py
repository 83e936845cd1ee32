"""Bounds of the share leader; each has a name, a unit and a default."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """What one leader process accepts, keeps and waits for; all bounds inclusive."""

    max_share_sessions: int = 2_000
    """``group.share.max.share.sessions`` (spec CFG-4)."""

    max_waiting_fetches: int = 10_000
    """Long polls that may wait at the same time; more are answered empty at once."""

    max_fetch_wait_ms: int = 30_000
    """Upper bound of ``max_wait_ms`` of a fetch."""

    max_fetch_bytes: int = 55 * MIB
    """``fetch.max.bytes`` (spec REQ-12)."""

    max_response_bytes: int = 16 * MIB
    """Records in one response or stream message, unless a single batch is larger."""

    read_ahead_bytes: int = 64 * KIB
    """Read at least so much of a partition, where the estimate from the index is smaller."""

    max_fetch_records: int = 1_000_000
    """Upper bound of ``max_records``."""

    max_partitions_per_request: int = 10_000
    """Partitions that one request, or one session, may name."""

    max_session_partitions: int = 1_000_000
    """Partitions of all share sessions together; sessions of up to 100 come in nevertheless."""

    max_acknowledge_batches: int = 100_000
    """Acknowledgement batches in one request."""

    max_acknowledge_offsets: int = 1_000_000
    """Acknowledge types listed in one request, and offsets of one acknowledgement batch."""

    max_produce_bytes: int = 16 * MIB
    """Record bytes of one produce request, over its partitions."""

    max_produce_records: int = 100_000
    """Decoded records of one produce request."""

    max_produce_wait_ms: int = 30_000
    """Upper bound of ``timeout_ms`` of a produce request, and its default."""

    default_stream_records: int = 500
    """``ConsumeStart.max_records`` where it is 0."""

    stream_message_bytes: int = MIB
    """A stream message is sent once it holds so many record bytes."""

    max_stream_messages: int = 2
    """Messages with records that wait for a slow reader; no more is acquired meanwhile."""

    max_stream_acknowledges: int = 1_000
    """Acknowledgements of a stream that are not answered yet; then the stream is not read."""

    stream_close_ms: int = 5_000
    """How long the end of a stream waits for a slow reader to take the last messages."""

    stream_retry_ms: int = 1_000
    """Pause of a stream before it tries a failed share partition again."""

    take_over_wait_ms: int = 1_000
    """How long a stream keeps a partition that was added to it while this node takes it over."""

    hand_over_wait_ms: int = 10_000
    """The same, while another leader drains the partition in favour of this node."""

    early_read_ms: int = 5_000
    """So long after it was asked for, state that was read ahead of a take-over is used."""

    explain_state_ms: int = 5_000
    """How long Explain waits for what the share coordinator knows of a record."""

    throttled_rest_ms: int = 1_000
    """After a delivery that suspicious records ended, the stream takes no more of that partition
    until the member has acknowledged, or so long: lots of THR-4 and THR-5 must not be delivered
    together."""

    empty_take_pause_ms: int = 5
    """Pause of a stream after a fetch that acquired nothing although there seemed to be records."""

    max_locks_per_tick: int = 1_000
    """Locks of one share partition that expire in one turn of the loop."""

    empty_group_retry_ms: int = 1_000
    """How often a group without sessions is looked at again while locks of it still run."""

    write_again_ms: int = 5_000
    """Pause before the state of expired locks is written again, after the persister gave up."""

    settings_pause_ms: int = 50
    """After a change of the view was looked at, the next ones wait at most so long."""

    retention_check_interval_ms: int = 300_000
    """``log.retention.check.interval.ms``."""

    drain_write_ms: int = 5_000
    """How long a drain waits for writes that are under way."""

    max_member_id_chars: int = 36
    """Spec REQ-1."""
