"""A partition of a Kafka topic behind the port PartitionLog."""

from collections.abc import Awaitable, Callable
from functools import partial

from sharemesh.backends.kafka.record_logs.asked_again import Answer, until_answered
from sharemesh.backends.kafka.record_logs.cluster_words import (
    CLUSTER_ERRORS,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    name_of,
    storage_error,
)
from sharemesh.backends.kafka.record_logs.followed_log import FollowedLog
from sharemesh.backends.kafka.record_logs.found_ends import find_ends
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.backends.kafka.record_logs.log_reads import LogReads
from sharemesh.backends.kafka.record_logs.log_watch import LogWatch
from sharemesh.backends.kafka.record_logs.produce_through import NO_TRANSACTIONS, ProduceThrough
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    BrokerRefusedError,
    BrokerUnreachableError,
    UnsupportedRequestError,
)
from sharemesh.ports.ownership import Ownership
from sharemesh.ports.record_log import (
    AppendResult,
    OpenTransaction,
    Placed,
    ReadResult,
    SearchTurn,
    TopicLogConfig,
)
from sharemesh.ports.shard_log import LogFailedError


class KafkaPartitionLog:
    """One topic-partition under one leader epoch of ours; Kafka's own epochs are another thing."""

    def __init__(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        log: FollowedLog,
        access: LogAccess,
        ownership: Ownership,
        watch: LogWatch,
    ) -> None:
        self._partition = partition
        self._leader_epoch = leader_epoch
        self._log = log
        self._access = access
        self._brokers = access.brokers
        self._ownership = ownership
        self._watch = watch
        self._bounds = access.bounds
        self._reads = LogReads(log, access)
        self._produce = ProduceThrough(log, access)
        self._closed = False

    # ---- what is known --------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        """The epoch under which this process leads."""
        return self._leader_epoch

    @property
    def log_start_offset(self) -> int:
        """The first offset that still counts."""
        return self._log.ends.log_start_offset

    @property
    def high_watermark(self) -> int:
        """One past the last record that Kafka confirmed."""
        return self._log.ends.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """One past the last record that belongs to no open transaction."""
        return self._log.ends.last_stable_offset

    @property
    def highest_producer_id(self) -> int:
        """Not known: Kafka hands its producer ids out itself."""
        return -1

    @property
    def has_own_fence(self) -> bool:
        """No: nothing of ours stands in the topic (KRL-17)."""
        return False

    @property
    def damage(self) -> tuple[int, str] | None:
        """The first offset that was lost or cannot be served, and what to do."""
        return self._log.ends.damage

    @property
    def unavailable(self) -> str:
        """Why records cannot be read for the time being, and since when."""
        return self._log.unavailable

    def on_advance(self, callback: Callable[[], None]) -> None:
        """Call back on the loop after each move of the high watermark or the log start."""
        self._log.on_advance(callback)

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Return about how many bytes lie there: what a record had on average so far."""
        first = max(offset, self.log_start_offset)
        count = min(end_offset, self.high_watermark) - first
        return max(1, int(count * self._log.bytes_an_offset)) if count > 0 else 0

    def open_transactions(self) -> list[OpenTransaction]:
        """Return none: Kafka's coordinator knows them."""
        return []

    # ---- reading --------------------------------------------------------------------------------

    async def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int | None = None,
        committed: bool = False,
    ) -> ReadResult:
        """Return whole batches from the one that holds ``offset`` (or the next one)."""
        return await self._reads.read(offset, max_bytes, end_offset, committed=committed)

    async def look(self) -> None:
        """Check that the claim of this process still stands."""
        self._check_open()
        await self._ownership.leads(self._partition, self._leader_epoch)

    def looks_begun(self) -> int:
        """Return 0: none that would count for others: the claim is looked at by each that asks."""
        return 0

    def has_looked_since(self, looks_begun: int) -> bool:  # noqa: ARG002 - the port's words
        """Return False: no commit here looks at the claim."""
        return False

    async def refresh(self) -> None:
        """Ask Kafka where the log starts and ends; what counts was answered since."""
        log, clock = self._log, self._access.clock
        deadline_ms = clock.now_ms() + self._bounds.open_wait_ms

        async def ask() -> None:
            checks, begun = log.checks, log.checks_begun
            found = await find_ends(self._brokers, log.where, log.kafka_epoch)
            if log.refreshed(found, checks):
                return
            await log.until_checked(deadline_ms - clock.now_ms())
            if log.is_checking or log.checks_begun == begun:
                raise BrokerUnreachableError(
                    log.unavailable or "its leader changed, and is asked again"
                )

        try:
            await self._ask(ask)
        except CLUSTER_ERRORS as error:
            raise storage_error("asking for the ends of", log.where, error) from error

    async def offset_for_timestamp(
        self,
        time_ms: int,
        turn: SearchTurn,  # noqa: ARG002 - the brokers open batches
    ) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record at or after the time, or None."""
        try:
            found = await self._ask(partial(self._brokers.list_offset, self._log.where, time_ms))
        except CLUSTER_ERRORS as error:
            raise storage_error("asking for a time in", self._log.where, error) from error
        return None if found.offset < 0 else (found.offset, found.timestamp_ms)

    # ---- writing --------------------------------------------------------------------------------

    async def append(
        self,
        batches: bytes,
        placed: Placed | None = None,  # noqa: ARG002 - the brokers tell with the commit
    ) -> AppendResult:
        """Pass batches through to Kafka; return once all replicas in sync have them."""
        self._check_open()
        return await self._produce.append(batches)

    async def append_txn_marker(
        self,
        producer_id: int,  # noqa: ARG002 - the port's words
        producer_epoch: int,  # noqa: ARG002
        *,
        commit: bool,  # noqa: ARG002
    ) -> AppendResult:
        """Refuse: only Kafka's coordinator ends its transactions."""
        raise RefusedError(ErrorCode.INVALID_TXN_STATE, NO_TRANSACTIONS)

    async def abort_transactions(self, open_ms: int) -> int:  # noqa: ARG002
        """Abort none: Kafka times its transactions out itself."""
        return 0

    async def delete_records(self, before_offset: int) -> int:
        """Move Kafka's log start (-1: to the high watermark), and return it."""
        where = self._log.where
        if before_offset < -1:
            raise _cannot_delete(before_offset, "-1 means the end")
        try:
            await self._ask(
                partial(
                    self._brokers.delete_records,
                    where,
                    before_offset,
                    timeout_ms=self._bounds.delete_timeout_ms,
                )
            )
        except UnsupportedRequestError as error:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_VERSION, f"this cluster has no DeleteRecords: {error}"
            ) from error
        except CLUSTER_ERRORS as error:
            await self._see_start()
            if not 0 <= before_offset <= self.log_start_offset:  # else it is done nevertheless
                raise self._not_deleted(before_offset, error) from error
        await self._see_start()
        return self.log_start_offset

    def _not_deleted(self, before_offset: int, error: Exception) -> RefusedError:
        if isinstance(error, BrokerRefusedError) and error.code == OFFSET_OUT_OF_RANGE:
            return _cannot_delete(before_offset, f"Kafka answers {error}")
        if isinstance(error, BrokerRefusedError) and error.code == POLICY_VIOLATION:
            return RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"Kafka deletes no records of {name_of(self._log.where)}: {error}; its "
                "cleanup.policy must have delete in it",
            )
        return storage_error("deleting records of", self._log.where, error)

    async def _see_start(self) -> None:
        """Ask where the log starts: an answer of DeleteRecords alone does not say it (KRL-15)."""
        try:
            start = await self._ask(
                partial(self._brokers.list_offset, self._log.where, EARLIEST_TIMESTAMP)
            )
        except CLUSTER_ERRORS as error:
            raise storage_error("asking for the start of", self._log.where, error) from error
        self._log.saw(start.offset, -1)

    def configure(self, config: TopicLogConfig) -> None:
        """Do nothing: the topic's settings are Kafka's."""

    async def apply_retention(self, now_wall_ms: int) -> int:  # noqa: ARG002
        """Do nothing: Kafka applies retention."""
        return self.log_start_offset

    async def close(self) -> None:
        """Follow the partition no longer; waiting reads end."""
        if self._closed:
            return
        self._closed = True
        self._reads.close()
        self._log.close()
        await self._watch.leave(self._log)
        await self._log.leave()

    async def _ask(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        return await until_answered(self._access, ask, self._bounds.open_wait_ms)

    def _check_open(self) -> None:
        if self._closed:
            raise LogFailedError(f"the log of {name_of(self._log.where)} is closed")


def _cannot_delete(before_offset: int, why: str) -> RefusedError:
    return RefusedError(
        ErrorCode.OFFSET_OUT_OF_RANGE, f"cannot delete before offset {before_offset}: {why}"
    )
