"""Fetch: record batches as they are stored, without a group and without locks (spec FET)."""

import asyncio
from collections.abc import Sequence

from sharemesh.authorization.slices import Slices
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.network import CallContext
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import Outcome, outcome_of
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions, Redirects
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.share_leader.requests.delayed_fetch import NOTHING_READ, DelayedFetch, FetchedPart
from sharemesh.share_leader.requests.leader_epochs import check_epoch
from sharemesh.share_leader.requests.produce import check_parts
from sharemesh.timers import TimerHandle
from sharemesh.v1 import record_log_pb2 as pb

_READING_AT_ONCE = 16
"""Requests of a process that read at the same time: each may get ``max_response_bytes``. Half of
them of one principal: its others do not stand in everybody's way."""

_READS_OF_A_REQUEST = 8
"""Partitions that one request reads at the same time."""

_NOT_KNOWN = -1


class Fetch:
    """Answers Fetch."""

    def __init__(
        self,
        environment: LeaderEnvironment,
        partitions: LedPartitions,
        access: LeaderAccess,
        pacing: LeaderPacing,
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access
        self._pacing = pacing
        self._reading = environment.settings.places(_READING_AT_ONCE)
        self._waiting = self._waiting_for = 0  # requests, and partitions that they name

    async def __call__(self, request: pb.FetchRequest, context: CallContext) -> pb.FetchResponse:
        """Answer one request; a partition that is refused does not hinder the others."""
        settings, clock = self._environment.settings, self._environment.clock
        check_parts(request.partitions, settings.max_partitions_per_request, "partitions")
        principal = context.principal
        slices = Slices(clock, principal)
        wait_ms = min(max(0, request.max_wait_ms), settings.max_fetch_wait_ms)
        named = len(request.partitions)
        deadline_ms = clock.now_ms() + (wait_ms if named and request.min_bytes > 0 else 0)
        if (
            self._waiting >= settings.max_waiting_fetches
            or self._waiting_for + named > settings.max_waiting_partitions
        ):
            deadline_ms = clock.now_ms()
        self._waiting += 1
        self._waiting_for += named
        try:
            may_read = await self._turn(principal, deadline_ms)
            parts = await self._found(request.partitions, principal, slices)
            if may_read:
                await self._read_once_ready(request, parts, context, deadline_ms, slices)
        finally:
            self._waiting -= 1
            self._waiting_for -= named
        response = await self._answer(parts, slices)
        response.throttle_time_ms = self._pacing.read_throttle_ms(principal)
        self._withhold(parts, response, principal)
        return response

    async def _turn(self, principal: str, deadline_ms: int) -> bool:
        """Return whether a quota lets something be read; wait for that a while (FET-6)."""
        if self._pacing.may_read(principal):
            return True
        settings = self._environment.settings
        if self._waiting > settings.max_waiting_fetches:
            return False
        held_ms = self._environment.clock.now_ms() + settings.max_throttle_hold_ms
        return await self._pacing.until_may_read(principal, max(deadline_ms, held_ms))

    # ---- what is asked for ----------------------------------------------------------------------

    async def _found(
        self, listed: Sequence[pb.FetchPartition], principal: str, slices: Slices
    ) -> list[FetchedPart]:
        """Return the partitions with their logs, or with why there is none."""
        parts: list[FetchedPart] = []
        for asked in listed:
            part = FetchedPart(asked, TopicPartition(TopicId(asked.topic_id), asked.partition))
            parts.append(part)
            try:
                part.partition = self._access.partition(principal, asked, Operation.READ)
                led = self._partitions.with_log(part.partition)
                check_epoch(asked, led.leader_epoch)
                part.led, part.looks_before = led, led.log.looks_begun()
            except RefusedError as refused:
                part.outcome = (refused.error, refused.message)
            await slices.spend()
        return parts

    # ---- waiting and reading --------------------------------------------------------------------

    async def _read_once_ready(
        self,
        request: pb.FetchRequest,
        parts: Sequence[FetchedPart],
        context: CallContext,
        deadline_ms: int,
        slices: Slices,
    ) -> None:
        """Read as soon as there is enough, or something to tell, or at the deadline (FET-4)."""
        clock, most = self._environment.clock, self._most_bytes(request)
        committed = request.read_committed
        min_bytes = min(request.min_bytes, most)
        wait = DelayedFetch(parts, committed=committed, min_bytes=min_bytes, slices=slices)
        alarm: TimerHandle | None = None
        try:
            while True:
                is_late = clock.now_ms() >= deadline_ms
                if await wait.is_ready() or is_late:
                    await self._room(context, deadline_ms)
                    await self._read(wait, context, most, committed=committed)
                    if is_late or any(part.outcome or part.read.headers for part in parts):
                        return
                if alarm is None:
                    alarm = self._environment.alarms.at(deadline_ms, wait.expire)
                await wait.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
            wait.close()

    def _most_bytes(self, request: pb.FetchRequest) -> int:
        return min(max(1, request.max_bytes), self._environment.settings.max_response_bytes)

    async def _room(self, context: CallContext, deadline_ms: int) -> None:
        """Wait a while for room in what the principal's answers may take (BND-33)."""
        if context.answer is not None:
            now_ms = self._environment.clock.now_ms()
            held_ms = self._environment.settings.max_throttle_hold_ms
            await context.answer.until_room(max(deadline_ms - now_ms, held_ms))

    async def _read(
        self, wait: DelayedFetch, context: CallContext, most: int, *, committed: bool
    ) -> None:
        """Read what fits and has room, as far as the principal's quota lets (FET-6, BND-33)."""
        principal, answer = context.principal, context.answer
        async with self._reading.place(principal):
            set_aside = most if answer is None else answer.take(most)
            if not set_aside:
                return
            allowed = self._pacing.begin_read(principal, most)
            taken = 0
            try:
                left = min(set_aside, most if allowed is None else allowed.max_bytes)
                taken = await self._read_within(wait.to_read(), left, committed=committed)
            finally:
                if answer is not None:
                    answer.give_back(set_aside - taken)
                if allowed is not None:
                    self._pacing.settle(allowed, principal, "", taken, 0)

    async def _read_within(
        self, parts: Sequence[FetchedPart], left: int, *, committed: bool
    ) -> int:
        """Return how many bytes are given; the first batch of all may be larger than fits.

        The first that does not fit is the last that is looked at: reading costs as much where
        nothing is given.
        """
        taken = position = 0
        fits = True
        while position < len(parts) and left > 0 and fits:
            grants = _grants(parts[position:][:_READS_OF_A_REQUEST], left, committed=committed)
            position += len(grants)
            if len(grants) == 1:
                await self._read_part(*grants[0], committed=committed)
            else:
                await asyncio.gather(
                    *(self._read_part(*grant, committed=committed) for grant in grants)
                )
            for part, _ in grants:
                size = len(part.read.records)
                if taken and size > min(left, part.max_bytes):
                    part.read, fits = NOTHING_READ, False
                    continue
                taken += size
                left -= size
        return taken

    async def _read_part(self, part: FetchedPart, most: int, *, committed: bool) -> None:
        """Read one partition, and check for a higher fence (LOG-8); an error is its own."""
        led, offset = part.led, part.asked.fetch_offset
        try:
            if led is None or self._partitions.with_log(part.partition) is not led:
                raise LogFailedError("this process leads it under another epoch now")
            log = led.log
            if offset > log.high_watermark:
                await log.refresh()  # others may write to it, too
            if log.damage is not None and offset >= log.damage[0]:
                raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, log.damage[1])
            read = await log.read(offset, max_bytes=most, committed=committed)
            if read.headers and not log.has_looked_since(part.looks_before):
                await led.looks.look()
            part.read = read
        except Exception as error:
            part.outcome = self._failed(led, part.partition, error)

    def _failed(
        self, led: LedPartition | None, partition: TopicPartition, error: Exception
    ) -> Outcome:
        if led is not None and isinstance(error, FencedError | LogFailedError):
            self._partitions.epoch_ended(led, error)  # unless another has taken its place
        return outcome_of("reading", partition, error)

    # ---- answering ------------------------------------------------------------------------------

    async def _answer(self, parts: Sequence[FetchedPart], slices: Slices) -> pb.FetchResponse:
        redirects = Redirects(self._environment.view)
        response = pb.FetchResponse()
        for part in parts:
            result = response.partitions.add(
                topic_id=part.partition.topic_id,
                partition=part.asked.partition,
                high_watermark=_NOT_KNOWN,
                last_stable_offset=_NOT_KNOWN,
                log_start_offset=_NOT_KNOWN,
            )
            if part.led is not None and not part.led.closed:
                log = part.led.log
                result.high_watermark = log.high_watermark
                result.last_stable_offset = log.last_stable_offset
                result.log_start_offset = log.log_start_offset
                result.leader_epoch = part.led.leader_epoch
            if part.outcome is not None:
                code, result.error_message = part.outcome
                result.error_code = int(code)
                leader = redirects.leader_of(part.partition, code)
                if leader is not None:
                    result.current_leader.CopyFrom(leader)
            elif part.read.headers:
                result.records = part.read.records
                for each in part.read.aborted or ():
                    result.aborted_transactions.add(
                        producer_id=each.producer_id, first_offset=each.first_offset
                    )
            await slices.spend()
        response.node_endpoints.extend(redirects.endpoints())
        return response

    def _withhold(
        self, parts: Sequence[FetchedPart], response: pb.FetchResponse, principal: str
    ) -> None:
        """Hand out nothing whose right went while the request waited (AUT-4)."""
        refusals: dict[TopicId, Outcome | None] = {}
        for part, result in zip(parts, response.partitions, strict=True):
            if part.outcome is not None:
                continue
            topic_id = part.partition.topic_id
            if topic_id not in refusals:
                refusals[topic_id] = self._refusal(part.partition, principal)
            refusal = refusals[topic_id]
            if refusal is None:
                self._environment.counters.bytes_delivered += len(result.records)
                continue
            result.Clear()
            result.topic_id, result.partition = topic_id, part.asked.partition
            result.high_watermark = result.last_stable_offset = _NOT_KNOWN
            result.log_start_offset = _NOT_KNOWN
            result.error_code, result.error_message = int(refusal[0]), refusal[1]

    def _refusal(self, partition: TopicPartition, principal: str) -> Outcome | None:
        try:
            self._access.topic(principal, partition, Operation.READ)
        except RefusedError as refused:
            return refused.error, refused.message
        return None


def _grants(
    parts: Sequence[FetchedPart], left: int, *, committed: bool
) -> list[tuple[FetchedPart, int]]:
    """Return the first partitions that probably fill what is left, and how much each may read."""
    grants: list[tuple[FetchedPart, int]] = []
    for part in parts:
        grants.append((part, min(part.max_bytes, left)))
        left -= part.available_bytes(committed=committed)
        if left <= 0:
            break
    return grants
