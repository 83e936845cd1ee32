"""The part of the admin client that brings delivery states of share partitions along."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sharemesh import methods
from sharemesh.client.admin.codec import check
from sharemesh.client.admin.router import AdminRouter
from sharemesh.client.admin_results import TopicPartition
from sharemesh.codec.state_record import put_batches
from sharemesh.domain.state_batch import StateBatch
from sharemesh.v1 import group_coordinator_pb2 as pb


class AsyncStates(ABC):
    """Imports delivery states; ``AsyncAdminClient`` is one."""

    @property
    @abstractmethod
    def _calls(self) -> AdminRouter:
        """The admin client's connections."""

    async def import_delivery_states(
        self,
        group_id: str,
        where: TopicPartition,
        *,
        start_offset: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Let an empty group go on in a partition as if it had these delivery states (spec OLD).

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
        request = pb.AlterShareGroupOffsetsRequest(group_id=group_id)
        altered = request.topics.add(topic_name=where.topic).partitions.add(
            partition=where.partition, start_offset=start_offset
        )
        put_batches(altered.state_batches, batches)
        response = await self._calls.group(
            group_id,
            methods.ALTER_SHARE_GROUP_OFFSETS,
            request,
            lambda answer: answer.error_code,
        )
        about = f"group {group_id}, {where}"
        check(response.error_code, response.error_message, about)
        for topic in response.topics:
            check(topic.error_code, topic.error_message, about)
            for each in topic.partitions:
                check(each.error_code, each.error_message, about)
