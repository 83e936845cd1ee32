"""What a broker does with each request about one partition; as Kafka's, answers may come later."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps

from sharemesh.codec.batch_frame import TRANSACTIONAL
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    BrokerPartition,
    BrokerRefusedError,
    FetchedRecords,
    FoundOffset,
    Isolation,
    ProducedBatch,
)
from sharemesh.testing.memory_brokers.broker import MemoryBroker, Reply
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.replica import Replica
from sharemesh.testing.memory_brokers.replica_log import UNDEFINED_EPOCH_END, ReplicaLog
from sharemesh.testing.memory_brokers.replication import Replication
from sharemesh.testing.memory_brokers.stored_batches import (
    as_configured,
    check_produced,
    stored,
)

Request = Callable[[MemoryBroker, Reply], None]
_WHOLE_LOG = -1


def _refusable(handle: Request) -> Request:
    @wraps(handle)
    def answer(broker: MemoryBroker, reply: Reply) -> None:
        try:
            handle(broker, reply)
        except BrokerRefusedError as error:
            reply(error)

    return answer


def wait_or_give_up(
    broker: MemoryBroker,
    replicas: list[Replica],
    attempt: Callable[[], bool],
    timeout_ms: float,
    give_up: Callable[[], None],
) -> None:
    """Try after each change of some replicas until it succeeds; after the time-out give up."""
    taken_back: list[Callable[[], None]] = []

    def end() -> None:
        deadline.cancel()
        for take_back in taken_back:
            take_back()

    def once_more() -> bool:
        done = attempt()
        if done:
            end()
        return done

    def too_late() -> None:
        end()
        give_up()

    deadline = broker.later(timeout_ms, too_late)
    taken_back.extend(replica.wait(once_more) for replica in replicas)


# ---- writing ------------------------------------------------------------------------------------


def produce(
    partition: BrokerPartition, batch: bytes, timeout_ms: int, replication: Replication
) -> Request:
    """Append one batch; answer when the high watermark has passed it."""

    @_refusable
    def handle(broker: MemoryBroker, reply: Reply) -> None:
        replica = broker.by_id(partition)
        replica.check_epoch(-1)
        topic_id = replica.key[0]
        frame = check_produced(batch, int(broker.setting(topic_id, "max.message.bytes")))
        if frame.attributes & TRANSACTIONAL:
            raise refusal(BrokerCode.INVALID_TXN_STATE, "the partition is in no transaction")
        least = int(broker.setting(topic_id, "min.insync.replicas"))
        if len(replica.in_sync) < least:
            raise refusal(BrokerCode.NOT_ENOUGH_REPLICAS, f"in sync {replica.in_sync}")
        known = replica.log.known_as(stored(batch, frame.base_offset, 0))
        base_offset, time_ms = append(broker, replica, batch) if known is None else (known, -1)
        end_offset = base_offset + frame.record_count
        _answer_when_committed(
            broker, replica, reply, end_offset, timeout_ms, least,
            ProducedBatch(base_offset, time_ms, replica.log.start_offset),
        )  # fmt: skip
        if known is None:
            replication.appended(broker, replica)

    return handle


def append(broker: MemoryBroker, replica: Replica, batch: bytes) -> tuple[int, int]:
    """Append a batch as the topic's settings want it; return its offset, and its time if given."""
    topic_id = replica.key[0]
    is_stamped = broker.setting(topic_id, "message.timestamp.type") == "LogAppendTime"
    time_ms = broker.schedule.wall_ms() if is_stamped else None
    data = as_configured(
        batch,
        compression=broker.setting(topic_id, "compression.type"),
        append_time_ms=time_ms,
    )
    base_offset = replica.log.end_offset
    replica.log.append(stored(data, base_offset, replica.epoch))
    return base_offset, -1 if time_ms is None else time_ms


