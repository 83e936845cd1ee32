"""Initialization of a share partition: the read of its state, and its first start offset."""

import asyncio
from collections.abc import Iterable

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config.durations import reset_duration_ms
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.record_log import PartitionLog
from sharemesh.ports.share_state import StateReadResult
from sharemesh.share_leader.environment import LeaderEnvironment


async def resolve_start_offset(policy: str, log: PartitionLog, clock: Clock) -> int:
    """Return the offset that ``share.auto.offset.reset`` means in this log now.

    ``latest`` is the high watermark, ``earliest`` the log start, ``by_duration:…`` the first
    record at most that old (the high watermark if there is none).

    Raises:
        RefusedError: INVALID_CONFIG for another policy, or the log's own error.
    """
    duration_ms = reset_duration_ms(policy)
    if duration_ms is not None:
        found = await log.offset_for_timestamp(clock.wall_ms() - duration_ms)
        return log.high_watermark if found is None else found[0]
    if policy.lower() == "earliest":
        return log.log_start_offset
    if policy.lower() == "latest":
        return log.high_watermark
    raise RefusedError(
        ErrorCode.INVALID_CONFIG,
        f"share.auto.offset.reset is {policy!r}; set latest, earliest or by_duration:PnDTnHnMnS",
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
    ) -> None:
        self._clock = environment.clock
        self._until_ms = self._clock.now_ms() + environment.settings.early_read_ms
        self._reads: dict[GroupId, asyncio.Task[StateReadResult]] = {}
        for group_id in sorted(groups):  # of a set: the same order in every run
            key = SharePartitionKey(group_id, partition.topic_id, partition.partition)
            read = environment.persister.read_state(key, leader_epoch)
            self._reads[group_id] = environment.tasks.spawn(read)

    def take(self, group_id: GroupId) -> "asyncio.Task[StateReadResult] | None":
        """Return the read of a group, to be awaited, if it was asked for, lately, and not taken.

        Whoever comes later reads anew: offsets may have been reset meanwhile.
        """
        read = self._reads.pop(group_id, None)
        return read if self._clock.now_ms() < self._until_ms else None
