"""The group coordinator's view of durable states, on the persister that leaders use as well."""

import asyncio
from collections.abc import Iterable, Mapping

from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicPartition
from sharemesh.domain.share_group.records import InitializingPartition
from sharemesh.group_coordinator.states import StateAnswer, StateSummary
from sharemesh.persister.persister import Persister
from sharemesh.ports.share_state import StateWriteResult


class PersistedShareStates:
    """Fills ``group_coordinator.states.ShareStates``; the persister joins calls into requests."""

    def __init__(self, persister: Persister) -> None:
        self._persister = persister

    async def initialize(
        self, group_id: GroupId, partitions: Mapping[TopicPartition, InitializingPartition]
    ) -> Mapping[TopicPartition, StateAnswer]:
        """Begin a state epoch of each partition at its start offset."""
        results = await asyncio.gather(
            *(
                self._persister.initialize_state(
                    _key(group_id, partition),
                    wanted.state_epoch,
                    wanted.start_offset,
                    wanted.batches,
                )
                for partition, wanted in partitions.items()
            )
        )
        return dict(zip(partitions, map(_answer, results), strict=True))

    async def delete(
        self, group_id: GroupId, state_epoch: int, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, StateAnswer]:
        """Delete state that is not of a later epoch than ``state_epoch``."""
        asked = list(partitions)
        results = await asyncio.gather(
            *(
                self._persister.delete_state(_key(group_id, partition), state_epoch)
                for partition in asked
            )
        )
        return dict(zip(asked, map(_answer, results), strict=True))

    async def summaries(
        self, group_id: GroupId, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, StateSummary]:
        """Return the stored offsets of each partition."""
        asked = list(partitions)
        results = await asyncio.gather(
            *(self._persister.read_summary(_key(group_id, partition)) for partition in asked)
        )
        return {
            partition: StateSummary(
                result.error,
                result.message,
                start_offset=result.start_offset,
                leader_epoch=result.leader_epoch,
                delivery_complete_count=result.delivery_complete_count,
                archived=result.archived,
            )
            for partition, result in zip(asked, results, strict=True)
        }


def _key(group_id: GroupId, partition: TopicPartition) -> SharePartitionKey:
    return SharePartitionKey(group_id, partition.topic_id, partition.partition)


def _answer(result: StateWriteResult) -> StateAnswer:
    return StateAnswer(result.error, result.message, result.known_state_epoch)
