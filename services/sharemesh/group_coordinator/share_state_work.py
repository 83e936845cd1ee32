"""A shard's calls to the share coordinators: initialize, delete, and finish what was begun."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId, TopicPartition
from sharemesh.domain.share_group.context import (
    DeletePlan,
    GroupContext,
    GroupDecision,
    InitializePlan,
)
from sharemesh.domain.share_group.group import ShareGroup
from sharemesh.domain.share_group.initialization import initialization_ended
from sharemesh.domain.share_group.offsets import state_deleted, topics_deleted
from sharemesh.domain.share_group.records import InitializingPartition
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.group_coordinator.group_shard import GroupDecisions
from sharemesh.ports.share_state import PersisterPort, StateWriteResult
from sharemesh.runtime.shard import TO_NEXT_PERIOD

_log = logging.getLogger("sharemesh.group_coordinator")
MAX_PARTITIONS_PER_CALL = 1_000
"""Share partitions that the persister is asked for at a time."""

GONE = frozenset(
    {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.FENCED_STATE_EPOCH}
)
"""Results of a delete after which the state of that epoch is gone: deleted, or replaced since."""


class ShareStateWork:
    """Calls to the share coordinators; records come first, so that a crash resumes them."""

    def __init__(
        self, decisions: GroupDecisions, coordinator: CoordinatorContext, persister: PersisterPort
    ) -> None:
        self._decisions = decisions
        self._shard = decisions.shard
        self._coordinator = coordinator
        self._persister = persister
        self._missing: set[TopicId] = set()

    def resume(self, groups: Iterable[ShareGroup]) -> None:
        """Resume deletions that an earlier coordinator began (reviews do initializations)."""
        for group in groups:
            if group.deleting:
                self._shard.start_job("resume deletes", self._resume_deletes(group.group_id))

    async def initialize(self, plan: InitializePlan) -> None:
        """Initialize once the plan's records are durable, and record the outcome (GC-28)."""
        await self._shard.read(lambda _: None)
        answers = await self.send_initialize(plan)
        failed: dict[TopicId, set[int]] = {}
        known_epoch, reason = 0, ""
        for partition, answer in answers.items():
            if answer.error is not ErrorCode.NONE:
                failed.setdefault(partition.topic_id, set()).add(partition.partition)
                known_epoch = max(known_epoch, answer.known_state_epoch)
                reason = f"{answer.error.name} {answer.message}"
        if failed and known_epoch == 0:
            count = sum(map(len, failed.values()))
            _log.warning(
                "group %r: %d share partitions not initialized: %s", plan.group_id, count, reason
            )
        refused = {topic_id: frozenset(numbers) for topic_id, numbers in failed.items()}

        def make(group: ShareGroup | None, group_context: GroupContext) -> GroupDecision[None]:
            if group is None:
                return GroupDecision((), None)
            return initialization_ended(
                group, plan, refused, group_context, known_epoch=known_epoch
            )

        await self._decisions.decide(plan.group_id, make)

    async def send_initialize(
        self, plan: InitializePlan
    ) -> Mapping[TopicPartition, StateWriteResult]:
        """Initialize the partitions that are still waiting for just this; return the answers."""
        group = self._decisions.group(plan.group_id)
        wanted: dict[TopicPartition, InitializingPartition] = {}
        for topic_id, tries in plan.topics.items():
            pending = None if group is None else group.initializing.get(topic_id)
            for number, each in tries.items():
                if pending is not None and pending.partitions.get(number) == each:
                    wanted[TopicPartition(topic_id, number)] = each
        answers: dict[TopicPartition, StateWriteResult] = {}
        todo = list(wanted.items())
        for at in range(0, len(todo), MAX_PARTITIONS_PER_CALL):
            part = todo[at : at + MAX_PARTITIONS_PER_CALL]
            results = await asyncio.gather(
                *(
                    self._persister.initialize_state(
                        share_partition(plan.group_id, key),
                        each.state_epoch,
                        each.start_offset,
                        each.batches,
                    )
                    for key, each in part
                )
            )
            answers.update(zip((key for key, _ in part), results, strict=True))
        return answers

    async def delete(self, plan: DeletePlan) -> Mapping[TopicPartition, StateWriteResult]:
        """Delete state and return the answers that are failures."""
        partitions = [
            TopicPartition(topic_id, number)
            for topic_id, numbers in plan.topics.items()
            for number in numbers
        ]
        failures: dict[TopicPartition, StateWriteResult] = {}
        for at in range(0, len(partitions), MAX_PARTITIONS_PER_CALL):
            part = partitions[at : at + MAX_PARTITIONS_PER_CALL]
            results = await asyncio.gather(
                *(
                    self._persister.delete_state(
                        share_partition(plan.group_id, key), plan.state_epoch
                    )
                    for key in part
                )
            )
            for key, result in zip(part, results, strict=True):
                if result.error not in GONE:
                    failures[key] = result
        return failures

    def topics_gone(self, topics: Mapping[TopicId, int]) -> None:
        """Take deleted topics (id: partitions) out of all groups and delete their state."""
        for group in self._shard.peek(lambda machine: list(machine.groups.values())):
            sets = (group.initializing, group.initialized, group.deleting)
            if any(not topics.keys().isdisjoint(each) for each in sets):
                job = self._drop_topics(group.group_id, topics)
                self._shard.start_job("deleted topics", job, put_off=TO_NEXT_PERIOD)

    def topics_come(self, topic_ids: Iterable[TopicId]) -> None:
        """Begin the grace of these topics anew when they are missed again (KTP-10)."""
        self._missing.difference_update(topic_ids)

    async def drop_unknown(self) -> None:
        """Remove topics from all groups once they have been unknown for a whole period."""
        catalog = self._coordinator.catalog
        missing: set[TopicId] = set()
        for group in self._shard.peek(lambda machine: list(machine.groups.values())):
            for topic_id in {*group.initializing, *group.initialized, *group.deleting}:
                if catalog.with_id(topic_id) is None:
                    missing.add(topic_id)
        lost = missing & self._missing
        self._missing = missing
        if lost:
            self.topics_gone(dict.fromkeys(lost, 0))

    async def _drop_topics(self, group_id: GroupId, topics: Mapping[TopicId, int]) -> None:
        def make(group: ShareGroup | None, _: GroupContext) -> GroupDecision[DeletePlan | None]:
            known = self._coordinator.catalog.with_id  # it may be attached again by now (KTP-10)
            gone = {topic: count for topic, count in topics.items() if known(topic) is None}
            return GroupDecision((), None) if group is None else topics_deleted(group, gone)

        plan = await self._decisions.decide(group_id, make)
        if plan is not None:
            for partition, answer in (await self.delete(plan)).items():
                _log.warning(
                    "group %r: delete state of deleted topic %s-%d: %s",
                    group_id,
                    partition.topic_id.hex(),
                    partition.partition,
                    answer.error.name,
                )

    async def _resume_deletes(self, group_id: GroupId) -> None:
        group = self._decisions.group(group_id)
        if group is None:
            return
        catalog = self._coordinator.catalog
        topics = {
            topic_id: tuple(range(topic.partitions))
            for topic_id in group.deleting
            if (topic := catalog.with_id(topic_id)) is not None
        }
        failures = await self.delete(DeletePlan(group_id, group.epoch, topics))
        bad = {partition.topic_id for partition in failures}
        gone = [topic_id for topic_id in topics if topic_id not in bad]
        await self._decisions.decide(group_id, lambda now, _: state_deleted(now, gone))


def share_partition(group_id: GroupId, partition: TopicPartition) -> SharePartitionKey:
    """Return a topic-partition as the group sees it."""
    return SharePartitionKey(group_id, partition.topic_id, partition.partition)
