"""Where logs end: asked of the leaders of topic-partitions, all at once."""

import asyncio
from collections.abc import Iterable

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.methods import LIST_OFFSETS
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.network import Caller, CallFailedError
from sharemesh.v1.record_log_pb2 import ListOffsetsRequest

LATEST = -1
TIMEOUT_MS = 3_000


class LogEnds:
    """Asks each leader once for all of its partitions."""

    def __init__(self, view: ClusterView, caller: Caller) -> None:
        self._view = view
        self._caller = caller

    async def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return log end offsets; a partition whose leader did not say is left out."""
        by_leader: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._view.leader(partition)
            if leader is not None:
                by_leader.setdefault(leader.node.address, []).append(partition)
        answers = await asyncio.gather(
            *(self._ask(address, wanted) for address, wanted in by_leader.items())
        )
        return {partition: offset for answer in answers for partition, offset in answer.items()}

    async def _ask(self, address: str, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
        request = ListOffsetsRequest()
        for each in wanted:
            request.partitions.add(
                topic_id=each.topic_id, partition=each.partition, timestamp=LATEST
            )
        try:
            response = await self._caller.call(
                LIST_OFFSETS, request, to=address, timeout_ms=TIMEOUT_MS
            )
        except CallFailedError:
            return {}
        return {
            TopicPartition(TopicId(each.topic_id), each.partition): each.offset
            for each in response.partitions
            if each.error_code == ErrorCode.NONE
        }
