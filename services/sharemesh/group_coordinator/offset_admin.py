"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets (GC-40 to GC-43)."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sharemesh.authorization.refusals import hear_bound
from sharemesh.authorization.slices import Slices
from sharemesh.codec.state_record import decode_batches, encode_archived
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, TopicId, TopicPartition
from sharemesh.domain.share_group.context import GroupContext, GroupDecision, InitializePlan
from sharemesh.domain.share_group.group import ShareGroup
from sharemesh.domain.share_group.initialization import epoch_raised, initialization_ended
from sharemesh.domain.share_group.offsets import (
    AlterAnswer,
    AlteredOffset,
    alter_failed,
    alter_offsets,
    delete_offsets,
    state_deleted,
)
from sharemesh.domain.share_state.checks import check_batch_count, check_imported
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.group_coordinator.log_ends import LogEnds
from sharemesh.group_coordinator.served_groups import ServedGroups
from sharemesh.group_coordinator.share_state_work import share_partition
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.network import CallContext
from sharemesh.ports.share_state import PersisterPort, StateSummaryResult, StateWriteResult
from sharemesh.v1 import group_coordinator_pb2 as pb

NO_TOPIC_ID = bytes(16)
ALTER_ATTEMPTS = 3
"""Tries under a higher epoch when the share coordinator knew one."""

_BATCHES_OF_A_UNIT = 50
"""State batches that cost about as much as one partition, which is a unit of a slice (BND-20)."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One topic of a describe: its partitions that are initialized, and those that are not."""

    name: str
    topic_id: TopicId
    numbers: tuple[int, ...]
    initialized: frozenset[int]


