"""The durable state of share partitions, as the group coordinator uses it (spec PER)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.domain.share_group.records import InitializingPartition
from sharemesh.domain.share_state.archived import ArchivedCounts


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """What the share coordinator said of one share partition.

    ``known_state_epoch`` comes with FENCED_STATE_EPOCH: initialize above it; -1 if not known.
    """

    error: ErrorCode
    message: str = ""
    known_state_epoch: int = -1


@dataclass(frozen=True, slots=True)
class StateSummary:
    """The stored offsets of one share partition; start offset and count -1: nothing stored."""

    error: ErrorCode
    message: str = ""
    start_offset: int = -1
    leader_epoch: int = 0
    delivery_complete_count: int = -1
    archived: ArchivedCounts | None = None


class ShareStates(Protocol):
    """Initialize, delete and summarize, with the retries of spec PER-6; errors are answers."""

    async def initialize(
        self, group_id: GroupId, partitions: Mapping[TopicPartition, InitializingPartition]
    ) -> Mapping[TopicPartition, StateAnswer]:
        """Begin a state epoch of each partition at its start offset."""
        ...

    async def delete(
        self, group_id: GroupId, state_epoch: int, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, StateAnswer]:
        """Delete state that is not of a later epoch than ``state_epoch``."""
        ...

    async def summaries(
        self, group_id: GroupId, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, StateSummary]:
        """Return the stored offsets of each partition."""
        ...
