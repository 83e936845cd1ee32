"""Bounds of the share leader; each has a name, a unit and a default."""

from dataclasses import dataclass

from sharemesh.places import SharedPlaces

KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """What one leader process accepts, keeps and waits for; all bounds inclusive."""

    max_share_sessions: int = 2_000
    """All of this leader; twice ``max_principal_sessions`` where callers have names (BND-16)."""

    max_principal_sessions: int = 2_000
    """Of these, those of one principal: ``group.share.max.share.sessions`` (spec CFG-4)."""

    max_group_sessions: int = 1_000
    """Of a principal's, those in one group: the most that ``group.share.max.size`` can be."""

    max_waiting_fetches: int = 10_000
    """Long polls that may wait at the same time; more are answered empty at once."""

    max_waiting_partitions: int = 500_000
    """Partitions that the long polls of Fetch may name together: each takes about 600 bytes."""

    max_fetch_wait_ms: int = 30_000
    """Upper bound of ``max_wait_ms`` of a fetch."""

    max_fetch_bytes: int = 55 * MIB
    """``fetch.max.bytes`` (spec REQ-12)."""

    max_response_bytes: int = 1 * MIB
    """Records in one response or stream message, unless a single batch is larger (spec FET-3).

    It bounds how long the event loop writes one answer: with 16 MiB, readers of large answers moved
    the p99 of others to 0.3 s.
    """

    read_ahead_bytes: int = 64 * KIB
    """Read so much beyond the estimate from the index, so that the last batch wanted is whole."""

    max_fetch_records: int = 1_000_000
    """Upper bound of ``max_records``."""

    max_decoded_records: int = 10_000
    """The same in the decoded form (spec BND-34)."""

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

    max_throttle_hold_ms: int = 1_000
    """How long a request that comes before its throttle time is over waits here (QUO-6, QUO-9)."""

    max_held_produce_bytes: int = 64 * MIB
    """Record bytes of all requests that wait so; of one principal, a quarter."""

    default_stream_records: int = 500
    """``ConsumeStart.max_records`` where it is 0."""

    stream_message_bytes: int = MIB
    """A stream message is sent once it holds this many record bytes."""

    max_stream_messages: int = 2
    """Messages with records that wait for a slow reader; no more is acquired meanwhile."""

    max_unsent_bytes: int = 256 * MIB
    """Records that wait to be sent on all streams; then nothing more is acquired (spec BND-3)."""

    max_principal_unsent_bytes: int = 64 * MIB
    """The same of one principal."""

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
    """Maximum age of share state that was prefetched during a take-over."""

    explain_state_ms: int = 5_000
    """How long Explain waits for what the share coordinator knows of a record."""

    max_time_search_wait_ms: int = 5_000
    """How long a search by time waits for its turn to open a batch (spec BND-35)."""

    throttled_rest_ms: int = 1_000
    """How long a stream pauses a partition after a throttled delivery (THR-4, THR-5), unless the
    member acknowledges first: two throttled lots must not be delivered together."""

    empty_take_pause_ms: int = 5
    """Pause of a stream after a fetch that acquired nothing although there seemed to be records."""

    no_room_pause_ms: int = 250
    """Pause of a fetch in the decoded form whose batch had no room, or no place to be unpacked."""

    max_locks_per_tick: int = 1_000
    """Locks of one share partition that expire in one turn of the loop."""

    empty_group_retry_ms: int = 1_000
    """How often a group without sessions is checked again while it still has acquisition locks."""

    write_again_ms: int = 5_000
    """Pause before the state of expired locks is written again, after the persister gave up."""

    settings_pause_ms: int = 50
    """Debounce interval for applying changes of the cluster view."""

    max_transaction_ms: int = 900_000
    """``transaction.max.timeout.ms``: a transaction without an end is aborted then (BND-11)."""

    transaction_check_interval_ms: int = 10_000
    """Interval of the check for transactions that are open for too long."""

    retention_check_interval_ms: int = 300_000
    """``log.retention.check.interval.ms``."""

    hand_over_ms: int = 3_000
    """How long a drain takes to hand locks over; then those that are left lapse (HND-5)."""

    drain_write_ms: int = 5_000
    """How long a drain waits for writes that are under way."""

    @property
    def callers_have_names(self) -> bool:
        """Whether there is more than one principal, so that each has a part of what is bounded."""
        return self.max_principal_unsent_bytes < self.max_unsent_bytes

    def places(self, of_all: int) -> SharedPlaces:
        """Return places of which one principal has half, or all if there is but one."""
        part = of_all // 2 if self.callers_have_names else of_all
        return SharedPlaces(of_all, part)
