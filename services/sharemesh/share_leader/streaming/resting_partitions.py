"""Partitions of one stream that rest: nothing is taken of them until an alarm, or better news."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.share_session import ShareSession
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import Outcome
from sharemesh.timers import TimerHandle

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Refusals after which a partition leaves the session; after others it is tried again here."""


class RestingPartitions:
    """Those that rest, and those that were added and are not seen to be led here yet.

    ``alarms`` has each that rests; it is read, and changed here only.
    """

    def __init__(self, environment: LeaderEnvironment, wake: Callable[[], None]) -> None:
        self._environment = environment
        self._wake = wake
        self._arriving: set[TopicPartition] = set()
        self.alarms: dict[TopicPartition, TimerHandle] = {}

    def added(self, partitions: Sequence[TopicPartition]) -> None:
        """Expect partitions to be led here now, or soon; none of them rests."""
        self._arriving.update(partitions)
        self.go_on(partitions)

    def forgotten(self, partitions: Iterable[TopicPartition]) -> None:
        """Expect partitions no more."""
        self._arriving.difference_update(partitions)

    def arrived(self, partition: TopicPartition) -> None:
        """A partition was found to be led here."""
        self._arriving.discard(partition)

    def due(self, partition: TopicPartition) -> int:
        """Return how long to keep an added partition that may be led here soon; told once.

        Clients hear of a move while the old leader drains, and of a claim while its log is
        still being taken over.
        """
        if partition not in self._arriving:
            return 0
        self._arriving.discard(partition)
        environment, view = self._environment, self._environment.view
        named = view.next_leader(partition)
        if named is not None and named.node_id == environment.node_id:
            return environment.settings.hand_over_wait_ms
        leader = view.leader(partition)
        if leader is None or leader.node.node_id == environment.node_id:
            return environment.settings.take_over_wait_ms
        return 0

    def refused(
        self, refused: Mapping[TopicPartition, Outcome], session: ShareSession
    ) -> dict[TopicPartition, Outcome]:
        """Let moved partitions leave the session, and others rest; return what is to be told."""
        told: dict[TopicPartition, Outcome] = {}
        for partition, outcome in refused.items():
            moved = outcome[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
            if moved and (wait_ms := self.due(partition)):
                self.rest(partition, wait_ms)
                continue
            told[partition] = outcome
            if outcome[0] in _MOVED:
                session.forget([partition])
            else:
                self.rest(partition, self._environment.settings.stream_retry_ms)
        return told

    def rest(self, partition: TopicPartition, pause_ms: int) -> None:
        """Take nothing of it until ``go_on``, or for ``pause_ms``."""
        environment = self._environment
        if (earlier := self.alarms.pop(partition, None)) is not None:
            earlier.cancel()
        self.alarms[partition] = environment.alarms.at(
            environment.clock.now_ms() + pause_ms, lambda: self.go_on([partition])
        )

    def go_on(self, partitions: Iterable[TopicPartition]) -> None:
        """Take of partitions again."""
        for partition in partitions:
            if (alarm := self.alarms.pop(partition, None)) is not None:
                alarm.cancel()
                self._wake()