def _answer_when_committed(
    broker: MemoryBroker,
    replica: Replica,
    reply: Reply,
    end_offset: int,
    timeout_ms: int,
    least: int,
    produced: ProducedBatch,
) -> None:
    epoch = replica.epoch

    def attempt() -> bool:
        if not replica.is_leader or replica.epoch != epoch:
            reply(refusal(BrokerCode.NOT_LEADER_OR_FOLLOWER, "while replicas were waited for"))
        elif replica.high_watermark < end_offset:
            return False
        elif len(replica.in_sync) < least:
            reply(refusal(BrokerCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        else:
            reply(produced)
        return True

    def give_up() -> None:
        reply(refusal(BrokerCode.REQUEST_TIMED_OUT, f"not replicated within {timeout_ms} ms"))

    if not attempt():
        wait_or_give_up(broker, [replica], attempt, timeout_ms, give_up)


def delete_records(
    partition: BrokerPartition, before_offset: int, timeout_ms: int, replication: Replication
) -> Request:
    """Move the log start; answer when every living replica has moved it."""

    @_refusable
    def handle(broker: MemoryBroker, reply: Reply) -> None:
        replica = broker.by_name(partition)
        replica.check_epoch(-1)
        if "delete" not in broker.setting(replica.key[0], "cleanup.policy"):
            raise refusal(BrokerCode.POLICY_VIOLATION, "cleanup.policy has no delete")
        before = replica.high_watermark if before_offset == _WHOLE_LOG else before_offset
        if not 0 <= before <= replica.high_watermark:
            detail = f"{before} is not below the high watermark {replica.high_watermark}"
            raise refusal(BrokerCode.OFFSET_OUT_OF_RANGE, detail)
        replica.log.advance_start(before)

        def attempt() -> bool:
            if not replica.is_leader:
                reply(refusal(BrokerCode.NOT_LEADER_OR_FOLLOWER))
                return True
            living = [each for each in replica.caught_up_ms if each in broker.image.living]
            starts = [replica.starts.get(each, 0) for each in living]
            lowest = min(starts, default=before)
            if lowest >= before:
                reply(min([replica.log.start_offset, *starts]))
            return lowest >= before

        def give_up() -> None:
            reply(refusal(BrokerCode.REQUEST_TIMED_OUT, "a replica has not moved its log start"))

        if not attempt():
            wait_or_give_up(broker, [replica], attempt, timeout_ms, give_up)
        replication.appended(broker, replica)

    return handle


# ---- reading ------------------------------------------------------------------------------------


def divergence(log: ReplicaLog, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    """Return where the log ends for an epoch, if an asker has read more of it than is there."""
    if last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.end_of_epoch(last_fetched_epoch)
    is_cut = epoch < last_fetched_epoch or end_offset < offset
    return (epoch, end_offset) if is_cut else None


def read_now(
    replica: Replica,
    offset: int,
    max_bytes: int,
    isolation: Isolation,
    last_fetched_epoch: int,
    *,
    whole_first: bool = True,
) -> FetchedRecords:
    """Read as a leader does.

    Raises:
        BrokerRefusedError: OFFSET_OUT_OF_RANGE.
    """
    log = replica.log
    diverging = divergence(log, offset, last_fetched_epoch)
    is_beyond = offset > log.end_offset and diverging is None
    if offset < log.start_offset or is_beyond or diverging == UNDEFINED_EPOCH_END:
        detail = f"offset {offset} is not within {log.start_offset}..{log.end_offset}"
        raise refusal(BrokerCode.OFFSET_OUT_OF_RANGE, detail)
    stable = replica.last_stable_offset
    is_committed = isolation is Isolation.READ_COMMITTED
    limit = stable if is_committed else replica.high_watermark
    known = FetchedRecords(
        b"", replica.high_watermark, stable, log.start_offset, leader_epoch=replica.epoch
    )
    if diverging is not None:
        return replace(known, diverging=diverging)
    if offset >= limit:
        return known
    records = log.read(offset, limit, max_bytes, whole_first=whole_first)
    aborted = log.aborted_within(offset, limit) if is_committed else ()
    return replace(known, records=records, aborted=aborted)


def fetch(
    partition: BrokerPartition,
    known_epoch: int,
    offset: int,
    limits: tuple[int, int],
    isolation: Isolation,
    last_fetched_epoch: int,
) -> Request:
    """Read; ``limits`` are the most bytes, and how long to wait for the first."""
    max_bytes, max_wait_ms = limits

    @_refusable
    def handle(broker: MemoryBroker, reply: Reply) -> None:
        replica = broker.by_id(partition)

        def read() -> FetchedRecords:
            replica.check_epoch(known_epoch)
            return read_now(replica, offset, max_bytes, isolation, last_fetched_epoch)

        def attempt(*, is_last: bool = False) -> bool:
            try:
                got = read()
            except BrokerRefusedError as error:
                reply(error)
                return True
            is_something = bool(got.records) or got.diverging is not None
            if is_something or is_last:
                reply(got)
            return is_something or is_last

        def give_up() -> None:
            attempt(is_last=True)

        if not attempt(is_last=max_wait_ms <= 0):
            wait_or_give_up(broker, [replica], attempt, max_wait_ms, give_up)

    return handle


def list_offset(
    partition: BrokerPartition, known_epoch: int, timestamp_ms: int, isolation: Isolation
) -> Request:
    """Find an offset by time, or an end of the log."""

    @_refusable
    def handle(broker: MemoryBroker, reply: Reply) -> None:
        replica = broker.by_name(partition)
        replica.check_epoch(known_epoch)
        log = replica.log
        if timestamp_ms == EARLIEST_TIMESTAMP:
            epoch = log.epoch_of(log.start_offset)
            reply(FoundOffset(log.start_offset, leader_epoch=epoch))
            return
        if not replica.is_end_known:
            raise refusal(BrokerCode.OFFSET_NOT_AVAILABLE, "the high watermark lags")
        is_committed = isolation is Isolation.READ_COMMITTED
        end_offset = replica.last_stable_offset if is_committed else replica.high_watermark
        if timestamp_ms == LATEST_TIMESTAMP:
            reply(FoundOffset(end_offset, leader_epoch=replica.epoch))
            return
        found = log.find_time(timestamp_ms, end_offset)
        if found is None:
            reply(FoundOffset(-1))
        else:
            reply(FoundOffset(*found, leader_epoch=log.epoch_of(found[0])))

    return handle


def end_offset_of_epoch(partition: BrokerPartition, known_epoch: int, leader_epoch: int) -> Request:
    """Say where an epoch ends (KIP-320)."""

    @_refusable
    def handle(broker: MemoryBroker, reply: Reply) -> None:
        replica = broker.by_name(partition)
        replica.check_epoch(known_epoch)
        reply(replica.log.end_of_epoch(leader_epoch))

    return handle


# ---- topics, as a broker knows them -------------------------------------------------------------


def topic_configs(topic: str) -> Request:
    """Return the effective settings of a topic."""

    @_refusable
    def handle(broker: MemoryBroker, reply: Reply) -> None:
        image = broker.image.topics.get(topic)
        if topic in broker.denied:
            raise refusal(BrokerCode.TOPIC_AUTHORIZATION_FAILED, topic)
        if image is None:
            raise refusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        settings: Mapping[str, str] = image.effective()
        reply(settings)

    return handle