class OffsetAdmin:
    """Handlers for a group's offsets."""

    def __init__(
        self,
        coordinator: CoordinatorContext,
        groups_of: Callable[[GroupId], ServedGroups],
        persister: PersisterPort,
        log_ends: LogEnds,
    ) -> None:
        """``groups_of`` returns who serves a group or raises what the client must hear."""
        self._coordinator = coordinator
        self._groups_of = groups_of
        self._persister = persister
        self._log_ends = log_ends

    # ---- describe -------------------------------------------------------------------------------

    async def describe(
        self, request: pb.DescribeShareGroupOffsetsRequest, context: CallContext
    ) -> pb.DescribeShareGroupOffsetsResponse:
        """Return start offset, leader epoch and lag of share partitions (spec GC-40, GC-41)."""
        self._coordinator.check_groups(len(request.groups))
        self._coordinator.check_partitions(*(asked.topics.topics for asked in request.groups))
        response = pb.DescribeShareGroupOffsetsResponse()
        at_once = asyncio.Semaphore(self._coordinator.limits.reviews_at_once)

        async def describe(asked: pb.DescribeShareGroupOffsetsGroup) -> None:
            described = response.groups.add(group_id=asked.group_id)  # in the order of the request
            async with at_once:
                try:
                    topics = await self._describe_group(asked, context.principal)
                    described.topics.extend(topics)
                except RefusedError as error:
                    described.error_code = error.error
                    described.error_message = error.message

        await asyncio.gather(*map(describe, request.groups))
        return response

    async def _describe_group(
        self, asked: pb.DescribeShareGroupOffsetsGroup, principal: str
    ) -> list[pb.OffsetTopicResult]:
        group_id = GroupId(asked.group_id)
        self._coordinator.check_feature()
        self._coordinator.access.group(principal, Operation.DESCRIBE, group_id)
        groups = self._groups_of(group_id)
        initialized = await groups.shard.read(
            lambda machine: _initialized(machine.groups.get(group_id))
        )
        results: list[pb.OffsetTopicResult] = []
        wanted: list[_Asked] = []
        slices = Slices(self._coordinator.clock, principal)
        if asked.HasField("topics"):
            for topic in asked.topics.topics:
                await slices.spend()
                await self._sort_named(topic, principal, initialized, wanted, results, slices)
        else:
            wanted = await self._all_topics(principal, initialized, slices)
        described = await self._described(group_id, wanted, slices)
        # Rights may be gone since (AUT-4).
        self._coordinator.access.group(principal, Operation.DESCRIBE, group_id)
        for each, result in zip(wanted, described, strict=True):
            refusal = self._describable(principal, each.name)
            if refusal is None:
                results.append(result)
            elif asked.HasField("topics"):
                results.append(await _absent(each.name, each.numbers, refusal, slices))
        return results

    async def _all_topics(
        self, principal: str, initialized: Mapping[TopicId, frozenset[int]], slices: Slices
    ) -> list[_Asked]:
        """All initialized partitions; unauthorized and vanished topics are left out."""
        wanted: list[_Asked] = []
        for topic_id, numbers in initialized.items():
            await slices.spend()
            topic = self._coordinator.catalog.with_id(topic_id)
            if topic is not None and self._coordinator.access.may(
                principal, Operation.DESCRIBE, ResourceType.TOPIC, topic.name
            ):
                wanted.append(_Asked(topic.name, topic_id, tuple(sorted(numbers)), numbers))
        return sorted(wanted, key=lambda each: each.name)

    async def _sort_named(
        self,
        asked: pb.OffsetTopicRequest,
        principal: str,
        initialized: Mapping[TopicId, frozenset[int]],
        wanted: list[_Asked],
        results: list[pb.OffsetTopicResult],
        slices: Slices,
    ) -> None:
        refusal = self._describable(principal, asked.topic_name)
        topic = self._coordinator.catalog.named(asked.topic_name)
        if refusal is not None or topic is None:
            results.append(await _absent(asked.topic_name, asked.partitions, refusal, slices))
            return
        have = initialized.get(topic.topic_id, frozenset())
        wanted.append(_Asked(topic.name, topic.topic_id, tuple(asked.partitions), have))

    def _describable(self, principal: str, name: str) -> RefusedError | None:
        try:
            self._coordinator.access.topic(principal, Operation.DESCRIBE, name)
        except RefusedError as error:
            return error
        return None

    async def _described(
        self, group_id: GroupId, wanted: Iterable[_Asked], slices: Slices
    ) -> list[pb.OffsetTopicResult]:
        wanted = list(wanted)
        keys = dict.fromkeys(
            TopicPartition(topic.topic_id, number)
            for topic in wanted
            for number in topic.numbers
            if number in topic.initialized
        )
        reads: dict[TopicPartition, asyncio.Task[StateSummaryResult]] = {}
        async with asyncio.TaskGroup() as group:
            for key in keys:
                read = self._persister.read_summary(share_partition(group_id, key))
                reads[key] = group.create_task(read)
                await slices.spend()
        summaries = {key: read.result() for key, read in reads.items()}
        counted = [
            key
            for key, summary in summaries.items()
            if summary.start_offset >= 0 and summary.delivery_complete_count >= 0
        ]
        ends = await self._log_ends.of(counted)
        results: list[pb.OffsetTopicResult] = []
        for topic in wanted:
            result = pb.OffsetTopicResult(topic_name=topic.name, topic_id=topic.topic_id)
            for number in topic.numbers:
                await slices.spend()
                key = TopicPartition(topic.topic_id, number)
                result.partitions.append(_row(number, summaries.get(key), ends.get(key)))
            results.append(result)
        return results

    # ---- alter ----------------------------------------------------------------------------------

    async def alter(
        self, request: pb.AlterShareGroupOffsetsRequest, context: CallContext
    ) -> pb.AlterShareGroupOffsetsResponse:
        """Set start offsets of an empty or missing group (spec GC-42)."""
        self._coordinator.check_partitions(request.topics)
        response = pb.AlterShareGroupOffsetsResponse()
        group_id = GroupId(request.group_id)
        refusals: dict[str, RefusedError] = {}
        try:
            self._coordinator.check_feature()
            self._coordinator.access.group(context.principal, Operation.READ, group_id)
            offsets: dict[str, dict[int, AlteredOffset]] = {}
            misshapen: dict[str, dict[int, RefusedError]] = {}
            slices = Slices(self._coordinator.clock, context.principal)
            for topic in request.topics:
                await slices.spend()
                try:
                    self._coordinator.access.topic(
                        context.principal, Operation.READ, topic.topic_name
                    )
                except RefusedError as error:
                    refusals[topic.topic_name] = error
                    continue
                await _sort_altered(
                    topic,
                    offsets.setdefault(topic.topic_name, {}),
                    misshapen.setdefault(topic.topic_name, {}),
                    slices,
                )
            errors = await self._alter(group_id, offsets, context.principal)
            for name, refused in misshapen.items():
                errors.setdefault(name, {}).update(refused)
        except RefusedError as error:
            hear_bound(error, context.principal)
            response.error_code, response.error_message = error.error, error.message
            return response
        for topic in request.topics:
            refusal = refusals.get(topic.topic_name)
            result = self._topic_result(topic.topic_name, refusal)
            for each in topic.partitions:
                await slices.spend()
                row = result.partitions.add(
                    partition=each.partition, start_offset=each.start_offset
                )
                error_of = refusal or errors.get(topic.topic_name, {}).get(each.partition)
                if error_of is not None:
                    row.error_code, row.error_message = error_of.error, error_of.message
            response.topics.append(result)
        return response

    async def _alter(
        self,
        group_id: GroupId,
        offsets: Mapping[str, Mapping[int, AlteredOffset]],
        principal: str,
    ) -> dict[str, dict[int, RefusedError]]:
        """Alter and return the partitions that were refused, by topic name."""
        groups = self._groups_of(group_id)
        for attempt in range(ALTER_ATTEMPTS):
            done = await groups.decisions.decide(
                group_id,
                lambda group, now: alter_offsets(group, group_id, offsets, now),
                principal=principal,
            )
            if done.initialize is None:
                break
            answers = await groups.state_work.send_initialize(done.initialize)
            known = await self._record_altered(groups, done.initialize, answers)
            if known < 0 or attempt == ALTER_ATTEMPTS - 1:
                return self._alter_errors(done, answers)
        return {name: dict(partitions) for name, partitions in done.refused.items()}

    async def _record_altered(
        self,
        groups: ServedGroups,
        plan: InitializePlan,
        answers: Mapping[TopicPartition, StateWriteResult],
    ) -> int:
        """Keep what was initialized, forget the rest; return a higher known epoch, or -1."""
        failed: dict[TopicId, set[int]] = {}
        for key, answer in answers.items():
            if answer.error is not ErrorCode.NONE:
                failed.setdefault(key.topic_id, set()).add(key.partition)
        refused = {topic_id: frozenset(numbers) for topic_id, numbers in failed.items()}
        known = max((answer.known_state_epoch for answer in answers.values()), default=-1)

        def ended(group: ShareGroup | None, group_context: GroupContext) -> GroupDecision[None]:
            if group is None:
                return GroupDecision((), None)
            return initialization_ended(group, plan, refused, group_context)

        def forgotten(group: ShareGroup | None, _: GroupContext) -> GroupDecision[None]:
            if group is None:
                return GroupDecision((), None)
            first = alter_failed(group, plan)
            return GroupDecision((*first.records, *epoch_raised(group, known).records), None)

        await groups.decisions.decide(plan.group_id, ended)
        if failed:
            await groups.decisions.decide(plan.group_id, forgotten)
        return known

    def _alter_errors(
        self, done: AlterAnswer, answers: Mapping[TopicPartition, StateWriteResult]
    ) -> dict[str, dict[int, RefusedError]]:
        errors = {name: dict(partitions) for name, partitions in done.refused.items()}
        for key, answer in answers.items():
            topic = self._coordinator.catalog.with_id(key.topic_id)
            if answer.error is not ErrorCode.NONE and topic is not None:
                refusal = RefusedError(answer.error, answer.message)
                errors.setdefault(topic.name, {})[key.partition] = refusal
        return errors

    # ---- delete ---------------------------------------------------------------------------------

    async def delete(
        self, request: pb.DeleteShareGroupOffsetsRequest, context: CallContext
    ) -> pb.DeleteShareGroupOffsetsResponse:
        """Forget an empty group's offsets of some topics (spec GC-43)."""
        self._coordinator.check_groups(len(request.topic_names))
        response = pb.DeleteShareGroupOffsetsResponse()
        group_id = GroupId(request.group_id)
        errors: dict[str, RefusedError] = {}
        try:
            self._coordinator.check_feature()
            self._coordinator.access.group(context.principal, Operation.DELETE, group_id)
            allowed: list[str] = []
            for name in request.topic_names:
                try:
                    self._coordinator.access.topic(context.principal, Operation.READ, name)
                    allowed.append(name)
                except RefusedError as error:
                    errors[name] = error
            errors.update(await self._delete(group_id, allowed))
        except RefusedError as error:
            response.error_code, response.error_message = error.error, error.message
            return response
        for name in request.topic_names:
            response.topics.append(self._topic_result(name, errors.get(name)))
        return response

    async def _delete(self, group_id: GroupId, names: list[str]) -> dict[str, RefusedError]:
        groups = self._groups_of(group_id)
        begun = await groups.decisions.decide(
            group_id, lambda group, now: delete_offsets(group, group_id, names, now.catalog)
        )
        errors = dict(begun.refused)
        failures = await groups.state_work.delete(begun.delete)
        for key, answer in failures.items():
            errors[begun.names[key.topic_id]] = RefusedError(answer.error, answer.message)
        gone = [topic_id for topic_id, name in begun.names.items() if name not in errors]
        if gone:
            await groups.decisions.decide(group_id, lambda group, _: state_deleted(group, gone))
        return errors

    def _topic_result(self, name: str, refusal: RefusedError | None) -> pb.OffsetTopicResult:
        """Return the result of a topic, without its id if the caller may not see it (AUT-1)."""
        result = pb.OffsetTopicResult(topic_name=name, topic_id=NO_TOPIC_ID)
        if refusal is not None:
            result.error_code, result.error_message = refusal.error, refusal.message
            if refusal.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return result
        topic = self._coordinator.catalog.named(name)
        if topic is not None:
            result.topic_id = topic.topic_id
        return result


