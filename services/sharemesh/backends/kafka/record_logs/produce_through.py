"""Produce as a pass-through: one batch a request, in order, with acks=all (KRL-13)."""

import asyncio

from sharemesh.backends.kafka.record_logs.cluster_words import CLUSTER_ERRORS, produce_refusal
from sharemesh.backends.kafka.record_logs.followed_log import FollowedLog
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.codec.batch_frame import TRANSACTIONAL, Frame
from sharemesh.codec.produced_batches import check_batches
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.topics import INT64_MAX
from sharemesh.ports.record_log import AppendResult

ANY_TIME = (-INT64_MAX, INT64_MAX)  # which times a topic allows, Kafka knows

NO_TRANSACTIONS = (
    "transactions are Kafka's own here: write them with a Kafka producer that is connected to the "
    "brokers; share groups with share.isolation.level=read_committed see what it committed"
)


class ProduceThrough:
    """Writes batches of clients to one partition, one after the other."""

    def __init__(self, log: FollowedLog, access: LogAccess) -> None:
        self._log = log
        self._brokers = access.brokers
        self._bounds = access.bounds
        self._turn = asyncio.Lock()  # fair: batches land in the order in which they came

    async def append(self, batches: bytes) -> AppendResult:
        """Check all batches, then write each; what fails behind the first says what was written.

        Raises:
            RefusedError: As Kafka refuses; INVALID_TXN_STATE for batches of transactions;
                REQUEST_TIMED_OUT where it is not known whether a batch was written.
        """
        frames = check_batches(
            batches, batch_bytes_max=self._bounds.batch_bytes_max, times_ms=ANY_TIME
        )
        if any(frame.attributes & TRANSACTIONAL for frame in frames):
            raise RefusedError(ErrorCode.INVALID_TXN_STATE, NO_TRANSACTIONS)
        async with self._turn:
            return await self._write(memoryview(batches), frames)

    async def _write(self, view: memoryview, frames: list[Frame]) -> AppendResult:
        first = last = start = -1
        for number, frame in enumerate(frames):
            batch = bytes(view[frame.position : frame.position + frame.size_bytes])
            checks_begun = -1 if self._log.is_checking else self._log.checks_begun
            try:
                landed = await self._brokers.produce(
                    self._log.where, batch, timeout_ms=self._bounds.produce_timeout_ms
                )
            except CLUSTER_ERRORS as error:
                refusal = produce_refusal(self._log.where, error)
                if not number:
                    raise refusal from error
                raise RefusedError(
                    refusal.error,
                    f"batch {number + 1} of {len(frames)}: {refusal.message}; the {number} before "
                    f"it are written, up to offset {last}",
                ) from error
            if landed.base_offset >= 0:
                base = landed.base_offset
                self._log.was_produced(
                    landed.log_start_offset, base, base + frame.record_count, checks_begun
                )
                first = landed.base_offset if first < 0 else first
                last = max(last, landed.base_offset + frame.record_count - 1)
            start = max(start, landed.log_start_offset)
        return AppendResult(first, last, max(start, self._log.ends.log_start_offset))
