"""Spec section 27, rule by rule: which metric each rule is, and that it counts what the rule says.

Kafka's scenarios of MET-1 to MET-3 are also played through the services by `make conformance`.
"""

import random

import pytest

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicId
from sharemesh.domain.share_group.group import GroupState
from sharemesh.domain.share_partition.effects import (
    AcquiredRun,
    Answered,
    Initialized,
    LocksExpired,
    RecordsAcquired,
    WriteState,
)
from sharemesh.domain.share_partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    Initialize,
    StateRead,
    StateWritten,
    Tick,
)
from sharemesh.domain.state_batch import StateBatch
from sharemesh.group_coordinator.service import GroupGauges
from sharemesh.serve.process.probe import idle_percent
from sharemesh.share_leader.telemetry.partition_telemetry import PartitionTelemetry, counted
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.metrics_http import expose
from sharemesh.telemetry.spans import Spans
from sharemesh.telemetry.telemetry import Telemetry
from tests.telemetry.scrape import parse

KEY = SharePartitionKey(GroupId("g"), TopicId(b"t" * 16), 3)
MEMBER = MemberId("m1")
KINDS = AcknowledgeType
HERE = {("group", "g"), ("topic", "orders"), ("partition", "")}

RULES = {
    "MET-1": {
        "RecordAcknowledgementsPerSec": names.RECORDS_ACKNOWLEDGED,
        "PartitionLoadTimeMs": names.PARTITION_LOAD_DURATION,
        "RequestTopicPartitionsFetchRatio": names.FETCH_PARTITIONS_LOCKED,
        "TopicPartitionsAcquireTimeMs": names.ACQUIRE_DURATION,
    },
    "MET-2": {
        "AcquisitionLockTimeoutPerSec": names.LOCKS_EXPIRED,
        "InFlightMessageCount": names.INFLIGHT_RECORDS,
        "InFlightBatchCount": names.INFLIGHT_BATCHES,
        "InFlightBatchMessageCount": names.INFLIGHT_BATCH_RECORDS,
        "FetchLockTimeMs": names.FETCH_LOCK_DURATION,
        "FetchLockRatio": names.FETCH_LOCK_BUSY,
    },
    "MET-3": {
        "TotalShareFetchRequestsPerSec": names.FETCH_REQUESTS,
        "FailedShareFetchRequestsPerSec": names.FETCH_FAILURES,
        "TotalShareAcknowledgementRequestsPerSec": names.ACKNOWLEDGE_REQUESTS,
        "FailedShareAcknowledgementRequestsPerSec": names.ACKNOWLEDGE_FAILURES,
    },
    "MET-4": {
        "ShareSessionEvictionsPerSec": names.SESSIONS_EVICTED,
        "ShareSessionsCount": names.SESSIONS,
        "SharePartitionsCount": names.SESSION_PARTITIONS,
        "DelayedShareFetch ExpiresPerSec": names.FETCHES_EXPIRED,
        "NumDelayedOperations": names.FETCHES_DELAYED,
        "PurgatorySize": names.FETCHES_WAITING,
    },
    "MET-5": {
        "group-count": names.GROUPS,
        "share-group-count": names.GROUPS,
        "share-group-rebalance-count": names.GROUP_EPOCHS,
    },
    "MET-6": {
        "partition-load-time": names.SHARD_LOAD_DURATION,
        "thread-idle-ratio": names.LOOP_IDLE,
        "event-queue-size": names.COORDINATOR_QUEUE,
        "write-latency": names.COORDINATOR_WRITE_DURATION,
        "num-partitions": names.SHARDS,
        "last-pruned-offset": names.LAST_PRUNED_OFFSET,
    },
}


@pytest.mark.parametrize(
    ("rule", "kafka", "metric"),
    [(rule, kafka, metric) for rule, known in RULES.items() for kafka, metric in known.items()],
)
def test_each_metric_of_a_rule_says_which_rule_it_is_for(rule, kafka, metric):
    assert metric in names.metrics()
    assert rule in metric.says or kafka in metric.says, metric.says


class World:
    """One share partition's watch and what its metrics page says."""

    def __init__(self):
        ticks = iter(range(10**9, 10**12, 10**6))  # a millisecond each time somebody asks
        self.registry = Registry()
        spans = Spans(enabled=False, rng=random.Random(1), now_ns=lambda: next(ticks))
        self.watch = PartitionTelemetry(Telemetry(self.registry, spans), KEY, "orders", 5)
        self._write_id = 0

    def page(self):
        return parse(expose(self.registry.collect()))

    def value(self, name, **labels):
        wanted = set(labels.items())
        return sum(value for (each, pairs), value in self.page().items() if each == name
                   and wanted <= pairs)  # fmt: skip

    def acknowledge(self, *batches, error=ErrorCode.NONE):
        self._write_id += 1
        state = StateBatch(0, 9, DeliveryState.ACKNOWLEDGED, 1)
        write = WriteState(self._write_id, 1, 5, 10, 0, (state,), Cause.ACCEPT, MEMBER)
        request_id = 100 + self._write_id
        self.watch.saw(Acknowledge(request_id, MEMBER, batches), (write,))
        self.watch.saw(StateWritten(self._write_id, error), (Answered(request_id, error),))


