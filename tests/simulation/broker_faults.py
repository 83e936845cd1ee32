"""What goes wrong with the brokers of a Kafka cluster and on the way to them."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from random import Random

from sharemesh.testing.memory_brokers import MemoryCluster

BrokerFault = Callable[["BrokerFaults"], Awaitable[None]]
ON_THE_WAY = ("lost", "unanswered", "late", "doubled")
NEWEST = (5, 40, 150, 100_000)
REMOVED = (0.2, 0.6, 0.9, 1.0)
COMPRESSIONS = ("gzip", "lz4", "zstd", "snappy")


class BrokerFaults:
    """Faults of one cluster; each begins something, and ends it.

    Attributes:
        happens: Told the name of a fault when something goes wrong.
        removed: Offsets of records that compaction removed at some broker, by topic and partition.
    """

    def __init__(
        self, cluster: MemoryCluster, rng: Random, happens: Callable[[str], None] = lambda _: None
    ) -> None:
        self.cluster = cluster
        self.rng = rng
        self.happens = happens
        self.removed: dict[tuple[str, int], set[int]] = defaultdict(set)
        self._away: dict[int, None] = {}

    async def begin(self, name: str) -> None:
        """Carry one fault out, from its beginning to its end."""
        await BROKER_FAULTS[name](self)

    async def pause(self, shortest_s: float, longest_s: float) -> None:
        """Wait for as long as a fault lasts."""
        await asyncio.sleep(self.rng.uniform(shortest_s, longest_s))

    async def away(
        self, name: str, goes: Callable[[int], None], comes: Callable[[int], None], longest_s: float
    ) -> None:
        """Let a broker be away for a time."""
        able = [each for each in self.cluster.brokers if each not in self._away]
        if not able:
            return
        broker_id = self.rng.choice(able)
        self._away[broker_id] = None
        self.happens(name)
        goes(broker_id)
        await self.pause(0.1, longest_s)
        if broker_id in self._away:
            comes(broker_id)
            self._away.pop(broker_id, None)

    async def set_for_a_time(self, name: str, longest_s: float, **permilles: int) -> None:
        """Let troubles on the way be more common for a time."""
        self.happens(name)
        for trouble, permille in permilles.items():
            setattr(self.cluster.troubles, trouble, permille)
        await self.pause(0.5, longest_s)
        for trouble in permilles:
            setattr(self.cluster.troubles, trouble, 0)

    def partitions(self) -> list[tuple[str, int]]:
        """Return all partitions."""
        topics = self.cluster.controller.image.topics
        return [(name, each.partition) for name in topics for each in topics[name].partitions]

    def move_some(self, share: float) -> None:
        """Let others lead a part of all partitions."""
        for topic, partition in self.partitions():
            if self.rng.random() < share and self.cluster.can_move(topic, partition):
                self.cluster.move_leader(topic, partition)

    def clean(self, topic: str, partition: int, gone: Iterable[int], at: Iterable[int]) -> None:
        """Remove records at some brokers, as far as each has them and runs."""
        if topic not in self.cluster.controller.image.topics:
            return
        place = (self.cluster.controller.image.topics[topic].topic_id, partition)
        brokers = [each for each in at if self.cluster.brokers[each].runs]
        ends = [self.cluster.brokers[each].replicas[place].last_stable_offset for each in brokers]
        removed = {offset for offset in gone if offset < max(ends, default=0)}
        self.removed[topic, partition] |= removed
        self.cluster.compact(topic, partition, removed, brokers)

    def heal(self) -> None:
        """End all faults."""
        self._away.clear()
        self.cluster.news_ms = NEWS_MS
        self.cluster.heal()


NEWS_MS = (0.0, 50.0)


async def broker_killed(faults: BrokerFaults) -> None:
    """One broker is killed, and started again."""
    await faults.away("broker_killed", faults.cluster.kill, faults.cluster.start, 12)


async def broker_frozen(faults: BrokerFaults) -> None:
    """SIGSTOP, shorter or longer than the session of the broker, then SIGCONT."""
    await faults.away("broker_frozen", faults.cluster.freeze, faults.cluster.thaw, 15)


async def broker_cut_off(faults: BrokerFaults) -> None:
    """A broker is cut off from the controller, at times from the other brokers: a zombie."""
    from_brokers = faults.rng.random() < 0.5

    def cut(broker_id: int) -> None:
        faults.cluster.cut_off(broker_id, from_brokers=from_brokers)

    await faults.away("broker_cut_off", cut, faults.cluster.rejoin, 20)


async def broker_lags(faults: BrokerFaults) -> None:
    """A broker copies nothing for a time: it leaves the in-sync replicas."""
    cluster = faults.cluster
    await faults.away("broker_lags", cluster.pause_replication, cluster.resume_replication, 8)


async def leaders_moved(faults: BrokerFaults) -> None:
    """Others lead some partitions."""
    faults.happens("leaders_moved")
    faults.move_some(faults.rng.choice((0.2, 1.0)))


async def tail_lost(faults: BrokerFaults) -> None:
    """Others lead that had not copied the newest records."""
    cluster = faults.cluster
    faults.happens("tail_lost")
    for broker_id in cluster.brokers:
        cluster.pause_replication(broker_id)
    await faults.pause(0.02, 0.5)
    faults.move_some(0.7)
    for broker_id in cluster.brokers:
        cluster.resume_replication(broker_id)


async def on_the_way(faults: BrokerFaults) -> None:
    """Requests and answers are lost, late or doubled."""
    permille = faults.rng.choice((20, 100, 300))
    chosen = [name for name in ON_THE_WAY if faults.rng.random() < 0.6] or [*ON_THE_WAY]
    await faults.set_for_a_time("on_the_way", 15, **dict.fromkeys(chosen, permille))


async def replicas_too_few(faults: BrokerFaults) -> None:
    """Writes are refused for want of replicas, some after they were appended."""
    kind = faults.rng.choice(("too_few", "too_few_after"))
    await faults.set_for_a_time("replicas_too_few", 5, **{kind: faults.rng.choice((100, 1_000))})


async def throttled(faults: BrokerFaults) -> None:
    """A quota makes answers late."""
    await faults.set_for_a_time("throttled", 10, throttled=faults.rng.choice((20, 300)))


async def brokers_slow(faults: BrokerFaults) -> None:
    """Messages to and from brokers are late."""
    await faults.set_for_a_time("brokers_slow", 10, slow=faults.rng.choice((20, 200, 1_000)))


async def news_late(faults: BrokerFaults) -> None:
    """Brokers hear late of leaders: they tell of those of yesterday."""
    faults.happens("news_late")
    faults.cluster.news_ms = (0.0, faults.rng.choice((500.0, 5_000.0)))
    await faults.pause(1, 15)
    faults.cluster.news_ms = NEWS_MS


async def sessions_evicted(faults: BrokerFaults) -> None:
    """Brokers forget their fetch sessions, or have no room for new ones for a time."""
    faults.happens("sessions_evicted")
    brokers = faults.cluster.brokers.values()
    rooms = [broker.sessions.room for broker in brokers]
    for broker in brokers:
        broker.sessions.room = faults.rng.choice((0, broker.sessions.room))
    faults.cluster.evict_sessions()
    await faults.pause(0.5, 10)
    for broker, room in zip(brokers, rooms, strict=True):
        broker.sessions.room = max(room, broker.sessions.room)


async def rights_blip(faults: BrokerFaults) -> None:
    """Nobody may use a topic for a moment."""
    topics = sorted(faults.cluster.controller.image.topics)
    if not topics:
        return
    topic = faults.rng.choice(topics)
    faults.happens("rights_blip")
    faults.cluster.deny(topic)
    await faults.pause(0.05, 2)
    faults.cluster.allow(topic)


async def compression_switched(faults: BrokerFaults) -> None:
    """A topic's compression is set, and set back."""
    topics = sorted(faults.cluster.controller.image.topics)
    if not topics:
        return
    topic = faults.rng.choice(topics)
    faults.happens("compression_switched")
    faults.cluster.configure(topic, {"compression.type": faults.rng.choice(COMPRESSIONS)})
    await faults.pause(0.5, 10)
    if topic in faults.cluster.controller.image.topics:
        faults.cluster.configure(topic, {"compression.type": None})


