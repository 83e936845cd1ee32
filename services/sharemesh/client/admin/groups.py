"""Share groups, their offsets, delivery states and configs, as an administrator sees them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sharemesh import methods
from sharemesh.client.admin.codec import (
    Problem,
    caught,
    check,
    configs_of,
    explanation_of,
    group_of,
    group_offset_of,
    group_states,
    missing_in_list,
    offset_partitions,
)
from sharemesh.client.admin.router import AdminConnection
from sharemesh.client.admin.setting_texts import changed_texts
from sharemesh.client.admin_results import (
    ConfigValue,
    Explanation,
    GroupDescription,
    GroupListing,
    GroupOffset,
    TopicPartition,
)
from sharemesh.client.errors import (
    GroupIdNotFoundError,
    SharemeshError,
    error_for,
    optional_error,
)
from sharemesh.codec.state_record import put_batches
from sharemesh.domain.errors import ErrorCode, coordinator_moved
from sharemesh.domain.group_config.group_definitions import PAUSED
from sharemesh.domain.state_batch import StateBatch
from sharemesh.methods import Method, Request, Response
from sharemesh.v1 import group_coordinator_pb2
from sharemesh.v1.share_leader_pb2 import ExplainRequest

_G = group_coordinator_pb2


class GroupAdministration(AdminConnection):
    """Describes and changes share groups; explains the fate of a record."""

    async def list_groups(
        self,
        *,
        states: Sequence[str] = (),
        types: Sequence[str] = ("share",),
        partial: bool = False,
    ) -> list[GroupListing]:
        """Return the groups in these states (none: all), sorted by id (spec ADM-4).

        Args:
            states: Empty, Stable, Dead.
            types: The only type is ``share``.
            partial: Return what can be listed now, also where shards of groups have no leader.

        Raises:
            IllegalArgumentError: A state is not one of Empty, Stable, Dead (spec ADM-2).
            CoordinatorNotAvailableError: Shards of groups had no leader until the call's time-out;
                their groups are missing.
            ConnectionFailedError: No group coordinator answered.
        """
        request = _G.ListGroupsRequest(states_filter=group_states(states), types_filter=types)
        answers = await self._calls.every_coordinator(
            methods.LIST_GROUPS,
            request,
            lambda found: None if partial else missing_in_list(found),
        )
        found: dict[str, GroupListing] = {}
        for answer in answers:
            if answer.error_code and not coordinator_moved(answer.error_code):
                raise error_for(answer.error_code, answer.error_message)
            for each in answer.groups:
                found[each.group_id] = GroupListing(
                    each.group_id, each.group_type, each.group_state
                )
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(
        self, group_ids: Sequence[str]
    ) -> dict[str, GroupDescription | SharemeshError]:
        """Return descriptions by group id."""

        async def one(group_id: str) -> GroupDescription:
            response = await self._ask(
                group_id,
                methods.SHARE_GROUP_DESCRIBE,
                _G.ShareGroupDescribeRequest(group_ids=[group_id]),
                lambda answer: answer.groups,
            )
            if not response.groups:
                raise error_for(ErrorCode.GROUP_ID_NOT_FOUND, about=f"group {group_id}")
            return group_of(response.groups[0])

        return {group_id: await caught(one, group_id) for group_id in group_ids}

    async def delete_groups(self, group_ids: Sequence[str]) -> dict[str, Problem]:
        """Delete empty groups with their offsets."""

        async def one(group_id: str) -> None:
            await self._ask(
                group_id,
                methods.DELETE_GROUPS,
                _G.DeleteGroupsRequest(group_ids=[group_id]),
                lambda answer: answer.results,
            )

        return {group_id: await caught(one, group_id) for group_id in group_ids}

    async def list_share_group_offsets(
        self, group_id: str, topics: Sequence[str] | None = None
    ) -> dict[TopicPartition, GroupOffset | SharemeshError]:
        """Return where a group stands; partitions it never started are left out (spec ADM-1).

        ``topics`` None: all topics of the group.

        Raises:
            ServiceError: The group may not be described.
        """
        asked = _G.DescribeShareGroupOffsetsGroup(group_id=group_id)
        if topics is not None:
            numbers = await self._partitions(topics)
            asked.topics.CopyFrom(
                _G.OffsetTopics(
                    topics=[
                        _G.OffsetTopicRequest(topic_name=name, partitions=range(count))
                        for name, count in numbers.items()
                    ]
                )
            )
        response = await self._ask(
            group_id,
            methods.DESCRIBE_SHARE_GROUP_OFFSETS,
            _G.DescribeShareGroupOffsetsRequest(groups=[asked]),
            lambda answer: answer.groups,
        )
        found: dict[TopicPartition, GroupOffset | SharemeshError] = {}
        for group in response.groups:
            for topic, each in offset_partitions(group.topics):
                where = TopicPartition(topic.topic_name, each.partition)
                code = each.error_code or topic.error_code
                if code != ErrorCode.NONE:
                    text = each.error_message or topic.error_message
                    found[where] = error_for(code, text, about=str(where))
                elif each.start_offset >= 0:
                    found[where] = group_offset_of(each)
        return found

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Problem]:
        """Set start offsets of an empty group; a group that does not exist is made (GC-42).

        Raises:
            NonEmptyGroupError: The group has members.
        """
        topics: dict[str, _G.AlterOffsetTopic] = {}
        for where, offset in offsets.items():
            topic = topics.setdefault(where.topic, _G.AlterOffsetTopic(topic_name=where.topic))
            topic.partitions.add(partition=where.partition, start_offset=offset)
        response = await self._ask(
            group_id,
            methods.ALTER_SHARE_GROUP_OFFSETS,
            _G.AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics.values()),
        )
        return {
            TopicPartition(topic.topic_name, each.partition): optional_error(
                each.error_code or topic.error_code,
                each.error_message or topic.error_message,
                about=f"{topic.topic_name}/{each.partition}",
            )
            for topic, each in offset_partitions(response.topics)
        }

    async def import_delivery_states(
        self,
        group_id: str,
        where: TopicPartition,
        *,
        start_offset: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Make an empty group continue in a partition from these delivery states (spec OLD).

        Start offset and delivery states are one alteration: kept first by the group coordinator,
        which finishes it after a crash, then written as one record. What the group had in the
        partition before is replaced.

        Args:
            group_id: The group; it is made if it does not exist.
            where: The partition.
            start_offset: 0 or more; no record below it is delivered.
            batches: Delivery states at or above ``start_offset``.

        Raises:
            NonEmptyGroupError: The group has members.
            ServiceError: It was refused otherwise.
            ConnectionFailedError: Nobody answered in time.
        """
        request = _G.AlterShareGroupOffsetsRequest(group_id=group_id)
        altered = request.topics.add(topic_name=where.topic).partitions.add(
            partition=where.partition, start_offset=start_offset
        )
        put_batches(altered.state_batches, batches)
        response = await self._ask(group_id, methods.ALTER_SHARE_GROUP_OFFSETS, request)
        about = f"group {group_id}, {where}"
        for topic in response.topics:
            check(topic.error_code, topic.error_message, about)
            for each in topic.partitions:
                check(each.error_code, each.error_message, about)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Sequence[str]
    ) -> dict[str, Problem]:
        """Forget where an empty group stands in topics.

        Raises:
            NonEmptyGroupError: The group has members.
            GroupIdNotFoundError: There is no such group.
        """
        response = await self._ask(
            group_id,
            methods.DELETE_SHARE_GROUP_OFFSETS,
            _G.DeleteShareGroupOffsetsRequest(group_id=group_id, topic_names=topics),
        )
        return {
            each.topic_name: optional_error(
                each.error_code, each.error_message, about=f"topic {each.topic_name}"
            )
            for each in response.topics
        }

    async def describe_group_configs(self, group_id: str) -> list[ConfigValue]:
        """Return the configs of a group with their sources.

        Raises:
            ServiceError: It may not be described.
        """
        response = await self._ask(
            group_id,
            methods.DESCRIBE_GROUP_CONFIGS,
            _G.DescribeGroupConfigsRequest(group_ids=[group_id]),
            lambda answer: answer.results,
        )
        return [config for each in response.results for config in configs_of(each.configs)]

    async def alter_group_configs(
        self, group_id: str, changes: Mapping[str, str | int | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of a group: text, True or False, a whole number; None: back to the default.

        Raises:
            IllegalArgumentError: A value is nothing of these.
            InvalidConfigError: A name or value is not allowed; nothing was changed.
        """
        await self._ask(
            group_id,
            methods.ALTER_GROUP_CONFIGS,
            _G.AlterGroupConfigsRequest(
                group_id=group_id,
                configs=[
                    _G.AlterGroupConfig(name=n, value=v) for n, v in changed_texts(changes).items()
                ],
                validate_only=validate_only,
            ),
        )

    async def pause_group(self, group_id: str) -> None:
        """Let leaders deliver nothing more to a group until ``resume_group`` (spec PAU-1).

        A group that does not exist yet begins paused. Repeating it is fine.

        Raises:
            ServiceError: Its settings may not be changed, or the cluster does not know pauses.
        """
        await self.alter_group_configs(group_id, {PAUSED: "true"})

    async def resume_group(self, group_id: str) -> None:
        """Let leaders deliver to a group again. Repeating it is fine.

        Raises:
            ServiceError: Its settings may not be changed, or the cluster does not know pauses.
        """
        await self.alter_group_configs(group_id, {PAUSED: None})

    async def explain(self, group_id: str, topic: str, partition: int, offset: int) -> Explanation:
        """Return why a record is, or is not, being delivered to a group, and what became of it.

        Raises:
            GroupIdNotFoundError: Nothing is known of the group.
            ServiceError: The topic or partition is not known.
        """
        found = await self._calls.leader(
            TopicPartition(topic, partition),
            methods.EXPLAIN,
            lambda _: ExplainRequest(
                group_id=group_id, topic_name=topic, partition=partition, offset=offset
            ),
            lambda answer: answer.error_code,
        )
        check(found.error_code, found.error_message, f"{topic}/{partition}@{offset}")
        if not found.HasField("start_offset"):  # the answer is about the log alone
            described = (await self.describe_groups([group_id]))[group_id]
            if isinstance(described, GroupIdNotFoundError):
                raise described
        return explanation_of(found)

    async def _ask(
        self,
        group_id: str,
        method: Method[Request, Response],
        request: Request,
        results: Callable[[Any], Iterable[Any]] = lambda answer: (answer,),
    ) -> Response:
        """Ask the group's coordinator; ``results`` are the parts of its answer with error codes.

        Raises:
            ServiceError: One of them is an error.
        """
        response = await self._calls.group(
            group_id,
            method,
            request,
            lambda answer: next((each.error_code for each in results(answer)), ErrorCode.NONE),
        )
        for each in results(response):
            check(each.error_code, each.error_message, f"group {group_id}")
        return response

    async def _partitions(self, topics: Sequence[str]) -> dict[str, int]:
        await self._calls.leaders.refresh(topics, timeout_ms=methods.METADATA.deadline_ms)
        found = {name: self._calls.leaders.topic(name) for name in topics}
        return {name: topic.partitions if topic else 0 for name, topic in found.items()}
