"""One replica of a partition at one broker: its role under an epoch, and who waits for what."""

from collections.abc import Callable

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import PartitionMetadata
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.replica_log import ReplicaLog

PartitionKey = tuple[TopicId, int]
Waiter = Callable[[], bool]
"""Asked after each change; true once it has what it waited for."""


class Replica:
    """Leader or follower, as this broker believes.

    Attributes:
        log: What lies on its disk.
        epoch: The leader epoch that it heard of last.
        leader: Who leads under that epoch, −1: nobody.
        high_watermark: What it knows to be committed.
        in_sync: As a leader: the replicas that must have a record before it counts.
        ends: As a leader: how far the followers are.
        starts: As a leader: where their logs begin.
        caught_up_ms: As a leader: when a follower last had everything.
        must_truncate: As a follower: whether to compare epochs before the next copy.
    """

    def __init__(self, broker_id: int, topic: str, key: PartitionKey) -> None:
        self.topic = topic
        self.key = key
        self.log = ReplicaLog()
        self.epoch = -1
        self.leader = -1
        self.high_watermark = 0
        self.in_sync: tuple[int, ...] = ()
        self.ends: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.caught_up_ms: dict[int, float] = {}
        self.must_truncate = False
        self.is_gone = False
        self._broker_id = broker_id
        self._epoch_start = 0
        self._waiters: dict[int, Waiter] = {}
        self._numbers = 0

    @property
    def is_leader(self) -> bool:
        """Whether this broker believes to lead the partition."""
        return self.leader == self._broker_id and not self.is_gone

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed ends: the high watermark, or the oldest open transaction."""
        first_open = self.log.first_open_transaction()
        return self.high_watermark if first_open is None else min(first_open, self.high_watermark)

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark has reached what lay there when this leader began."""
        return self.high_watermark >= self._epoch_start

    def hear(self, image: PartitionMetadata, now_ms: float) -> bool:
        """Take over what the controller says; whether the others can copy something now."""
        if image.leader_epoch <= self.epoch:
            if image.leader_epoch == self.epoch and self.is_leader:
                self.in_sync = image.in_sync
                return self.advance()
            return False
        self.epoch, self.leader = image.leader_epoch, image.leader
        self.in_sync = image.in_sync
        self.ends.clear()
        self.starts.clear()
        self.must_truncate = not self.is_leader
        if self.is_leader:
            self._epoch_start = self.log.end_offset
            self.log.begin_epoch(self.epoch)
            others = (each for each in image.replicas if each != self._broker_id)
            self.caught_up_ms = dict.fromkeys(others, now_ms)
            self.advance()
        self.notify()
        return True

    def advance(self) -> bool:
        """Raise the high watermark to what all in-sync replicas have; whether it moved."""
        ends = [
            self.log.end_offset if each == self._broker_id else self.ends.get(each, -1)
            for each in self.in_sync
        ]
        reached = min(ends, default=-1)
        if not self.is_leader or reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        self.notify()
        return True

    def check_epoch(self, known_epoch: int, *, needs_leader: bool = True) -> None:
        """Refuse a request of an asker who knows another leader epoch (−1: does not say).

        Raises:
            BrokerRefusedError: UNKNOWN_TOPIC_ID if the topic was deleted meanwhile, else
                FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if self.is_gone:
            raise refusal(BrokerCode.UNKNOWN_TOPIC_ID, self.topic)
        if 0 <= known_epoch < self.epoch:
            raise refusal(BrokerCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.epoch}")
        if known_epoch > self.epoch:
            raise refusal(BrokerCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {self.epoch}")
        if needs_leader and not self.is_leader:
            raise refusal(BrokerCode.NOT_LEADER_OR_FOLLOWER, f"broker {self._broker_id}")

    # ---- waiting ----------------------------------------------------------------------------

    def wait(self, waiter: Waiter) -> Callable[[], None]:
        """Ask a waiter after each change until it is content; the result takes it back."""
        self._numbers += 1
        number = self._numbers
        self._waiters[number] = waiter

        def take_back() -> None:
            self._waiters.pop(number, None)

        return take_back

    def notify(self) -> None:
        """Ask everybody who waits."""
        for number, waiter in list(self._waiters.items()):
            if number in self._waiters and waiter():
                self._waiters.pop(number, None)

    def drop_waiters(self) -> None:
        """The broker died: nobody who asked it is answered."""
        self._waiters.clear()

    def vanish(self) -> None:
        """The topic was deleted: whoever waits is told so."""
        self.is_gone = True
        self.notify()
