"""ShareGroupDescribe, ListGroups, DeleteGroups (spec GC-25, GC-32, GC-44, ADM-2)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sharemesh.authorization.access import refusal_on
from sharemesh.authorization.permitted_operations import NOT_ASKED_FOR, permitted_operations
from sharemesh.authorization.slices import Slices
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group import assignor
from sharemesh.domain.share_group.context import GroupDecision
from sharemesh.domain.share_group.group import GroupMember, GroupState, ShareGroup
from sharemesh.domain.share_group.missing_shards import incomplete_words
from sharemesh.domain.share_group.offsets import delete_group, group_deleted
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.group_coordinator.member_stream import partitions_message
from sharemesh.group_coordinator.served_groups import ServedGroups
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.network import CallContext
from sharemesh.v1 import group_coordinator_pb2 as pb

Answer = TypeVar("Answer")
GROUP_TYPE = "share"


class GroupAdmin:
    """Handlers for whole groups."""

    def __init__(
        self,
        coordinator: CoordinatorContext,
        groups_of: Callable[[GroupId], ServedGroups],
        served: Callable[[], Sequence[ServedGroups]],
    ) -> None:
        """``groups_of`` returns who serves a group or raises; ``served`` all that is served."""
        self._coordinator = coordinator
        self._groups_of = groups_of
        self._served = served

    async def describe(
        self, request: pb.ShareGroupDescribeRequest, context: CallContext
    ) -> pb.ShareGroupDescribeResponse:
        """Describe each group, or say why not."""
        self._coordinator.check_groups(len(request.group_ids))

        async def described(group_id: str) -> pb.DescribedShareGroup:
            try:
                return await self._describe(
                    GroupId(group_id),
                    context.principal,
                    operations=request.include_authorized_operations,
                )
            except RefusedError as error:
                answer = pb.DescribedShareGroup(
                    group_id=group_id, error_code=error.error, error_message=error.message
                )
                if error.error is ErrorCode.GROUP_ID_NOT_FOUND:
                    answer.group_state = GroupState.DEAD
                return answer

        return pb.ShareGroupDescribeResponse(groups=await self._each(request.group_ids, described))

    async def list_groups(
        self, request: pb.ListGroupsRequest, context: CallContext
    ) -> pb.ListGroupsResponse:
        """List the groups that this node serves, and of which shards they are (spec ADM-4)."""
        self._coordinator.check_groups(len(request.states_filter) + len(request.types_filter))
        response = pb.ListGroupsResponse()
        try:
            states = _states(request.states_filter)
        except RefusedError as error:
            return pb.ListGroupsResponse(error_code=error.error, error_message=error.message)
        types = {each.strip().lower() for each in request.types_filter}
        if types and GROUP_TYPE not in types:
            return response
        coordinator = self._coordinator
        all_of_them = coordinator.access.may(
            context.principal, Operation.DESCRIBE, ResourceType.CLUSTER
        )
        slices = Slices(coordinator.clock, context.principal)
        for groups in self._served():
            try:
                found = await groups.shard.read(lambda machine: list(machine.groups.values()))
            except RefusedError as error:
                response.error_code = error.error
                response.error_message = error.message
                continue
            response.shards.append(groups.shard.index)
            for group in found:
                await slices.spend()
                if (not states or group.state in states) and (
                    all_of_them
                    or coordinator.access.may(
                        context.principal, Operation.DESCRIBE, ResourceType.GROUP, group.group_id
                    )
                ):
                    response.groups.add(
                        group_id=group.group_id, group_type=GROUP_TYPE, group_state=group.state
                    )
        self._tell_missing(response)
        return response

    def _tell_missing(self, response: pb.ListGroupsResponse) -> None:
        """Say which shards nobody serves: who does not count shards would take them for empty."""
        shards = [each for each in self._coordinator.view.shards() if each.kind is ShardKind.GROUP]
        response.shard_count = len(shards)
        missing = [
            each.election
            for each in shards
            if each.shard not in response.shards
            and (each.node is None or each.node.node_id == self._coordinator.node_id)
        ]
        if missing and not response.error_code:
            response.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            response.error_message = incomplete_words(missing)

    async def delete(
        self, request: pb.DeleteGroupsRequest, context: CallContext
    ) -> pb.DeleteGroupsResponse:
        """Delete empty groups, their share state first."""
        self._coordinator.check_groups(len(request.group_ids))

        async def deleted(group_id: str) -> pb.DeletedGroup:
            result = pb.DeletedGroup(group_id=group_id)
            try:
                self._coordinator.access.group(
                    context.principal, Operation.DELETE, GroupId(group_id)
                )
                await self._delete(GroupId(group_id))
            except RefusedError as error:
                result.error_code = error.error
                result.error_message = error.message
            return result

        return pb.DeleteGroupsResponse(results=await self._each(request.group_ids, deleted))

    async def _each(
        self, group_ids: Sequence[str], answer: Callable[[str], Awaitable[Answer]]
    ) -> list[Answer]:
        """Answer for each group, some at once and a repeated one only once, in their order.

        One after the other, groups whose share coordinator is away would each wait out the
        persister's back-off (spec PER-6).
        """
        at_once = asyncio.Semaphore(self._coordinator.limits.reviews_at_once)

        async def bounded(group_id: str) -> Answer:
            async with at_once:
                return await answer(group_id)

        different = list(dict.fromkeys(group_ids))
        answers = await asyncio.gather(*map(bounded, different))
        found = dict(zip(different, answers, strict=True))
        return [found[group_id] for group_id in group_ids]

    async def _describe(
        self, group_id: GroupId, principal: str, *, operations: bool
    ) -> pb.DescribedShareGroup:
        coordinator = self._coordinator
        coordinator.check_feature()
        coordinator.access.group(principal, Operation.DESCRIBE, group_id)
        groups = self._groups_of(group_id)
        group = await groups.shard.read(
            lambda machine: (
                None if (found := machine.groups.get(group_id)) is None else found.copy()
            )
        )
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} not found")
        self._check_assigned_topics(group, principal)
        described = pb.DescribedShareGroup(
            group_id=group_id,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=assignor.NAME,
            coordinator_id=coordinator.node_id,
            authorized_operations=NOT_ASKED_FOR,
            paused=coordinator.config(group_id).paused,
        )
        if operations:
            described.authorized_operations = permitted_operations(
                coordinator.access, principal, ResourceType.GROUP, group_id
            )
        described.members.extend(
            self._member_message(group.members[member_id]) for member_id in sorted(group.members)
        )
        return described

    def _check_assigned_topics(self, group: ShareGroup, principal: str) -> None:
        """A topic that may not be described hides the whole group (spec GC-32)."""
        topic_ids = {each for member in group.members.values() for each in member.assigned}
        for topic_id in sorted(topic_ids):
            topic = self._coordinator.catalog.with_id(topic_id)
            if topic is not None and not self._coordinator.access.may(
                principal, Operation.DESCRIBE, ResourceType.TOPIC, topic.name
            ):
                raise refusal_on(
                    f"a topic that members of group {group.group_id!r} are assigned",
                    principal,
                    Operation.DESCRIBE,
                    ResourceType.TOPIC,
                    known_as=topic.name,
                )

    def _member_message(self, member: GroupMember) -> pb.ShareGroupMember:
        metadata = member.metadata
        return pb.ShareGroupMember(
            member_id=member.member_id,
            rack_id=metadata.rack_id,
            member_epoch=member.member_epoch,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=metadata.subscribed_topic_names,
            assignment=partitions_message(member.assigned, self._coordinator.catalog),
        )

    async def _delete(self, group_id: GroupId) -> None:
        groups = self._groups_of(group_id)
        plan = await groups.decisions.decide(
            group_id,
            lambda group, group_context: delete_group(group, group_id, group_context.catalog),
        )
        failures = await groups.state_work.delete(plan)
        for answer in failures.values():
            raise RefusedError(
                answer.error, f"share state of group {group_id!r} not deleted: {answer.message}"
            )

        def make(group: ShareGroup | None, floor: int) -> GroupDecision[None]:
            return group_deleted(group, group_id, plan.state_epoch, floor)

        await groups.decisions.decide(
            group_id, lambda group, group_context: make(group, group_context.epoch_floor)
        )


def _states(names: Sequence[str]) -> frozenset[GroupState]:
    known = {state.lower(): state for state in GroupState}
    states: set[GroupState] = set()
    for name in names:
        state = known.get(name.strip().lower())
        if state is None:
            raise invalid_request(
                f"unknown group state {name!r}; states are {', '.join(GroupState)}"
            )
        states.add(state)
    return frozenset(states)
