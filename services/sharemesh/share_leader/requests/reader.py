"""Who consumes, and whether it still may: asked again in the turn of each grant and answer."""

from collections.abc import Iterable
from dataclasses import dataclass

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, TopicId, TopicPartition
from sharemesh.share_leader.requests.access import LeaderAccess

Outcome = tuple[ErrorCode, str]


@dataclass(frozen=True, slots=True)
class Reader:
    """One principal in one group; rights are those of the table now (AUT-4)."""

    access: LeaderAccess
    principal: str
    group_id: GroupId

    def check_group(self) -> None:
        """Raise GROUP_AUTHORIZATION_FAILED unless records of the group may be got."""
        self.access.group(self.principal, self.group_id)

    def check(self, partition: TopicPartition) -> None:
        """Raise what refuses records of a partition: the group, the topic, then the id (ERR-2)."""
        self.check_group()
        self.access.topic(self.principal, partition)

    def lost(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Outcome]:
        """Return those of the partitions whose right is gone, with the refusal.

        A right is looked up once for each topic: a stream may have thousands of its partitions.
        """
        found: dict[TopicPartition, Outcome] = {}
        refusals: dict[TopicId, Outcome | None] = {}
        for partition in partitions:
            topic_id = partition.topic_id
            if topic_id not in refusals:
                refusals[topic_id] = self._refusal(partition)
            refusal = refusals[topic_id]
            if refusal is not None:
                found[partition] = refusal
        return found

    def _refusal(self, partition: TopicPartition) -> Outcome | None:
        try:
            self.check(partition)
        except RefusedError as refused:
            if refused.error in _RIGHTS:
                return refused.error, refused.message
        return None


_RIGHTS = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
