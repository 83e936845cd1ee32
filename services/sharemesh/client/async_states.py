"""The part of the admin client that writes delivery states of share partitions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sharemesh import methods
from sharemesh.client.admin_answers import check
from sharemesh.client.admin_calls import AdminCalls
from sharemesh.client.admin_results import TopicPartition
from sharemesh.codec.state_record import put_batches
from sharemesh.domain.delivery_state import Cause
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicId
from sharemesh.domain.share_state.key_text import format_key
from sharemesh.domain.state_batch import StateBatch
from sharemesh.v1 import admin_pb2, group_coordinator_pb2
from sharemesh.v1 import share_coordinator_pb2 as pb

_ABOVE_EVERY_LEADER = 2**31 - 1
"""Leader epoch of an administrator's write: no leader fences it, and it is not kept (SC-13)."""


class AsyncStates(ABC):
    """Imports delivery states; ``AsyncAdminClient`` is one."""

    @property
    @abstractmethod
    def _calls(self) -> AdminCalls:
        """The admin client's connections."""

    async def import_delivery_states(
        self,
        group_id: str,
        where: TopicPartition,
        *,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Let an empty group go on in a partition as if it had these delivery states (spec 19).

        First the group coordinator sets the start offset, which begins a new state epoch; then
        the batches are written under it. Stopped in between, the group stands at the start offset
        without batches; repeating the call is safe. It needs cluster actions to be allowed.

        Args:
            group_id: The group; it is made if it does not exist.
            where: The partition.
            start_offset: 0 or more; no record below it is delivered.
            delivery_complete_count: Records at or above it that are acknowledged or archived.
            batches: Delivery states at or above ``start_offset``.

        Raises:
            NonEmptyGroupError: The group has members.
            ServiceError: It was refused otherwise.
            ConnectionFailedError: Nobody answered in time.
        """
        altered = await self._calls.group(
            group_id,
            methods.ALTER_SHARE_GROUP_OFFSETS,
            _altered_to(group_id, where, start_offset),
            lambda answer: answer.error_code,
        )
        about = f"group {group_id}, {where}"
        check(altered.error_code, altered.error_message, about)
        for topic in altered.topics:
            check(topic.error_code, topic.error_message, about)
            for each in topic.partitions:
                check(each.error_code, each.error_message, about)
        topic_id = TopicId(altered.topics[0].topic_id)
        key = SharePartitionKey(GroupId(group_id), topic_id, where.partition)
        address = await self._share_coordinator(key)
        item = pb.WritePartitionState(
            partition=where.partition,
            state_epoch=await self._state_epoch(address, key, about),
            leader_epoch=_ABOVE_EVERY_LEADER,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            cause=Cause.IMPORT,
        )
        put_batches(item.state_batches, batches)
        written_to = pb.WriteTopicState(topic_id=topic_id, partitions=[item])
        written = await self._calls.at(
            address,
            methods.WRITE_SHARE_GROUP_STATE,
            pb.WriteShareGroupStateRequest(group_id=group_id, topics=[written_to]),
        )
        answer = written.results[0].partitions[0]
        check(answer.error_code, answer.error_message, about)

    async def _share_coordinator(self, key: SharePartitionKey) -> str:
        text = format_key(key)
        response = await self._calls.any(
            methods.FIND_COORDINATOR,
            admin_pb2.FindCoordinatorRequest(
                key_type=admin_pb2.COORDINATOR_KEY_TYPE_SHARE, keys=[text]
            ),
        )
        found = response.coordinators[0]
        check(found.error_code, found.error_message, f"share partition {text}")
        return f"{found.node.host}:{found.node.port}"

    async def _state_epoch(self, address: str, key: SharePartitionKey, about: str) -> int:
        topic = pb.ReadSummaryTopic(
            topic_id=key.topic_id, partitions=[pb.ReadSummaryPartition(partition=key.partition)]
        )
        response = await self._calls.at(
            address,
            methods.READ_SHARE_GROUP_STATE_SUMMARY,
            pb.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic]),
        )
        found = response.results[0].partitions[0]
        check(found.error_code, found.error_message, about)
        return found.state_epoch


def _altered_to(
    group_id: str, where: TopicPartition, start_offset: int
) -> group_coordinator_pb2.AlterShareGroupOffsetsRequest:
    request = group_coordinator_pb2.AlterShareGroupOffsetsRequest(group_id=group_id)
    topic = request.topics.add(topic_name=where.topic)
    topic.partitions.add(partition=where.partition, start_offset=start_offset)
    return request