def test_met_1_counts_offsets_of_successful_acknowledgements_and_no_gaps():
    world = World()
    types = (KINDS.RELEASE, KINDS.REJECT, KINDS.RELEASE, KINDS.RELEASE, KINDS.REJECT, KINDS.RELEASE)
    world.acknowledge(AcknowledgementBatch(15, 20, types))
    world.acknowledge(AcknowledgementBatch(12, 12, (KINDS.ACCEPT,)))
    world.acknowledge(AcknowledgementBatch(30, 34, (KINDS.RENEW,)))
    world.acknowledge(AcknowledgementBatch(40, 44, (KINDS.GAP,)))
    world.acknowledge(
        AcknowledgementBatch(50, 59, (KINDS.ACCEPT,)), error=ErrorCode.FENCED_LEADER_EPOCH
    )
    name = "share_records_acknowledged_total"
    found = {
        kind: world.value(name, type=kind) for kind in ("accept", "release", "reject", "renew")
    }
    assert found == {"accept": 1, "release": 4, "reject": 2, "renew": 5}
    assert world.value(name) == 12
    assert world.value("share_acknowledgements_failed_total") == 1


def test_met_8_two_ranges_of_one_type_count_all_their_offsets():
    world = World()
    ranges = [AcknowledgementBatch(a, b, (KINDS.ACCEPT,)) for a, b in ((12, 20), (24, 56))]
    assert counted(ranges) == {KINDS.ACCEPT: 42}
    world.acknowledge(*ranges)
    assert world.value("share_records_acknowledged_total", type="accept") == 42


def test_met_1_load_and_acquire_times():
    world = World()
    world.watch.saw(Initialize(), ())
    world.watch.saw(StateRead(ErrorCode.NONE), (Initialized(ErrorCode.NONE),))
    assert world.value("share_partition_load_duration_seconds_sum") == 0.001
    world.watch.fetch_locked()
    event = Acquire(1, MEMBER, AcquireMode.BATCH_OPTIMIZED, 10, 10, 0, ())
    world.watch.saw(event, (RecordsAcquired(1, (AcquiredRun(0, 9, 1),), 10),))
    world.watch.fetch_unlocked()
    assert world.value("share_acquire_duration_seconds_sum", group="g") == 0.001


def test_met_2_expired_locks_count_records():
    world = World()
    for write_id, (first, last) in enumerate([(10, 14), (0, 9)], 1):
        batch = StateBatch(first, last, DeliveryState.AVAILABLE, 1)
        write = WriteState(write_id, 1, 5, 0, 0, (batch,), Cause.LOCK_EXPIRY, MEMBER)
        world.watch.saw(Tick(), (LocksExpired(last - first + 1), write))
    world.watch.saw(Tick(), ())
    page = world.page()
    assert page["share_locks_expired_total", frozenset(HERE)] == 15


def test_met_2_batches_are_counted_as_they_enter_the_cache_initialization_included():
    world = World()
    batches = (StateBatch(0, 4, DeliveryState.AVAILABLE, 1),)
    world.watch.saw(StateRead(ErrorCode.NONE, batches=batches), (Initialized(ErrorCode.NONE),))
    event = Acquire(1, MEMBER, AcquireMode.BATCH_OPTIMIZED, 10, 100, 0, ())
    taken = (AcquiredRun(0, 4, 2), AcquiredRun(5, 24, 1))  # the first is in the cache already
    world.watch.saw(event, (RecordsAcquired(1, taken, 25),))
    assert world.value("share_inflight_batch_records_count") == 2
    assert world.value("share_inflight_batch_records_sum") == 25
    assert world.value("share_records_redelivered_total") == 5


def test_met_2_fetch_lock_time_and_its_share():
    world = World()
    for _ in range(2):  # held for 1 ms of each 2
        world.watch.fetch_locked()
        world.watch.fetch_unlocked()
    assert world.value("share_fetch_lock_duration_seconds_sum") == 0.002
    assert world.value("share_fetch_lock_busy_percent_sum") == 50


def test_met_5_every_state_has_a_series():
    registry = Registry()
    GroupGauges(list).register(registry)
    page = parse(expose(registry.collect()))
    for state in GroupState:
        assert page["share_groups", frozenset({("state", state.name.lower())})] == 0


@pytest.mark.parametrize(
    ("busy_s", "passed_ms", "idle"),
    [(0.0, 250, 100), (0.25, 250, 0), (0.05, 250, 80), (0.3, 250, 0), (0.0, 1, 100)],
)
def test_met_6_idle_is_what_the_loop_did_not_compute(busy_s, passed_ms, idle):
    assert idle_percent(busy_s, passed_ms) == pytest.approx(idle)
