"""One process's client of the cluster: fills ``ports.brokers.Brokers``."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    BrokerWatch,
    ClusterMetadata,
    FetchedRecords,
    FoundOffset,
    Isolation,
    NewBrokerTopic,
    ProducedBatch,
    UnsupportedRequestError,
)
from sharemesh.testing.memory_brokers import broker_requests
from sharemesh.testing.memory_brokers.broker import MemoryBroker, Reply
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode, refusal
from sharemesh.testing.memory_brokers.broker_requests import Request
from sharemesh.testing.memory_brokers.client_watch import MemoryWatch
from sharemesh.testing.memory_brokers.links import BrokerLink, Chance, Outcome, with_refusals
from sharemesh.testing.memory_brokers.replication import Replication
from sharemesh.testing.memory_brokers.schedule import Schedule

REQUEST_TIMEOUT_MS = 10_000
"""How long an answer may take, beyond what the request itself lets the broker wait."""


class ClusterSide(Protocol):
    """What a client needs of the cluster."""

    schedule: Schedule
    chance: Chance
    replication: Replication
    brokers: dict[int, MemoryBroker]
    unsupported: dict[str, None]

    def metadata_of(
        self, broker: MemoryBroker, topics: Sequence[str], topic_ids: Sequence[TopicId]
    ) -> ClusterMetadata:
        """Return what one broker knows."""
        ...

    def administer(self, broker: MemoryBroker, change: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Let the controller change something for a broker that reaches it."""
        ...

    def create(self, new: NewBrokerTopic) -> TopicId:
        """Create a topic."""
        ...

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic."""
        ...

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        ...

    def configure(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic."""
        ...

    def next_producer_id(self) -> int:
        """Return an id that no producer has."""
        ...

    def forget(self, client: "MemoryBrokers") -> None:
        """A client was closed."""
        ...


