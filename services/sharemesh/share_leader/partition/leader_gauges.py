"""Gauges of a share leader, read from its state when metrics are collected."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Protocol

from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.cluster import ClusterView
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.share_leader.unsent import UnsentBudget
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Labels, Metric, Observation

AGE_SAMPLES_MAX = 128
"""High watermarks remembered with their times, for each topic-partition led."""

AGE_SAMPLE_MS = 1_000


class Counted(Protocol):
    """Something whose size is a metric."""

    def __len__(self) -> int: ...


class LeaderGauges:
    """Registers the leader's metrics that are read at collection; ``sample`` feeds the ages."""

    def __init__(self, environment: LeaderEnvironment, partitions: LedPartitions) -> None:
        self._environment = environment
        self._partitions = partitions
        self._ends: dict[TopicPartition, deque[tuple[int, int]]] = {}

    def register(self, sessions: "Sessions", streams: Counted, unsent: UnsentBudget) -> None:
        """Register all metrics with the environment's registry."""
        registry = self._environment.telemetry.registry
        counters = self._environment.counters
        totals: tuple[tuple[Metric, Callable[[], float]], ...] = (
            (names.SESSIONS, lambda: len(sessions.all())),
            (names.SESSION_PARTITIONS, lambda: sum(len(s.partitions) for s in sessions.all())),
            (names.STALLED_MEMBERS, lambda: sum(s.is_stalled for s in sessions.all())),
            (names.SESSIONS_EVICTED, lambda: counters.sessions_evicted),
            (names.STREAMS, lambda: len(streams)),
            (names.UNSENT_BYTES, lambda: unsent.total),
            (names.LED_PARTITIONS, lambda: len(self._partitions)),
            (names.RECORDS_PRODUCED, lambda: counters.records_produced),
            (names.BYTES_PRODUCED, lambda: counters.bytes_produced),
            (names.BYTES_DELIVERED, lambda: counters.bytes_delivered),
            (names.FETCHES_WAITING, self._waiting),
            (names.FETCHES_DELAYED, self._delayed),
            (names.FETCHES_EXPIRED, lambda: counters.fetches_expired),
            (names.INVARIANTS_CHECKED, lambda: counters.invariants_checked),
            (names.INVARIANTS_BROKEN, lambda: counters.invariants_broken),
        )
        for metric, read in totals:
            registry.observe(metric, one_value(read))
        for metric, topics in (
            (names.FETCH_REQUESTS, counters.fetch_requests),
            (names.FETCH_FAILURES, counters.failed_fetch_requests),
            (names.ACKNOWLEDGE_REQUESTS, counters.acknowledge_requests),
            (names.ACKNOWLEDGE_FAILURES, counters.failed_acknowledge_requests),
        ):
            registry.observe(metric, self._by_topic(topics))
        for metric, of_share in (
            (names.INFLIGHT_RECORDS, _in_flight),
            (names.INFLIGHT_BATCHES, _batches),
            (names.DELAYED_RECORDS, _delayed_records),
            (names.BACKLOG_RECORDS, _backlog),
            (names.OLDEST_ACQUIRED_AGE, self._oldest_acquired_s),
            (names.BACKLOG_AGE, self._backlog_age_s),
            (names.GROUP_PAUSED, _paused),
            (names.RUNS_USED, _runs_used),
        ):
            registry.observe(metric, self._by_share(of_share))
        self.sample()
        self._environment.alarms.every(AGE_SAMPLE_MS, self.sample)

    def sample(self) -> None:
        """Remember each high watermark with the time."""
        now_ms = self._environment.clock.now_ms()
        kept: dict[TopicPartition, deque[tuple[int, int]]] = {}
        for led in self._partitions:
            ends = self._ends.get(led.partition) or deque(maxlen=AGE_SAMPLES_MAX)
            kept[led.partition] = ends
            end = led.log.high_watermark
            if not ends or ends[-1][0] != end:
                if len(ends) == AGE_SAMPLES_MAX:  # thin out the older half: coarser, not shorter
                    thinned = [*list(ends)[: AGE_SAMPLES_MAX // 2 : 2], *list(ends)[64:]]
                    ends.clear()
                    ends.extend(thinned)
                ends.append((end, now_ms))
        self._ends = kept

    def _oldest_acquired_s(self, _: LedPartition, runner: SharePartitionRunner) -> float:
        granted_ms = runner.machine.oldest_lock_ms
        if granted_ms is None:
            return 0.0
        return (self._environment.clock.now_ms() - granted_ms) / 1_000

    def _backlog_age_s(self, led: LedPartition, runner: SharePartitionRunner) -> float:
        following = runner.next_fetch_offset
        if following >= led.log.high_watermark:
            return 0.0
        now_ms = self._environment.clock.now_ms()
        for end, seen_ms in self._ends.get(led.partition, ()):
            if end > following:
                return (now_ms - seen_ms) / 1_000
        return 0.0

    def _waiting(self) -> float:
        return sum(runner.has_waiters for led in self._partitions for runner in led.shares.values())

    def _delayed(self) -> float:
        runners = [runner for led in self._partitions for runner in led.shares.values()]
        return len({waiter for runner in runners for waiter in runner.waiters()})

    def _by_share(
        self, read: Callable[[LedPartition, SharePartitionRunner], float]
    ) -> Callable[[], Iterator[Observation]]:
        telemetry = self._environment.telemetry

        def values() -> Iterator[Observation]:
            for led in self._partitions:
                topic = topic_name(self._environment.view, led.partition.topic_id)
                label = telemetry.partition_label(led.partition.partition)
                for runner in list(led.shares.values()):
                    if runner.phase is Phase.ACTIVE:
                        labels: Labels = (runner.key.group_id, topic, label)
                        yield labels, read(led, runner)

        return values

    def _by_topic(self, counts: "Counter[TopicId]") -> Callable[[], Iterator[Observation]]:
        def values() -> Iterator[Observation]:
            for topic_id, count in counts.items():
                yield (topic_name(self._environment.view, topic_id),), count

        return values


class Sessions(Protocol):
    """All share sessions of a leader."""

    def all(self) -> "tuple[HasPartitions, ...]":
        """Return every session."""
        ...


class HasPartitions(Protocol):
    """What metrics need of a session."""

    @property
    def is_stalled(self) -> bool:
        """Whether its member gets no records until it sends a message (HBK-11)."""
        ...

    @property
    def partitions(self) -> Counted:
        """The partitions of the session."""
        ...


def one_value(read: Callable[[], float]) -> Callable[[], Iterator[Observation]]:
    """Return a reader of a metric without labels."""

    def values() -> Iterator[Observation]:
        yield (), read()

    return values


def topic_name(view: ClusterView, topic_id: TopicId) -> str:
    """Return the name of a topic; that of one just deleted is its id."""
    topic = view.topic(topic_id)
    return topic.name if topic is not None else topic_id.hex()


def _in_flight(_: LedPartition, runner: SharePartitionRunner) -> float:
    return runner.machine.in_flight_count


def _delayed_records(_: LedPartition, runner: SharePartitionRunner) -> float:
    return runner.machine.delayed_count


def _batches(_: LedPartition, runner: SharePartitionRunner) -> float:
    return runner.machine.batch_count


def _runs_used(_: LedPartition, runner: SharePartitionRunner) -> float:
    return runner.machine.runs_used


def _paused(_: LedPartition, runner: SharePartitionRunner) -> float:
    return runner.config.paused


def _backlog(led: LedPartition, runner: SharePartitionRunner) -> float:
    machine = runner.machine
    whole = led.log.high_watermark - max(machine.start_offset, led.log.log_start_offset)
    return max(0, whole - machine.delivery_complete_count)
