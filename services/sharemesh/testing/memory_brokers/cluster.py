"""A cluster of brokers in memory: what clients share, and what an operator, or fate, does to it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from sharemesh.codec.control_batches import encode_txn_marker
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerAddress,
    ClusterMetadata,
    NewBrokerTopic,
    PartitionMetadata,
    TopicMetadata,
)
from sharemesh.ports.clock import Clock
from sharemesh.testing.memory_brokers.broker import MemoryBroker
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.broker_requests import append
from sharemesh.testing.memory_brokers.client import MemoryBrokers
from sharemesh.testing.memory_brokers.cluster_image import BrokerTopic
from sharemesh.testing.memory_brokers.controller import Controller
from sharemesh.testing.memory_brokers.links import BrokerTroubles, Chance, Span
from sharemesh.testing.memory_brokers.replica import Replica
from sharemesh.testing.memory_brokers.replication import Replication
from sharemesh.testing.memory_brokers.schedule import ClockSchedule, Schedule

CLUSTER_ID = "memory"
_NO_SPAN = (0.0, 0.0)


class MemoryCluster:
    """Brokers, their controller and their replication; without troubles nothing takes time.

    Attributes:
        troubles: What goes wrong between clients and brokers.
        session_ms: How long the controller waits for a broker that is gone before others lead.
        replication_ms: How long a copy by a follower takes.
        news_ms: How long a broker takes to hear of the controller's decision.
        unsupported: Requests that this cluster does not offer: ``delete_records``,
            ``end_offset_of_epoch``.
    """

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        *,
        brokers: int = 3,
        defaults: Mapping[str, str] | None = None,
        has_topic_ids: bool = True,
        schedule: Schedule | None = None,
    ) -> None:
        """``defaults``: settings of new topics, beside Kafka's own."""
        self.schedule: Schedule = schedule or ClockSchedule(clock)
        self.cluster_id = CLUSTER_ID
        self.troubles = BrokerTroubles()
        self.chance = Chance(rng, self.troubles)
        self.session_ms: Span = _NO_SPAN
        self.replication_ms: Span = _NO_SPAN
        self.news_ms: Span = _NO_SPAN
        self.unsupported: dict[str, None] = {}
        self.denied: dict[str, None] = {}
        self.controller = Controller(self.schedule, rng, defaults or {})
        self.brokers: dict[int, MemoryBroker] = {}
        self.replication = Replication(self.brokers, self.controller.change_in_sync)
        self._has_topic_ids = has_topic_ids
        self._clients: dict[MemoryBrokers, None] = {}
        self._producer_ids = 0
        self.controller.news_delay_ms = lambda: self.chance.span_ms(self.news_ms)
        self.replication.delay_ms = lambda: self.chance.span_ms(self.replication_ms)
        for broker_id in range(1, brokers + 1):
            address = BrokerAddress(broker_id, f"broker-{broker_id}", 9092, f"rack-{broker_id}")
            broker = MemoryBroker(address, self.schedule, self.controller.image, self.denied)
            broker.new_role = self._new_role
            self.brokers[broker_id] = broker
            self.controller.register(broker)

    def client(self) -> MemoryBrokers:
        """Return a new client, one for each process."""
        client = MemoryBrokers(self)
        self._clients[client] = None
        return client

    async def close(self) -> None:
        """End all that is still to come; repeating it is fine."""
        for client in list(self._clients):
            await client.close()
        await self.schedule.close()

    # ---- topics -----------------------------------------------------------------------------

    def create(self, new: NewBrokerTopic) -> TopicId:
        """Create a topic and return its id (``NO_TOPIC_ID`` if the cluster has none)."""
        topic_id = self.controller.create(new)
        return topic_id if self._has_topic_ids else NO_TOPIC_ID

    def grow(self, topic: str, partitions: int) -> None:
        """Let a topic grow to that many partitions."""
        self.controller.grow(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic with all that is in it."""
        self.controller.delete(topic)

    def configure(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic."""
        self.controller.configure(topic, changes)

    def deny(self, topic: str) -> None:
        """Let nobody use a topic: as if the rights had been taken."""
        self.denied[topic] = None

    def allow(self, topic: str) -> None:
        """Let everybody use it again."""
        self.denied.pop(topic, None)

    # ---- brokers ----------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """As kill -9; the controller notices after the session time-out."""
        self.brokers[broker_id].kill()
        for client in self._clients:
            client.lose_links("the connection was reset", broker_id)
        self._fence_later(broker_id)

    def start(self, broker_id: int) -> None:
        """Start a broker that was killed; what lay in its logs is there."""
        broker = self.brokers[broker_id]
        self.controller.fence(broker_id)
        broker.alive = True
        self._back(broker)

    def freeze(self, broker_id: int) -> None:
        """As SIGSTOP."""
        self.brokers[broker_id].frozen = True
        self._fence_later(broker_id)

    def thaw(self, broker_id: int) -> None:
        """As SIGCONT; it goes on by what it knew, until it hears of what happened."""
        broker = self.brokers[broker_id]
        broker.thaw()
        self._back(broker)

    def cut_off(self, broker_id: int, *, from_brokers: bool = True) -> None:
        """Cut a broker off from the controller, and from the other brokers; clients reach it."""
        broker = self.brokers[broker_id]
        broker.deaf, broker.isolated = True, from_brokers
        self._fence_later(broker_id)

    def rejoin(self, broker_id: int) -> None:
        """End what ``cut_off`` began."""
        broker = self.brokers[broker_id]
        broker.deaf = broker.isolated = False
        self._back(broker)

    def pause_replication(self, broker_id: int) -> None:
        """Let a broker copy nothing from the leaders."""
        self.replication.paused[broker_id] = None

    def resume_replication(self, broker_id: int) -> None:
        """Let it copy again."""
        self.replication.paused.pop(broker_id, None)
        self.replication.kick_all()

    def evict_sessions(self) -> None:
        """Let all brokers forget their fetch sessions."""
        for broker in self.brokers.values():
            broker.sessions.clear()

    def heal(self) -> None:
        """End all faults of brokers and messages."""
        self.troubles.end()
        self.replication.paused.clear()
        self.denied.clear()
        for broker_id, broker in self.brokers.items():
            if not broker.alive:
                self.start(broker_id)
            if broker.frozen:
                self.thaw(broker_id)
            if broker.deaf or broker.isolated:
                self.rejoin(broker_id)
        self.replication.kick_all()

    # ---- partitions -------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return who leads by the controller's word, −1: nobody."""
        return self.controller.partition(topic, partition)[1].leader

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Let another in-sync replica lead, without waiting for anything; return which.

        Raises:
            ValueError: There is none.
        """
        image, each = self.controller.partition(topic, partition)
        able = self._able(each)
        if not able or (to is not None and to not in able):
            raise ValueError(f"{topic}-{partition}: of {able} none can lead instead")
        chosen = able[0] if to is None else to
        self.controller.lead(image, each, chosen)
        self.controller.publish()
        return chosen

    def can_move(self, topic: str, partition: int = 0) -> bool:
        """Return whether another replica could lead."""
        return bool(self._able(self.controller.partition(topic, partition)[1]))

    def elect_unclean(self, topic: str, partition: int, to: int) -> None:
        """Let a replica lead whatever it lacks: committed records may be lost."""
        image, each = self.controller.partition(topic, partition)
        self.controller.lead(image, each, to, in_sync=(to,))
        self.controller.publish()

    def trim(self, topic: str, partition: int, before_offset: int) -> None:
        """Remove what retention would."""
        broker, replica = self._leading(topic, partition)
        replica.log.advance_start(min(before_offset, replica.high_watermark))
        self.replication.appended(broker, replica)

    def compact(
        self,
        topic: str,
        partition: int,
        gone: Iterable[int],
        brokers: Collection[int] | None = None,
        *,
        keeps_last: bool = True,
    ) -> None:
        """Remove committed records as cleaners do, each broker (default: all) for itself.

        Until the cleaner of another broker has come as far, records are there again whenever that
        one leads. Without ``keeps_last`` nothing may be left up to the end: the segment that was
        written to has been cut off since.
        """
        removed = frozenset(gone)
        topic_id = self.controller.image.topics[topic].topic_id
        _, image = self.controller.partition(topic, partition)
        for broker_id in image.replicas:
            if brokers is None or broker_id in brokers:
                replica = self.brokers[broker_id].replicas[topic_id, partition]
                replica.log.clean(replica.last_stable_offset, removed, keeps_last=keeps_last)

    def append(self, topic: str, partition: int, batch: bytes) -> int:
        """Append at the leader as acks=1 would, transactional batches too; return the offset.

        Raises:
            BrokerRefusedError: NOT_LEADER_OR_FOLLOWER; the leader does not run, or has not heard
                yet that it leads.
        """
        broker, replica = self._leading(topic, partition)
        if not broker.runs:
            raise refusal(BrokerCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker.broker_id}")
        replica.check_epoch(-1)
        base_offset, _ = append(broker, replica, batch)
        self.replication.appended(broker, replica)
        return base_offset

    def end_transaction(
        self, topic: str, partition: int, producer: tuple[int, int], *, commit: bool
    ) -> int:
        """Write the marker that ends a producer's transaction; return its offset."""
        now_ms = self.schedule.wall_ms()
        marker = encode_txn_marker(*producer, commit=commit, timestamp_ms=now_ms)
        return self.append(topic, partition, bytes(marker))

    def high_watermark(self, topic: str, partition: int = 0) -> int:
        """Return what the leader knows to be committed."""
        return self._leading(topic, partition)[1].high_watermark

    # ---- for clients ------------------------------------------------------------------------

    def metadata_of(
        self, broker: MemoryBroker, topics: Sequence[str], topic_ids: Sequence[TopicId]
    ) -> ClusterMetadata:
        """Return what one broker knows of these topics."""
        image = broker.image
        found = [self._described(name, NO_TOPIC_ID, image.topics.get(name)) for name in topics]
        for topic_id in topic_ids:
            topic = image.by_id(topic_id)
            found.append(self._described(topic.name if topic else "", topic_id, topic))
        addresses = tuple(
            each.address for each in self.brokers.values() if each.broker_id in image.living
        )
        controller = min(image.living, default=-1)
        return ClusterMetadata(
            self.cluster_id, controller, addresses, tuple(found), broker.broker_id
        )

    def administer(self, broker: MemoryBroker, change: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Let the controller change something for a broker that reaches it."""
        if broker.deaf:
            raise refusal(BrokerCode.REQUEST_TIMED_OUT, "the controller cannot be reached")
        return change()

    def next_producer_id(self) -> int:
        """Return an id that no producer has."""
        self._producer_ids += 1
        return self._producer_ids

    def forget(self, client: MemoryBrokers) -> None:
        """A client was closed."""
        self._clients.pop(client, None)

    # ---- inside -----------------------------------------------------------------------------

    def _described(self, name: str, topic_id: TopicId, topic: BrokerTopic | None) -> TopicMetadata:
        if name in self.denied:
            return TopicMetadata(name, topic_id, error=int(BrokerCode.TOPIC_AUTHORIZATION_FAILED))
        if topic is None:
            by_name = BrokerCode.UNKNOWN_TOPIC_OR_PARTITION
            error = by_name if topic_id == NO_TOPIC_ID else BrokerCode.UNKNOWN_TOPIC_ID
            return TopicMetadata(name, topic_id, error=int(error))
        shown = topic.topic_id if self._has_topic_ids else NO_TOPIC_ID
        return TopicMetadata(name, shown, topic.partitions)

    def _leading(self, topic: str, partition: int) -> tuple[MemoryBroker, Replica]:
        image, each = self.controller.partition(topic, partition)
        if each.leader < 0:
            raise refusal(BrokerCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        broker = self.brokers[each.leader]
        return broker, broker.replicas[image.topic_id, partition]

    def _able(self, partition: PartitionMetadata) -> list[int]:
        living = self.controller.image.living
        others = [each for each in partition.replicas if each != partition.leader]
        return [each for each in others if each in partition.in_sync and each in living]

    def _new_role(self, broker: MemoryBroker, replica: Replica) -> None:
        if replica.is_leader:
            self.replication.appended(broker, replica)
        else:
            self.replication.kick(broker, replica.key)

    def _back(self, broker: MemoryBroker) -> None:
        self.controller.register(broker)
        self.controller.tell(broker)
        self.replication.kick_all()

    def _fence_later(self, broker_id: int) -> None:
        delay_ms = self.chance.span_ms(self.session_ms)
        fence = partial(self._fence, broker_id)
        if delay_ms <= 0:
            fence()
        else:
            self.schedule.later(delay_ms, fence)

    def _fence(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        if not broker.runs or broker.deaf:
            self.controller.fence(broker_id)
