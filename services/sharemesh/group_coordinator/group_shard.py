"""A shard of the group coordinator on the runtime: machine, records, bytes, and decisions."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sharemesh.codec.group_record import Moment, read_record, record_key, record_value
from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.context import GroupContext, GroupDecision
from sharemesh.domain.share_group.group import ShareGroup
from sharemesh.domain.share_group.records import GroupLogRecord, GroupMetadata
from sharemesh.domain.share_group.shard import GroupShard
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import LogRecord
from sharemesh.runtime.shard import CoordinatorShard
from sharemesh.runtime.shard_kind import Decision, ShardDefinition, replaying

LOG_NAME = "group"

Answer = TypeVar("Answer")
Decide = Callable[[ShareGroup | None, GroupContext], GroupDecision[Answer]]
LoadedShard = CoordinatorShard[GroupShard, GroupLogRecord]

_log = logging.getLogger("sharemesh.group_coordinator")


def group_shard_kind(clock: Clock) -> ShardDefinition[GroupShard, GroupLogRecord]:
    """Return what the runtime needs to know of group shards."""

    def encode(record: GroupLogRecord) -> LogRecord:
        moment = Moment(clock.now_ms(), clock.wall_ms())
        value = record_value(record, moment)
        return LogRecord(record_key(record), value, timestamp_ms=moment.wall_ms)

    def decode(stored: LogRecord) -> GroupLogRecord | None:
        moment = Moment(clock.now_ms(), clock.wall_ms())
        record = read_record(stored.key, stored.value, moment)
        if record is None:
            _log.warning("group log offset %d: a record of a later version", stored.offset)
        return record

    return ShardDefinition(
        name=LOG_NAME,
        new_machine=lambda _: GroupShard(),
        encode=encode,
        load=replaying(decode),
    )


class GroupDecisions:
    """Decides on the groups of one loaded shard and keeps the records of each decision."""

    def __init__(
        self,
        shard: LoadedShard,
        coordinator: CoordinatorContext,
        on_records: Callable[[GroupId], None],
    ) -> None:
        """``on_records`` is called with each group about which ``decide`` leaves records."""
        self.shard = shard
        self._coordinator = coordinator
        self._on_records = on_records

    def group(self, group_id: GroupId) -> ShareGroup | None:
        """Return a group as it is now, committed or not: for deciding what to do, not to answer."""
        return self.shard.peek(lambda machine: machine.groups.get(group_id))

    async def decide(
        self,
        group_id: GroupId,
        make: Decide[Answer],
        on_accepted: Callable[[Answer], None] | None = None,
        *,
        principal: str = "",
    ) -> Answer:
        """Decide on a group, keep the records, and return the answer once they are durable.

        A refusal is an answer too: it waits until what it saw is durable, so that a coordinator
        that was replaced does not tell a member that it is unknown. ``on_accepted`` is called in
        the turn of a decision that is not refused; what it starts belongs to the outcome. A group
        that the decision makes is the ``principal``'s (QUO-12).

        Raises:
            RefusedError: What ``make``, a bound or the runtime refused.
        """

        def decision(
            machine: GroupShard,
        ) -> Decision[GroupLogRecord, GroupDecision[Answer] | RefusedError]:
            group = machine.groups.get(group_id)
            group_context = self._coordinator.group_context(group_id, machine.epoch_floor)
            try:
                outcome = make(group, group_context)
                if outcome.records:
                    if group is None:
                        self._coordinator.check_room_for_group(principal)
                        outcome = _made_by(principal, outcome)
                    machine.check_room(group_id, outcome.records)
            except RefusedError as error:
                return Decision((), error)
            if outcome.records:
                self._on_records(group_id)
            if on_accepted is not None:
                on_accepted(outcome.answer)
            return Decision(outcome.records, outcome)

        outcome = await self.shard.write(decision)
        if isinstance(outcome, RefusedError):
            raise outcome
        return outcome.answer

    async def review(self, group_id: GroupId, make: Decide[Answer]) -> Answer:
        """Decide as part of a review: ``on_records`` would only ask for another one."""

        def decision(machine: GroupShard) -> Decision[GroupLogRecord, Answer]:
            group_context = self._coordinator.group_context(group_id, machine.epoch_floor)
            outcome = make(machine.groups.get(group_id), group_context)
            return Decision(outcome.records, outcome.answer)

        return await self.shard.write(decision)


def _made_by(principal: str, outcome: GroupDecision[Answer]) -> GroupDecision[Answer]:
    """Return a decision that makes a group, with its maker."""
    records = tuple(
        replace(each, made_by=principal) if isinstance(each, GroupMetadata) else each
        for each in outcome.records
    )
    return GroupDecision(records, outcome.answer)
