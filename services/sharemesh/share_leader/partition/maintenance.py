"""Periodic work on led partitions: log settings, retention, the machine's invariants."""

import logging
from collections.abc import Iterator, Mapping

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.topics import (
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_AFTER_MAX_MS,
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    topic_config_int,
)
from sharemesh.ports.record_log import TopicLogConfig
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner

SELF_CHECK_MS = 1_000
"""Between two checks; one takes well under a millisecond for batches in one piece."""
RUNS_MAX = 4_000
"""With more offsets in flight, kept one by one, a check would hold the loop too long: skipped."""
_log = logging.getLogger(__name__)


def log_config(configs: Mapping[str, str]) -> TopicLogConfig:
    """Return what a topic's stored settings mean for its logs; absent ones have their default."""
    segment_bytes = topic_config_int(configs, SEGMENT_BYTES) if SEGMENT_BYTES in configs else -1
    return TopicLogConfig(
        retention_ms=topic_config_int(configs, RETENTION_MS),
        retention_bytes=topic_config_int(configs, RETENTION_BYTES),
        batch_bytes_max=topic_config_int(configs, MAX_MESSAGE_BYTES),
        segment_bytes=segment_bytes,
        timestamp_before_max_ms=topic_config_int(configs, MESSAGE_TIMESTAMP_BEFORE_MAX_MS),
        timestamp_after_max_ms=topic_config_int(configs, MESSAGE_TIMESTAMP_AFTER_MAX_MS),
    )


class TopicSettings:
    """Keeps the logs of led partitions configured, and applies retention from time to time."""

    def __init__(self, environment: LeaderEnvironment, partitions: LedPartitions) -> None:
        self._environment = environment
        self._partitions = partitions
        self._applied: dict[TopicPartition, tuple[LedPartition, TopicLogConfig]] = {}
        self._planned = False

    def apply(self) -> None:
        """Configure logs whose topic's settings changed, or that were taken over since."""
        if not self._planned:
            self._planned = True
            self._plan()
        applied: dict[TopicPartition, tuple[LedPartition, TopicLogConfig]] = {}
        for led in self._partitions:
            topic = self._environment.view.topic(led.partition.topic_id)
            if topic is None:
                continue
            entry = (led, log_config(topic.configs))
            if self._applied.get(led.partition) != entry:
                led.log.configure(entry[1])
            applied[led.partition] = entry
        self._applied = applied

    async def retain(self) -> None:
        """Apply retention: advance log starts; groups resume from there (OFF-17)."""
        for led in self._partitions:
            if not led.serves_log:
                continue
            try:
                await led.log.apply_retention(self._environment.clock.wall_ms())
            except (FencedError, LogFailedError) as ended:
                self._partitions.epoch_ended(led, ended)
            except Exception as error:  # it concerns this log only
                trace = None if isinstance(error, RefusedError | OSError) else error
                _log.warning("retention of %s is put off: %s", led.partition, error, exc_info=trace)

    def _plan(self) -> None:
        environment = self._environment
        interval_ms = environment.settings.retention_check_interval_ms
        environment.alarms.at(environment.clock.now_ms() + interval_ms, self._retain_soon)

    def _retain_soon(self) -> None:
        self._environment.tasks.spawn_heard(self.retain(), self._retained)

    def _retained(self, outcome: BaseException | None) -> None:
        if isinstance(outcome, Exception):
            _log.error("retention failed, and is tried again", exc_info=outcome)
        self._plan()


class InvariantMonitor:
    """Checks one share partition after the other by the definitions of the property tests."""

    def __init__(self, environment: LeaderEnvironment, partitions: LedPartitions) -> None:
        self._environment = environment
        self._partitions = partitions
        self._turn = self._active()

    def begin(self) -> None:
        """Check the next share partition every ``SELF_CHECK_MS``."""
        self._environment.alarms.every(SELF_CHECK_MS, self._check_next)

    def _check_next(self) -> None:
        runner = next(self._turn, None)
        if runner is None:
            self._turn = self._active()
            runner = next(self._turn, None)
        if runner is not None:
            self._check(runner)

    def _active(self) -> Iterator[SharePartitionRunner]:
        """Iterate over active share partitions; those added meanwhile come in the next pass."""
        for led in self._partitions:
            for runner in list(led.shares.values()):
                if runner.phase is Phase.ACTIVE and runner.machine.run_count <= RUNS_MAX:
                    yield runner

    def _check(self, runner: SharePartitionRunner) -> None:
        counters = self._environment.counters
        counters.invariants_checked += 1
        try:
            runner.machine.validate()
        except Exception as error:  # in an impossible state the check itself may fail
            counters.invariants_broken += 1
            key = runner.key
            _log.error(
                "share partition %s:%s-%d is in a state that no rule allows: %r; this is a bug of "
                "sharemesh: report this line and the answer of `sharemesh explain`, and restart "
                "this process if records of the partition are not delivered",
                key.group_id,
                key.topic_id.hex(),
                key.partition,
                error,
            )
