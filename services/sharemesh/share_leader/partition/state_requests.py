"""What a share partition's machine waits for: reads and writes of its state, its start offset.

Each piece of work ends as exactly one event, whatever ends it: the answer, an error of any kind, or
the stop of the process (spec INI-13). So the machine never waits for something that is over.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_config
from sharemesh.domain.group_config.definition import reset_duration_ms
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicPartition
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.share_partition.events import (
    Event,
    StartOffsetResolved,
    StateRead,
    StateWritten,
)
from sharemesh.domain.share_partition.rules.hand_over import fault_in_locks
from sharemesh.domain.share_partition.rules.retry import loaded_batches, stored_batches
from sharemesh.ports.record_log import PartitionLog
from sharemesh.ports.share_state import StateReadResult, StateWrite
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import outcome_of
from sharemesh.share_leader.time_searches import NOBODY

_log = logging.getLogger(__name__)


class StateRequests:
    """Runs it, and hands its end to ``hear``."""

    def __init__(
        self,
        key: SharePartitionKey,
        log: PartitionLog,
        environment: LeaderEnvironment,
        hear: Callable[[Event], None],
        early: "asyncio.Future[StateReadResult] | None",
        *,
        takes_locks: bool = True,
        handing_over: int = 0,
    ) -> None:
        """``early`` is a read that was asked for before the log was there; it is used once.

        ``takes_locks``: those that the leader before handed over live on here (HND-7), whose last
        write is awaited if it is that of epoch ``handing_over`` (HND-13).
        """
        self._key = key
        self._log = log
        self._environment = environment
        self._hear = hear
        self._early = early
        self._takes_locks = takes_locks
        self._handing_over = handing_over
        self.fence_epoch = -1  # the highest leader epoch that refused a read of ours
        self._running: dict[asyncio.Task[Any], None] = {}

    def __len__(self) -> int:
        """How much is under way."""
        return len(self._running)

    async def settle(self) -> None:
        """Return once nothing is under way."""
        while self._running:
            await asyncio.wait(list(self._running))

    def read_state(self, leader_epoch: int) -> None:
        """Read the stored state, which fences leaders of lower epochs (spec SC-10)."""
        self._begin("reading the state", self._read(leader_epoch), _not_read)

    def resolve_start_offset(self, policy: str) -> None:
        """Look up where a share partition without stored state begins (spec INI-4)."""
        work = self._resolve(policy)
        self._begin("looking up the start offset", work, partial(StartOffsetResolved, -1))

    def write_state(self, write: WriteState, trace: tuple[bytes, bytes]) -> None:
        """Write state; ``trace`` is the trace id and span id that the write carries."""
        clock = self._environment.clock
        if write.is_delayed:
            now_ms, wall_ms = clock.now_ms(), clock.wall_ms()
            write = write._replace(batches=stored_batches(write.batches, now_ms, wall_ms))
        work = self._write(write, trace)
        self._begin("writing the state", work, partial(_not_written, write.write_id))

    def _begin(
        self,
        what: str,
        work: Coroutine[None, None, Event],
        failed: Callable[[ErrorCode, str], Event],
    ) -> None:
        def ended(outcome: Event | BaseException) -> None:
            self._running.pop(task, None)
            if isinstance(outcome, BaseException):
                outcome = failed(*outcome_of(what, self._key, outcome))
            self._hear(outcome)

        task = self._environment.tasks.spawn_heard(work, ended)
        self._running[task] = None

    async def _read(self, leader_epoch: int) -> StateRead:
        early, self._early = self._early, None
        if early is None:
            result = await self._environment.persister.read_state(
                self._key, leader_epoch, self._handing_over
            )
        else:
            result = await early
        self.fence_epoch = max(self.fence_epoch, result.known_leader_epoch)
        if result.start_offset > self._log.high_watermark:
            await self._tell_behind_the_end(result.start_offset)
        clock = self._environment.clock
        fault = fault_in_locks(result.handed_over, leader_epoch)
        if fault is not None:
            _log.warning("%s: %s; the locks that were handed over lapse", self._key, fault)
        return StateRead(
            ErrorCode(result.error),
            state_epoch=result.state_epoch,
            start_offset=result.start_offset,
            batches=loaded_batches(result.batches, clock.now_ms(), clock.wall_ms()),
            message=result.message,
            handed_over=() if fault or not self._takes_locks else result.handed_over,
            tally_of=self._environment.tally_of,
            delivery_complete_count=result.delivery_complete_count,
        )

    async def _tell_behind_the_end(self, start_offset: int) -> None:
        """Say that the group gets nothing for now, and why that may be (KRL-20)."""
        try:
            await self._log.refresh()
        except RefusedError:
            return  # memory alone may be older than what was acknowledged
        if start_offset > self._log.high_watermark:
            topic = self._environment.view.topic(self._key.topic_id)
            _log.warning(
                "group %s starts at offset %d of %s/%d, which ends at %d: records were lost after "
                "it had them, or its offsets were set so; it gets nothing before that offset is "
                "written again, unless you set it back with sharemesh groups reset-offsets",
                self._key.group_id,
                start_offset,
                topic.name if topic else self._key.topic_id.hex(),
                self._key.partition,
                self._log.high_watermark,
            )

    async def _resolve(self, policy: str) -> StartOffsetResolved:
        return StartOffsetResolved(await resolve_start_offset(policy, self._log, self._environment))

    async def _write(self, write: WriteState, trace: tuple[bytes, bytes]) -> StateWritten:
        trace_id, span_id = trace
        result = await self._environment.persister.write_state(
            self._key,
            StateWrite(
                state_epoch=write.state_epoch,
                leader_epoch=write.leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.delivery_complete_count,
                batches=write.batches,
                cause=write.cause,
                member_id=write.member_id,
                trace_id=trace_id,
                span_id=span_id,
                hand_over=write.hand_over,
                is_last=write.is_last,
                is_recount=write.is_recount,
            ),
        )
        error = ErrorCode(result.error)
        return StateWritten(write.write_id, error, result.message, result.keeps_hand_over)


async def resolve_start_offset(
    policy: str, log: PartitionLog, environment: LeaderEnvironment
) -> int:
    """Return the offset that ``share.auto.offset.reset`` means in this log now.

    ``latest`` is the high watermark, ``earliest`` the log start, ``by_duration:…`` the first
    record at most that old (the high watermark if there is none).

    Raises:
        RefusedError: INVALID_CONFIG for another policy, or the log's own error.
    """
    await log.refresh()
    duration_ms = reset_duration_ms(policy)
    if duration_ms is not None:
        time_ms = environment.clock.wall_ms() - duration_ms
        found = await environment.time_searches.find(log, time_ms, NOBODY)
        return log.high_watermark if found is None else found[0]
    if policy.lower() == "earliest":
        return log.log_start_offset
    if policy.lower() == "latest":
        return log.high_watermark
    raise invalid_config(
        f"share.auto.offset.reset is {policy!r}; set latest, earliest or by_duration:PnDTnHnMnS"
    )


class StatePrefetch:
    """One read for each group whose members wait for a partition; each answer is used once.

    Nothing is granted before both are there, the log's fence and the state read under the new
    leader epoch; so their order does not matter, and a hand-over is shorter by the faster one.
    """

    def __init__(
        self,
        environment: LeaderEnvironment,
        partition: TopicPartition,
        leader_epoch: int,
        groups: Iterable[GroupId],
        handing_over: int = 0,
    ) -> None:
        self._handing_over = handing_over
        self._clock = environment.clock
        self._until_ms = self._clock.now_ms() + environment.settings.early_read_ms
        self._reads: dict[GroupId, asyncio.Task[StateReadResult]] = {}
        for group_id in sorted(groups):  # of a set: the same order in every run
            key = SharePartitionKey(group_id, partition.topic_id, partition.partition)
            read = environment.persister.read_state(key, leader_epoch, handing_over)
            self._reads[group_id] = environment.tasks.spawn(read)

    def take(self, group_id: GroupId) -> "asyncio.Task[StateReadResult] | None":
        """Return the prefetched read of a group to await; None if there is none or it is too old.

        It is returned once. Later callers read again: offsets may have been reset meanwhile.
        """
        read = self._reads.pop(group_id, None)
        return read if self._clock.now_ms() < self._until_ms else None

    @property
    def handing_over(self) -> int:
        """The epoch of the leader whose last writes reads wait for; 0: they wait for nothing."""
        return self._handing_over if self._clock.now_ms() < self._until_ms else 0

    @property
    def untaken(self) -> tuple[GroupId, ...]:
        """Groups whose state is read, and of which nobody has come yet."""
        return tuple(self._reads)


def _not_read(error: ErrorCode, message: str) -> StateRead:
    return StateRead(error, message=message)


def _not_written(write_id: int, error: ErrorCode, message: str) -> StateWritten:
    return StateWritten(write_id, error, message)