class MemoryBrokers:
    """Finds leaders, sends one try a call, and can be cut off from some brokers or all.

    Attributes:
        cut_off: Whether nothing passes between this client and any broker.
        cut_from: Brokers that this client cannot reach.
    """

    def __init__(self, cluster: ClusterSide) -> None:
        self._cluster = cluster
        self.cut_off = False
        self.cut_from: dict[int, None] = {}
        self._links: dict[tuple[int, BrokerLane, BrokerPartition | int | None], BrokerLink] = {}
        self._watches = 0
        self._leaders: dict[tuple[TopicId, str, int], tuple[int, int]] = {}
        self._newest: dict[tuple[TopicId, str, int], int] = {}
        self._asked = 0
        self._closed = False

    # ---- the port ---------------------------------------------------------------------------

    async def metadata(
        self, topics: Sequence[str] = (), *, topic_ids: Sequence[TopicId] = ()
    ) -> ClusterMetadata:
        """Ask one broker (see the port)."""
        request = self._metadata_request(topics, topic_ids)
        answer: ClusterMetadata = await self._call(self._some_broker(), BrokerLane.CONTROL, request)
        return answer

    async def produce(
        self,
        partition: BrokerPartition,
        batch: bytes,
        *,
        timeout_ms: int,
        lane: BrokerLane = BrokerLane.PRODUCE,
    ) -> ProducedBatch:
        """Append one record batch with acks=all (see the port)."""
        leader, _ = await self._leader_of(partition)
        cluster = self._cluster
        request = broker_requests.produce(partition, batch, timeout_ms, cluster.replication)
        refusable = with_refusals(request, cluster.chance)
        produced: ProducedBatch = await self._call(
            leader, lane, refusable, partition, wait_ms=timeout_ms, is_write=True
        )
        return produced

    async def fetch(
        self,
        partition: BrokerPartition,
        offset: int,
        *,
        max_bytes: int,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        last_fetched_epoch: int = -1,
    ) -> FetchedRecords:
        """Read from the batch that holds ``offset`` (see the port)."""
        leader, epoch = await self._leader_of(partition)
        request = broker_requests.fetch(
            partition, epoch, offset, (max_bytes, max_wait_ms), isolation, last_fetched_epoch
        )
        fetched: FetchedRecords = await self._call(
            leader, BrokerLane.READ, request, partition, wait_ms=max_wait_ms
        )
        return fetched

    def watch(self) -> BrokerWatch:
        """Return a new watch over no partition."""
        self._watches += 1
        return MemoryWatch(self._watches, self, self._cluster.schedule)

    async def list_offset(
        self,
        partition: BrokerPartition,
        timestamp_ms: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> FoundOffset:
        """Return an offset by time, or an end of the log (see the port)."""
        leader, epoch = await self._leader_of(partition)
        request = broker_requests.list_offset(partition, epoch, timestamp_ms, isolation)
        found: FoundOffset = await self._call(leader, BrokerLane.CONTROL, request, partition)
        return found

    async def end_offset_of_epoch(
        self, partition: BrokerPartition, leader_epoch: int
    ) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch at most this one (see the port)."""
        self._need("end_offset_of_epoch")
        leader, epoch = await self._leader_of(partition)
        request = broker_requests.end_offset_of_epoch(partition, epoch, leader_epoch)
        end: tuple[int, int] = await self._call(leader, BrokerLane.CONTROL, request, partition)
        return end

    async def delete_records(
        self, partition: BrokerPartition, before_offset: int, *, timeout_ms: int
    ) -> int:
        """Move the log start (see the port)."""
        self._need("delete_records")
        leader, _ = await self._leader_of(partition)
        request = broker_requests.delete_records(
            partition, before_offset, timeout_ms, self._cluster.replication
        )
        start: int = await self._call(
            leader, BrokerLane.CONTROL, request, partition, wait_ms=timeout_ms, is_write=True
        )
        return start

    async def create_topic(self, topic: NewBrokerTopic, *, timeout_ms: int) -> None:
        """Create one topic."""
        await self._administer(partial(self._cluster.create, topic), timeout_ms)

    async def create_partitions(self, topic: str, partitions: int, *, timeout_ms: int) -> None:
        """Let a topic grow to that many partitions."""
        await self._administer(partial(self._cluster.grow, topic, partitions), timeout_ms)

    async def delete_topic(self, topic: str, *, timeout_ms: int) -> None:
        """Delete a topic."""
        await self._administer(partial(self._cluster.delete, topic), timeout_ms)

    async def topic_configs(self, topic: str) -> Mapping[str, str]:
        """Return the effective settings of a topic."""
        request = broker_requests.topic_configs(topic)
        configs: Mapping[str, str] = await self._call(
            self._some_broker(), BrokerLane.CONTROL, request
        )
        return configs

    async def alter_topic_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set settings of a topic; None takes one back to its default."""
        await self._administer(partial(self._cluster.configure, topic, dict(changes)), 0)

    async def new_producer_id(self) -> tuple[int, int]:
        """Return (id, epoch) of a new idempotent producer."""
        producer_id: int = await self._administer(self._cluster.next_producer_id, 0)
        return producer_id, 0

    async def close(self) -> None:
        """Close every connection; calls under way end with BrokerUnreachableError."""
        self._closed = True
        self._cluster.forget(self)
        self.lose_links("closed here")

    # ---- for the watch, and for the cluster -------------------------------------------------

    def known_leader(self, partition: BrokerPartition) -> tuple[int, int] | None:
        """Return who leads, and its epoch, as far as is known here."""
        return self._leaders.get(_place(partition))

    def find_leader(self, partition: BrokerPartition, outcome: Outcome) -> None:
        """Ask some broker who leads; the outcome is (leader, epoch) or an error."""

        def learned(answer: Any) -> None:  # noqa: ANN401
            if not isinstance(answer, Exception):
                try:
                    answer = self._learn(answer, partition)
                except BrokerRefusedError as error:
                    answer = error
            outcome(answer)

        by_id = partition.topic_id != NO_TOPIC_ID
        request = self._metadata_request(
            () if by_id else (partition.topic,), (partition.topic_id,) if by_id else ()
        )
        self.send(self._some_broker(), BrokerLane.CONTROL, request, learned)

    def forget_leader(self, partition: BrokerPartition) -> None:
        """Ask anew the next time."""
        self._leaders.pop(_place(partition), None)

    def send(
        self,
        broker_id: int,
        lane: BrokerLane,
        request: Request,
        outcome: Outcome,
        *,
        wait_ms: int = 0,
        is_write: bool = False,
        share: BrokerPartition | int | None = None,
    ) -> None:
        """Send a request on its lane, ``share`` tells lanes of one kind apart.

        The outcome is the answer or an error.
        """
        if self._closed:
            outcome(BrokerUnreachableError("this client is closed"))
            return
        place = (broker_id, lane, share)
        link = self._links.get(place)
        if link is None or not link.is_open:
            cluster = self._cluster
            link = self._links[place] = BrokerLink(
                cluster.brokers[broker_id], cluster.schedule, cluster.chance, self._is_cut
            )
        link.send(request, outcome, wait_ms + REQUEST_TIMEOUT_MS, is_write=is_write)

    def lose_links(self, why: str, broker_id: int | None = None) -> None:
        """Lose the connections to one broker, or all."""
        for link in list(self._links.values()):
            if broker_id is None or link.broker.broker_id == broker_id:
                link.lose(why)

    # ---- inside -----------------------------------------------------------------------------

    async def _call(
        self,
        broker_id: int,
        lane: BrokerLane,
        request: Request,
        partition: BrokerPartition | None = None,
        *,
        wait_ms: int = 0,
        is_write: bool = False,
    ) -> Any:  # noqa: ANN401
        def ask(outcome: Outcome) -> None:
            self.send(
                broker_id, lane, request, outcome,
                wait_ms=wait_ms, is_write=is_write,
                share=partition if lane is BrokerLane.SHARD else None,
            )  # fmt: skip

        try:
            return await _outcome_of(ask)
        except (BrokerRefusedError, BrokerUnreachableError):
            if partition is not None:
                self.forget_leader(partition)
            raise

    async def _leader_of(self, partition: BrokerPartition) -> tuple[int, int]:
        known = self.known_leader(partition)
        if known is None:
            known = await _outcome_of(partial(self.find_leader, partition))
        return known

    def _metadata_request(self, topics: Sequence[str], topic_ids: Sequence[TopicId]) -> Request:
        def handle(broker: MemoryBroker, reply: Reply) -> None:
            reply(self._cluster.metadata_of(broker, topics, topic_ids))

        return handle

    async def _administer(self, change: Callable[[], Any], timeout_ms: int) -> Any:  # noqa: ANN401
        def handle(broker: MemoryBroker, reply: Reply) -> None:
            try:
                reply(self._cluster.administer(broker, change))
            except BrokerRefusedError as error:
                reply(error)

        return await self._call(
            self._some_broker(), BrokerLane.CONTROL, handle, wait_ms=timeout_ms, is_write=True
        )

    def _some_broker(self) -> int:
        ids = sorted(self._cluster.brokers)
        self._asked += 1
        return ids[self._asked % len(ids)]

    def _learn(self, answer: ClusterMetadata, wanted: BrokerPartition) -> tuple[int, int]:
        """Take over the leaders of a topic; an answer older than what is known teaches nothing."""
        topic = answer.topics[0]
        if topic.error:
            raise refusal(BrokerCode(topic.error), wanted.topic, sent=False)
        for each in topic.partitions:
            place = (wanted.topic_id, wanted.topic, each.partition)
            if each.leader >= 0 and each.leader_epoch >= self._newest.get(place, -1):
                self._newest[place] = each.leader_epoch
                self._leaders[place] = (each.leader, each.leader_epoch)
        name = f"{wanted.topic}-{wanted.partition}"
        if all(each.partition != wanted.partition for each in topic.partitions):
            raise refusal(BrokerCode.UNKNOWN_TOPIC_OR_PARTITION, name, sent=False)
        known = self.known_leader(wanted)
        if known is None:
            detail = f"broker {answer.answered_by} knows no leader of {name}"
            raise refusal(BrokerCode.LEADER_NOT_AVAILABLE, detail)
        return known

    def _is_cut(self, broker_id: int) -> bool:
        return self.cut_off or broker_id in self.cut_from

    def _need(self, request: str) -> None:
        if request in self._cluster.unsupported:
            raise UnsupportedRequestError(f"{request} is not offered by this cluster")


def _place(partition: BrokerPartition) -> tuple[TopicId, str, int]:
    return partition.topic_id, partition.topic, partition.partition


async def _outcome_of(ask: Callable[[Outcome], None]) -> Any:  # noqa: ANN401
    """Wait for the outcome of something that calls back; nobody is told if the asker is gone."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def outcome(result: Any) -> None:  # noqa: ANN401
        if future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
            future.exception()  # whoever asked may be gone
        else:
            future.set_result(result)

    ask(outcome)
    return await future
