"""Whether this process still leads what it serves, asked of the coordination store."""

from typing import Protocol

from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import ShardKind


class Ownership(Protocol):
    """A look (spec STL): true of a moment after the call, never of one before it.

    For storage that cannot tell by itself who owns it. Calls at the same time share reads.
    """

    async def still(self, kind: ShardKind, shard: int, epoch: int) -> None:
        """Return if nobody has taken a coordinator shard over since it got ``epoch``.

        Raises:
            FencedError: Somebody has, or the store did not answer: serve nothing of it any more.
        """
        ...

    async def leads(self, partition: TopicPartition, epoch: int) -> None:
        """Return if the claim of this process on a topic-partition under ``epoch`` stands.

        Raises:
            FencedError: It does not, or the store did not answer: serve nothing of it any more.
        """
        ...