async def compacted(faults: BrokerFaults) -> None:
    """Records of a compacted topic go: newest, or anywhere; at each broker in its time."""
    topics = faults.cluster.controller.image.topics
    places = [
        each
        for each in faults.partitions()
        if topics[each[0]].setting("cleanup.policy") == "compact"
    ]
    if not places:
        return
    faults.happens("compacted")
    rng, (topic, partition) = faults.rng, faults.rng.choice(places)
    _, image = faults.cluster.controller.partition(topic, partition)
    replicas = [faults.cluster.brokers[each] for each in image.replicas]
    topic_id = faults.cluster.controller.image.topics[topic].topic_id
    end = max(each.replicas[topic_id, partition].high_watermark for each in replicas)
    share = rng.choice(REMOVED)
    newest = range(max(0, end - rng.choice(NEWEST)), end)
    gone = [offset for offset in newest if rng.random() < share]
    early = [each for each in image.replicas if rng.random() < 0.7] or [*image.replicas]
    faults.clean(topic, partition, gone, early)
    await faults.pause(0.1, 10)
    faults.clean(topic, partition, gone, [each for each in image.replicas if each not in early])


BROKER_FAULTS: dict[str, BrokerFault] = {
    fault.__name__: fault
    for fault in (
        broker_killed,
        broker_frozen,
        broker_cut_off,
        broker_lags,
        leaders_moved,
        tail_lost,
        on_the_way,
        replicas_too_few,
        throttled,
        brokers_slow,
        news_late,
        sessions_evicted,
        rights_blip,
        compression_switched,
        compacted,
    )
}
