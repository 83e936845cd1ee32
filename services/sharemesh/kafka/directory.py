"""Who leads which partition, as brokers say it: asked for when it is needed, in one request each.

Metadata may be older than what is known already: a leader of an older epoch is not believed.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sharemesh.domain.ids import TopicId, format_topic_id
from sharemesh.kafka.answers import cluster_metadata
from sharemesh.kafka.dialing import REQUEST_TIMEOUT_MS
from sharemesh.kafka.lanes import BrokerLanes
from sharemesh.kafka.messages import error_name, to_uuid
from sharemesh.kafka.versions import FIRST_BY_ID, KafkaRequest
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerAddress,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    ClusterMetadata,
    TopicMetadata,
    UnsupportedRequestError,
)
from sharemesh.ports.clock import Clock
from sharemesh.tasks import OwnedTasks

METADATA_AGE_MAX_MS = 60_000
"""What is known of a topic is asked for anew after this time; meanwhile it stays in use."""

REFRESH_MIN_MS = 100
"""Leaders are asked for at most once in this time; all topics that wait go into one request."""

METADATA_PATIENCE_MS = 1_000
"""A broker that has not answered in this time may still do so, but the next one is asked too."""

TOPICS_A_REQUEST = 500

PARTITIONS_KNOWN_MAX = 100_000
"""Of how many partitions leaders and epochs are kept, besides the topic asked for last."""

FORGET_AFTER_MS = 600_000
"""A topic that nobody asked for in this time is known no more; it is asked for anew if needed."""

_ASKED_NO_MORE = "the leader is asked for no more"

_UNKNOWN_TOPIC_OR_PARTITION = 3, "UNKNOWN_TOPIC_OR_PARTITION"
_LEADER_NOT_AVAILABLE = 5, "LEADER_NOT_AVAILABLE"
_FENCED_LEADER_EPOCH = 74, "FENCED_LEADER_EPOCH"
_UNKNOWN_TOPIC_ID = 100, "UNKNOWN_TOPIC_ID"


class BrokerLeader(NamedTuple):
    """The broker to ask of a partition, and the leader epoch to name."""

    broker: BrokerAddress
    epoch: int


class _TopicKey(NamedTuple):
    topic_id: TopicId
    topic: str


@dataclass(slots=True)
class _KnownTopic:
    """The newest leader epochs stay when leaders are forgotten."""

    asked_ms: int
    leaders: dict[int, BrokerLeader]
    epochs: dict[int, int]


_Answered = ClusterMetadata | BrokerRefusedError | BrokerUnreachableError | UnsupportedRequestError
_Learned = TopicMetadata | BrokerRefusedError | BrokerUnreachableError | UnsupportedRequestError


class LeaderDirectory:
    """What this process knows of brokers and leaders."""

    def __init__(
        self,
        bootstrap: Sequence[BrokerAddress],
        lanes: BrokerLanes,
        clock: Clock,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._lanes = lanes
        self._clock = clock
        self._brokers: dict[int, BrokerAddress] = {}
        self._controller = -1
        self._turn = 0
        self._known: dict[_TopicKey, _KnownTopic] = {}  # in the order in which they were asked for
        self._partitions_known = 0
        self._wanted: dict[_TopicKey, asyncio.Future[_Learned]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._asked_ms = -REFRESH_MIN_MS
        self._tasks = OwnedTasks("the directory of Kafka's leaders")

    async def metadata(
        self, topics: Sequence[str] = (), topic_ids: Sequence[TopicId] = ()
    ) -> ClusterMetadata:
        """Ask one broker, another one each time, and the next one beside it if it says nothing.

        Raises:
            BrokerRefusedError: It refuses the login.
            BrokerUnreachableError: None can be reached, or none of them answers.
            UnsupportedRequestError: It cannot be asked by id, or not in a version spoken here.
        """
        asked: dict[asyncio.Task[_Answered], None] = {}
        silent: list[asyncio.Task[_Answered]] = []
        unreachable = BrokerUnreachableError(_ASKED_NO_MORE)
        brokers = self._in_turn()
        while (broker := next(brokers, None)) is not None or asked:
            if broker is not None:
                asked[self._tasks.spawn(self._ask_broker(broker, topics, topic_ids))] = None
            patience_s = None if broker is None else METADATA_PATIENCE_MS / 1_000
            done, _ = await asyncio.wait(
                asked, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
            )
            silent = silent if done else list(asked)
            for each in [task for task in asked if task in done]:
                del asked[each]
                found = unreachable if each.cancelled() else each.result()
                if isinstance(found, BrokerUnreachableError):
                    unreachable = found
                elif isinstance(found, Exception):
                    raise found
                else:
                    self._take(found)
                    for other in silent:
                        other.cancel()
                    return found
        raise unreachable

    async def _ask_broker(
        self, broker: BrokerAddress, topics: Sequence[str], topic_ids: Sequence[TopicId]
    ) -> _Answered:
        """Return its answer, or why there is none; nobody may wait for it any more."""
        by_id = [{"topic_id": to_uuid(each), "name": None} for each in topic_ids]
        content = {
            "topics": [*by_id, *({"topic_id": None, "name": each} for each in topics)],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        connection, reads = None, 0
        try:
            connection = await self._lanes.connection(broker, BrokerLane.CONTROL)
            reads = connection.reads
            if topic_ids and connection.version_of(KafkaRequest.METADATA) < FIRST_BY_ID:
                return UnsupportedRequestError(
                    f"{connection.listener} cannot be asked for topics by id; ask by name"
                )
            answer = await connection.call(
                KafkaRequest.METADATA, content, timeout_ms=REQUEST_TIMEOUT_MS
            )
        except asyncio.CancelledError:
            if connection is not None:
                connection.give_up(reads)
            raise
        except (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError) as error:
            return error
        return cluster_metadata(answer, broker)

    def _take(self, found: ClusterMetadata) -> None:
        if found.brokers:  # one that is cut off from the controller may name none
            self._brokers = {each.broker_id: each for each in found.brokers}
        self._controller = found.controller

    async def any_broker(self) -> BrokerAddress:
        """Return one that answers; raises as ``metadata``."""
        if not self._brokers:
            await self.metadata()
        return next(self._in_turn())

    async def controller(self) -> BrokerAddress:
        """Return the broker that topics are created at; any one where they pass that on.

        Raises as ``metadata``.
        """
        if self._controller not in self._brokers:
            await self.metadata()
        found = self._brokers.get(self._controller)
        return next(self._in_turn()) if found is None else found

    def forget_controller(self) -> None:
        """Ask anew before the next topic is created."""
        self._controller = -1

    def known_leader(self, partition: BrokerPartition) -> BrokerLeader | None:
        """Return whom to ask if that is known; what has become old is asked for beside it."""
        key = _TopicKey(partition.topic_id, partition.topic)
        known = self._known.get(key)
        if known is None:
            return None
        if self._clock.now_ms() - known.asked_ms > METADATA_AGE_MAX_MS:
            self._ask_for(key)
        return known.leaders.get(partition.partition)

    async def leader(self, partition: BrokerPartition) -> BrokerLeader:
        """Return whom to ask.

        Raises:
            BrokerRefusedError: There is no such topic or partition, or no leader now.
            BrokerUnreachableError: No broker can be asked.
            UnsupportedRequestError: It does not speak Metadata in a version spoken here.
        """
        found = self.known_leader(partition)
        if found is None:
            answer = await asyncio.shield(
                self._ask_for(_TopicKey(partition.topic_id, partition.topic))
            )
            if isinstance(answer, Exception):
                raise answer.with_traceback(None)  # several callers may get this one
            found = self.known_leader(partition)
            if found is None:
                raise self._why_none(answer, partition)
        return found

    async def ask_again(self, partitions: Sequence[BrokerPartition]) -> None:
        """Learn who leads partitions now, if some broker tells; what is known stays otherwise."""
        keys = dict.fromkeys(_TopicKey(each.topic_id, each.topic) for each in partitions)
        asked = [self._ask_for(key) for key in keys]
        await asyncio.gather(*(asyncio.shield(each) for each in asked))

    def forget(self, partition: BrokerPartition) -> None:
        """Ask anew before the next request to this partition."""
        known = self._known.get(_TopicKey(partition.topic_id, partition.topic))
        if known is not None:
            known.leaders.pop(partition.partition, None)

    async def close(self) -> None:
        """End what is being asked."""
        await self._tasks.close()

    def _ask_for(self, key: _TopicKey) -> "asyncio.Future[_Learned]":
        """Return what will be known of a topic."""
        found = self._wanted.get(key)
        if found is None:
            found = asyncio.get_running_loop().create_future()
            self._wanted[key] = found
            if self._asking is None or self._asking.done():
                self._asking = self._tasks.spawn(self._ask())
        return found

    async def _ask(self) -> None:
        try:
            while self._wanted:
                pause_ms = self._asked_ms + REFRESH_MIN_MS - self._clock.now_ms()
                if pause_ms > 0:
                    await self._clock.sleep_ms(pause_ms)
                self._asked_ms = self._clock.now_ms()
                await self._ask_once(list(self._wanted)[:TOPICS_A_REQUEST])
        finally:
            for waiting in self._wanted.values():  # this process ends, or it is a bug
                waiting.set_result(BrokerUnreachableError(_ASKED_NO_MORE))
            self._wanted.clear()

    async def _ask_once(self, keys: Sequence[_TopicKey]) -> None:
        """Ask for topics, by name where there is one; the id decides what is believed."""
        learned: dict[_TopicKey, _Learned] = {}
        # One request cannot ask by name and by id.
        for named in (True, False):
            some = [key for key in keys if bool(key.topic) is named]
            if some:
                learned |= await self._learn(some)
        for key in keys:
            answer = learned[key]
            if isinstance(answer, TopicMetadata):
                self._know(key, answer)
            waiting = self._wanted.pop(key)
            if not waiting.done():
                waiting.set_result(answer)
        self._forget_old()

    async def _learn(self, keys: Sequence[_TopicKey]) -> dict[_TopicKey, _Learned]:
        names = list(dict.fromkeys(key.topic for key in keys if key.topic))
        ids = [key.topic_id for key in keys if not key.topic]
        try:
            answer = await self.metadata(names, ids)
        except (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError) as error:
            return dict.fromkeys(keys, error)
        by_name = {each.topic: each for each in answer.topics}
        by_id = {each.topic_id: each for each in answer.topics}
        learned = {
            key: _judged(key, by_name.get(key.topic) if key.topic else by_id.get(key.topic_id))
            for key in keys
        }
        for key, found in learned.items():
            if isinstance(found, BrokerRefusedError) and key in self._known:
                self._known[key].leaders.clear()
        return learned

    def _know(self, key: _TopicKey, topic: TopicMetadata) -> None:
        """Keep the leaders of an answer; for a partition of which more is known already, that."""
        before = self._known.pop(key, None) or _KnownTopic(0, {}, {})
        known = _KnownTopic(self._clock.now_ms(), {}, dict(before.epochs))
        self._known[key] = known
        for each in topic.partitions:
            if each.leader_epoch < _newest_epoch(key, before, each.partition):
                if each.partition in before.leaders:
                    known.leaders[each.partition] = before.leaders[each.partition]
                continue
            known.epochs[each.partition] = each.leader_epoch
            if each.leader in self._brokers:
                broker = self._brokers[each.leader]
                known.leaders[each.partition] = BrokerLeader(broker, each.leader_epoch)
        self._partitions_known += len(known.epochs) - len(before.epochs)

    def _forget_old(self) -> None:
        """Drop topics that were not asked for longest, as far as there are too many or too old."""
        old_ms = self._clock.now_ms() - FORGET_AFTER_MS
        while len(self._known) > 1:
            key, known = next(iter(self._known.items()))
            if known.asked_ms > old_ms and self._partitions_known <= PARTITIONS_KNOWN_MAX:
                return
            del self._known[key]
            self._partitions_known -= len(known.epochs)

    def _why_none(self, topic: TopicMetadata, partition: BrokerPartition) -> BrokerRefusedError:
        found = [each for each in topic.partitions if each.partition == partition.partition]
        if not found:
            return BrokerRefusedError(
                *_UNKNOWN_TOPIC_OR_PARTITION, f"there is no {_shown(partition)}", sent=False
            )
        key = _TopicKey(partition.topic_id, partition.topic)
        newest = _newest_epoch(key, self._known.get(key), partition.partition)
        if found[0].leader_epoch < newest:
            return BrokerRefusedError(
                *_FENCED_LEADER_EPOCH,
                f"metadata names the leader of epoch {found[0].leader_epoch} for "
                f"{_shown(partition)}; {newest} is known already",
            )
        return BrokerRefusedError(*_LEADER_NOT_AVAILABLE, f"{_shown(partition)} has no leader now")

    def _in_turn(self) -> Iterator[BrokerAddress]:
        """Return brokers to ask, beginning with another one each time; bootstrap servers last."""
        known = [self._brokers[each] for each in sorted(self._brokers)]
        self._turn += 1
        for number in range(len(known)):
            yield known[(self._turn + number) % len(known)]
        for number in range(len(self._bootstrap)):
            yield self._bootstrap[(self._turn + number) % len(self._bootstrap)]


def _newest_epoch(key: _TopicKey, known: _KnownTopic | None, partition: int) -> int:
    """Return the newest leader epoch known; without ids another topic may have come."""
    return -1 if known is None or key.topic_id == NO_TOPIC_ID else known.epochs.get(partition, -1)


def _judged(key: _TopicKey, topic: TopicMetadata | None) -> _Learned:
    """Return what an answer says of a topic; another id under its name is another topic."""
    shown = key.topic or format_topic_id(key.topic_id)
    if topic is None:
        return BrokerRefusedError(
            *_UNKNOWN_TOPIC_OR_PARTITION, f"{shown} is not in the answer", sent=False
        )
    if topic.error:
        return BrokerRefusedError(
            topic.error, error_name(topic.error), f"topic {shown}", sent=False
        )
    if NO_TOPIC_ID not in (key.topic_id, topic.topic_id) and key.topic_id != topic.topic_id:
        return BrokerRefusedError(
            *_UNKNOWN_TOPIC_ID,
            f"topic {shown} has the id {format_topic_id(topic.topic_id)}, not "
            f"{format_topic_id(key.topic_id)}: it was deleted and made again",
        )
    return topic


def _shown(partition: BrokerPartition) -> str:
    return f"{partition.topic or format_topic_id(partition.topic_id)}-{partition.partition}"