async def _absent(
    name: str, numbers: Iterable[int], refusal: RefusedError | None, slices: Slices
) -> pb.OffsetTopicResult:
    """Return the result for a topic that is absent, or that the caller may not see (AUT-1)."""
    absent = pb.OffsetTopicResult(topic_name=name, topic_id=NO_TOPIC_ID)
    for number in numbers:
        await slices.spend()
        row = absent.partitions.add(partition=number, start_offset=-1, lag=-1)
        if refusal is not None:
            row.error_code, row.error_message = refusal.error, refusal.message
    return absent


async def _sort_altered(
    topic: pb.AlterOffsetTopic,
    altered: dict[int, AlteredOffset],
    misshapen: dict[int, RefusedError],
    slices: Slices,
) -> None:
    for each in topic.partitions:
        count = len(each.state_batches)
        await slices.spend(1 + count // _BATCHES_OF_A_UNIT)
        stop = check_batch_count(count)
        if stop is None:
            offset = AlteredOffset(each.start_offset, decode_batches(each.state_batches))
            stop = check_imported(offset.batches, offset.start_offset) if offset.batches else None
        if stop is None:
            altered[each.partition] = offset
        else:
            misshapen[each.partition] = RefusedError(stop.answer.error, stop.answer.message)


def _initialized(group: ShareGroup | None) -> dict[TopicId, frozenset[int]]:
    if group is None:
        return {}
    return {topic_id: frozenset(topic.partitions) for topic_id, topic in group.initialized.items()}


def _row(
    number: int, summary: StateSummaryResult | None, log_end: int | None
) -> pb.OffsetPartition:
    """One partition; lag is -1 unless start, count and log end are known (spec GC-41)."""
    if summary is None:
        return pb.OffsetPartition(partition=number, start_offset=-1, lag=-1)
    if summary.error is not ErrorCode.NONE:
        return pb.OffsetPartition(
            partition=number,
            start_offset=-1,
            lag=-1,
            error_code=summary.error,
            error_message=summary.message,
        )
    lag = -1
    if log_end is not None and summary.start_offset >= 0 and summary.delivery_complete_count >= 0:
        lag = max(0, log_end - summary.start_offset - summary.delivery_complete_count)
    return pb.OffsetPartition(
        partition=number,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=lag,
        archived=None if summary.archived is None else encode_archived(summary.archived),
    )
